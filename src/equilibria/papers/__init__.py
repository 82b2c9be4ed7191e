"""The figures of the source papers, each one run, plotted and checked against what the paper says.

The index is a plain table so that the command line can list it without importing JAX; the module of a figure is imported
when it is asked for. "paper/figure" is papers/paper/figure.py, which has a frozen dataclass `Config`, its `PRESETS` "quick"
and "paper", the functions `run`, `plot` and `claims`, and in `DIFFERS` what is not as in the paper; `Experiment` says what
each of them does.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from equilibria import check

if TYPE_CHECKING:
    from equilibria.papers.frame import Experiment

PAPERS: dict[str, str] = {
    "huang2019": "Huang 2019: How data, synapses and neurons interact with each other",
    "decelle2017": "Decelle, Fissore and Furtlehner 2017: Spectral dynamics of learning in restricted Boltzmann machines",
    "agliari2024": "Agliari 2024: Machine learning, from mammal's brain to statistical mechanics",
    "scellier2017": "Scellier and Bengio 2017: Towards a biologically plausible backprop",
}
INDEX: dict[str, str] = {
    "decelle2017/fig1": "Singular values and exact likelihood of the linear machine against time",
    "decelle2017/phases": "Phase diagram of the ensemble with the AT line, sampled machines, and stable states by law",
    "decelle2017/extensive": "As many modes as hidden neurons: correlations by the average over the orthogonal group",
    "decelle2017/curve": "The spectrum of a machine that learns, predicted and measured",
    "decelle2017/fields": "The learning curve with its visible and hidden fields, predicted and measured",
    "decelle2017/fig2": "Singular values of a machine that learns MNIST, against the law of noise",
    "decelle2017/fig3": "First modes learnt against the principal components of the data",
    "decelle2017/fig4": "Modes amplified and damped while a machine learns MNIST",
    "decelle2017/settings": "Which statements about MNIST hold in each setting that the paper leaves open",
    "decelle2017/likelihood": "Log-likelihood of MNIST while a machine of 784 x 500 learns",
    "agliari2024/curie_weiss": "The Curie-Weiss model: law of the magnetisation, and its mean against temperature",
    "agliari2024/minima": "How many local minima the energy has, against the number of neurons",
    "agliari2024/retrieval": "Retrieval of a stored pattern by the Hopfield network",
    "agliari2024/ags": "Retrieval with many patterns: overlaps and phase diagram of AGS",
    "agliari2024/scaling": "The edge of retrieval against the number of neurons",
    "agliari2024/dreaming": "Dreaming: capacity against the time slept",
    "agliari2024/phases": "Dreaming: phase diagrams, with simulated networks on them",
    "agliari2024/examples": "Learning from examples: overlap with archetypes never seen",
    "agliari2024/examples_phases": "Learning from examples: phase diagrams, with and without a teacher and sleep",
    "agliari2024/equivalence": "Hopfield network and restricted Boltzmann machine: one law",
    "agliari2024/initialisation": "Hopfield initialisation of a Boltzmann machine",
    "agliari2024/complexity": "Complexity of datasets: overlaps of examples and of replicas",
    "huang2019/fig2a": "Binary synapses: learning two planted receptive fields",
    "huang2019/fig2b": "Binary synapses: learning three planted receptive fields",
    "huang2019/fig3a": "Binary synapses: overlap against data density, and the thresholds",
    "huang2019/onset": "Binary synapses: where learning begins in large machines, against theory",
    "huang2019/fig3b": "Binary synapses: learning handwritten digits with four hidden neurons",
    "huang2019/fig_esteps": "Binary synapses: the E-steps side by side",
    "huang2019/mnist_wide": "Binary synapses: hundreds of hidden neurons on handwritten digits",
    "scellier2017/theorem": "The gradient from two phases, and what nudging does to the cost",
    "scellier2017/stdp": "Spike-timing dependent plasticity adds up to the contrast of two phases",
    "scellier2017/stochastic": "The stochastic framework: responses of expectations, sampled and exact",
    "scellier2017/comparison": "Equilibrium propagation beside its relatives: gradients and learning",
    "scellier2017/contrastive": "The contrastive cost becomes negative, the squared error does not",
    "scellier2017/signals": "What the nudge sends back is the back-propagated error",
    "scellier2017/architectures": "Networks with skip connections, and fully connected ones, learn by the same rule",
    "scellier2017/relaxation": "Steps and duration of the relaxation, and iterations to rest against depth",
    "scellier2017/table2": "How Table 2 is to be read: classes lost at the start, and rates of layers",
    "scellier2017/fig5a": "MNIST by the paper's schedule: one hidden layer",
    "scellier2017/fig5a_printed": "MNIST by Table 2 as it is printed: one hidden layer",
    "scellier2017/fig5a_signs": "MNIST by the authors' code of 2017, nudges of both signs: one hidden layer",
    "scellier2017/fig5b": "MNIST by the paper's schedule: two hidden layers",
    "scellier2017/fig5b_signs": "MNIST by the authors' code of 2017, nudges of both signs: two hidden layers",
    "scellier2017/fig5c": "MNIST by the paper's schedule: three hidden layers",
    "scellier2017/ours": "MNIST by our schedules",
}


def check_id(id: str) -> str:
    """The id of a figure, if it is in the index.

    Args:
        id: "paper/figure".

    Returns:
        The same.

    Raises:
        ValueError: if there is no such figure; it names those with similar names.

    >>> check_id("agliari2024/retreival")
    Traceback (most recent call last):
    ValueError: experiment: got 'agliari2024/retreival'; allowed: what `equilibria list` shows;
    close: agliari2024/retrieval, ...
    """
    if id not in INDEX:
        named = [known for known in INDEX if id in known.split("/")]
        close = ", ".join(named or difflib.get_close_matches(id, INDEX))
        check.refuse("experiment", repr(id), "what `equilibria list` shows" + f"; close: {close}" * bool(close))
    return id


def find(id: str) -> Experiment[Any]:
    """How a figure of the index is made; its module is imported now.

    Args:
        id: "paper/figure".

    Returns:
        The experiment, with the title that the index has for it.

    Raises:
        ValueError: if there is no such figure.

    >>> find("agliari2024/retrieval").title
    'Retrieval of a stored pattern by the Hopfield network'
    """
    from equilibria.papers.frame import Experiment

    module = importlib.import_module(f"{__name__}.{check_id(id).replace('/', '.')}")
    differs = getattr(module, "DIFFERS", {})
    return Experiment(id, INDEX[id], module.PRESETS, module.run, module.plot, module.claims, differs)

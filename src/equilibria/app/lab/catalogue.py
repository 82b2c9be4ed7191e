"""The rooms and their dials: all that the page needs for its first picture, and nothing that takes long to import."""

from __future__ import annotations

from equilibria.app.lab.dials import SEED, Dial, Plan, named
from equilibria.papers import check_id

PORT = 8017
HOME = f"http://127.0.0.1:{PORT}/"
SIDE = 28
NEURONS = SIDE * SIDE
MOST_DRAWN = 8
_BITS = 132  # characters of base64 for one picture of 28 x 28, and the dot after it
_SLEEPS = named(0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)

REMEMBER = Plan(
    "remember",
    "Remember",
    "A network of 784 neurons falls from a cue into what it has stored. Theory says where that works.",
    (
        Dial(
            "patterns", "Patterns", "digits", "choice",
            choices=(("random", "random"), ("digits", "handwritten digits"), ("mine", "my own pictures")),
        ),
        Dial("load", "Load α = K/N", 0.01, least=1 / NEURONS, most=1.0, step=1 / NEURONS, scale="sqrt",
             about="How many patterns are stored for each neuron."),
        Dial("temperature", "Temperature T", 0.4, most=1.5, step=0.01, live=True, about="Noise of the neurons."),
        Dial("sleep", "Sleep t", 10, "choice", choices=_SLEEPS,
             about="0 is Hebb's rule; sleep takes the patterns' interference away."),
        Dial("order", "Update", "random", "choice", choices=(("random", "one by one"), ("parallel", "all at once"))),
        Dial("flips", "Flipped in the cue", 0.2, most=0.5, step=0.01, about="Part of the cue's neurons that is wrong."),
        Dial("masked", "Missing in the cue", 0.3, most=0.5, step=0.01, about="Part of the cue that is not known."),
        Dial("target", "Pattern shown", 0, "whole", 0, NEURONS - 1, 1),
        Dial("pace", "Sweeps a second", 8, "whole", 1, 30, 1, live=True),
        SEED,
        Dial("mine", "My pictures", "", "text", most=MOST_DRAWN * _BITS),
        Dial("cue", "Drawn cue", "", "text", most=_BITS),
    ),
    ("agliari2024/retrieval", "agliari2024/curie_weiss", "agliari2024/equivalence"),
)  # fmt: skip

PHASES = Plan(
    "phases",
    "Phase diagram",
    "What theory says of large networks; drag a rectangle, and small ones are simulated in it.",
    (
        Dial(
            "model", "Network", "hopfield", "choice",
            choices=(("hopfield", "Hopfield, slept"), ("examples", "from examples"), ("modes", "RBM with a mode")),
        ),
        Dial("sleep", "Sleep t", 0, "choice", choices=_SLEEPS, about="0 is Amit, Gutfreund and Sompolinsky's."),
        Dial("quality", "Quality r of examples", 0.7, least=0.2, most=1.0, step=0.05,
             about="An entry of an example is right with probability (1 + r)/2."),
        Dial("examples", "Examples of each pattern", 8, "whole", 1, 20, 1),
        Dial("supervised", "It knows", "labels", "choice", choices=(("labels", "whose they are"), ("none", "nothing"))),
        Dial("aspect", "Hidden per visible κ", 0.5, "choice", choices=named(0.25, 0.5, 1)),
        Dial("points", "Points along a side", 4, "whole", 1, 8, 1),
        SEED,
        Dial("area", "Rectangle", "", "text", most=80),
        Dial("here", "Point", "", "text", most=40),
    ),
    ("agliari2024/ags", "agliari2024/dreaming", "agliari2024/phases", "agliari2024/scaling", "agliari2024/examples",
     "agliari2024/examples_phases", "decelle2017/phases"),
)  # fmt: skip

DISTRIBUTION = Plan(
    "distribution",
    "Learn a distribution",
    "A restricted Boltzmann machine learns: its modes come out of the noise one by one, when theory says.",
    (
        Dial(
            "data", "Data", "clusters", "choice",
            choices=(("clusters", "planted clusters"), ("digits", "handwritten digits"), ("table", "my own table")),
        ),
        Dial("hidden", "Hidden neurons", 60, "choice", choices=named(30, 60)),
        Dial("rate", "Learning rate", 0.002, "choice", choices=named(0.0005, 0.001, 0.002, 0.005)),
        Dial("sweeps", "Sweeps for each update", 2, "whole", 1, 10, 1),
        Dial("steps", "Updates", 2000, "whole", 200, 10_000, 200),
        SEED,
        Dial("table", "My table", "", "text", most=40),
    ),
    ("decelle2017/fig1", "decelle2017/fig2", "decelle2017/fig3", "decelle2017/fig4", "decelle2017/curve",
     "decelle2017/likelihood"),
)  # fmt: skip

CLASSIFY = Plan(
    "classify",
    "Learn to classify",
    "The answer is where the network comes to rest; nudged, it sends the gradient back.",
    (
        Dial("layers", "Hidden layers", 2, "choice", choices=named(1, 2, 3)),
        Dial("nudge", "Nudge β", 0.3, least=0.02, most=1.0, step=0.02, about="How far the output is pulled to the target."),
        Dial("sweeps", "Sweeps of a nudged phase", 8, "whole", 1, 16, 1),
        Dial("rate", "Learning rate", 0.004, least=0.0005, most=0.02, step=0.0005, scale="sqrt"),
        Dial("epochs", "Epochs", 12, "whole", 1, 30, 1),
        Dial("which", "Digit shown", "hardest", "choice", live=True,
             choices=(("hardest", "the hardest now"), ("number", "by its number"))),
        Dial("shown", "Its number", 0, "whole", 0, 359, 1, live=True, about="Of the 360 that are not learned from."),
        SEED,
    ),
    ("scellier2017/theorem", "scellier2017/comparison", "scellier2017/table2", "scellier2017/stdp",
     "scellier2017/signals", "scellier2017/fig5a", "scellier2017/fig5b", "scellier2017/fig5c"),
)  # fmt: skip

SYNAPSES = Plan(
    "synapses",
    "Binary synapses",
    "Weights of ±1 are found again from data that they made, once there are enough data.",
    (
        Dial("density", "Data density α = M/N", 4.0, least=0.1, most=6.0, step=0.1, about="Examples for each neuron."),
        Dial("fields", "Planted fields P", 2, "choice", choices=named(2, 3)),
        Dial("correlation", "Their correlation q", 0.0, "choice", choices=named(0, 0.2, 0.4)),
        Dial("steps", "Steps", 200, "whole", 20, 400, 20),
        SEED,
        Dial("sweep", "Densities", "one", "choice", choices=(("one", "this one"), ("all", "all in turn"))),
    ),
    ("huang2019/fig2a", "huang2019/fig2b", "huang2019/fig3a", "huang2019/fig_esteps",
     "huang2019/onset"),
)  # fmt: skip

PLANS: dict[str, Plan] = {plan.name: plan for plan in (REMEMBER, PHASES, DISTRIBUTION, CLASSIFY, SYNAPSES)}


def room_link(experiment: str, base: str = "") -> str | None:
    """The address of the room that shows a figure live, for a page that links to the lab.

    Args:
        experiment: "paper/figure".
        base: where the lab is, such as http://127.0.0.1:8017/; by default the address is relative.

    Returns:
        The address, or None if no room shows the figure.

    Raises:
        ValueError: if there is no such figure.

    >>> room_link("agliari2024/retrieval")
    '#remember'
    """
    check_id(experiment)
    rooms = (name for name, plan in PLANS.items() if experiment in plan.experiments)
    room = next(rooms, None)
    return None if room is None else f"{base}#{room}"

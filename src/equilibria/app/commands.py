"""`equilibria train`, `sample`, `evaluate`, `diagnose` and `export`; heavy imports stay inside the functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from equilibria.app.options import Classifier, Deep, Flag, Memory, Rbm, Synapses

Kind = (
    Annotated[Rbm, tyro.conf.subcommand("rbm")]
    | Annotated[Deep, tyro.conf.subcommand("deep")]
    | Annotated[Classifier, tyro.conf.subcommand("classifier")]
    | Annotated[Memory, tyro.conf.subcommand("memory")]
    | Annotated[Synapses, tyro.conf.subcommand("synapses")]
)
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


def train(kind: Kind) -> int:
    """Train a machine on a table of your own.

    Args:
        kind: what to train.
    """
    from equilibria.app import binary, classifier, machines, memory
    from equilibria.compiled import cache

    cache()
    match kind:
        case Rbm():
            return machines.train_rbm(kind)
        case Deep():
            return machines.train_deep(kind)
        case Classifier():
            return classifier.train(kind)
        case Memory():
            return memory.train(kind)
        case Synapses():
            return binary.train(kind)


def sample(
    run: Folder,
    count: int = 64,
    sweeps: int = 1000,
    temperature: float = 1.0,
    tempered: Annotated[bool, Flag] = False,
    seed: int = 0,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None,
) -> int:
    """Draw from a trained machine of any kind but a classifier.

    Args:
        run: folder of the run.
        count: number of draws.
        sweeps: sweeps before each draw.
        temperature: of the neurons.
        tempered: exchange states along the networks that the run has kept, else along rising temperatures, as well.
        seed: of every random number.
        out: .npy file for the draws, with a table or a picture beside it. By default samples.npy in the run's folder.
    """
    from equilibria.app import using
    from equilibria.compiled import cache

    cache()
    return using.sample(run, count, sweeps, temperature, seed, out, tempered)


def evaluate(
    run: Folder,
    data: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    method: Literal["auto", "exact", "ais", "bethe"] = "auto",
    steps: int = 14_500,
    chains: int = 100,
    array: Annotated[str | None, tyro.conf.arg(help_behavior_hint="")] = None,
    allow_large: Annotated[bool, Flag] = False,
    labels: Annotated[str | None, tyro.conf.arg(metavar="FILE|NAME", help_behavior_hint="")] = None,
    weights: Annotated[str | None, tyro.conf.arg(metavar="FILE|NAME", help_behavior_hint="")] = None,
    seed: int = 0,
) -> int:
    """How well a trained machine does on a table: log-likelihood with its error, accuracy, or which memory is recalled.

    The table is read as the one that the machine was trained on; where that had names, the columns are found by name.

    Args:
        run: folder of the run.
        data: a table of the same features.
        method: auto is exact where the sum has up to 2^20 states, else annealed importance sampling.
        steps: temperatures of the annealing.
        chains: chains of the annealing.
        array: name of the array, for files with several; as in training by default.
        allow_large: read packed files that take more than 2 GiB of memory.
        labels: for a classifier, the right answers where they are no column of the table: a file, or an array in its file.
        weights: for a log-likelihood, how much each example counts: a file, an array in the table's file, or a column of it.
        seed: of every random number.
    """
    from equilibria.app import using
    from equilibria.compiled import cache

    cache()
    return using.evaluate(run, data, array, allow_large, method, steps, chains, seed, labels, weights)


def diagnose(
    run: Folder,
    data: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None,
    sweeps: int = 2000,
    chains: int = 50,
    tempered: Annotated[bool, Flag] = False,
    temperature: float = 1.0,
    array: Annotated[str | None, tyro.conf.arg(help_behavior_hint="")] = None,
    seed: int = 0,
) -> int:
    """Whether the chains of a trained machine have equilibrated. The exit code is 1 if they have not.

    Chains from random starts and from data make the same sweeps, and the second half of them is compared. A classifier has no
    chains: it is told whether it comes to rest under each row of the data, at the same place from wherever it starts.

    Args:
        run: folder of the run.
        data: a table of the same features, to start from and to compare with; without it all chains start at random, those of
            a memory at its patterns.
        sweeps: of each chain.
        chains: of each kind.
        tempered: exchange states along the networks that the run has kept, else along rising temperatures, as well.
        temperature: of the chains.
        array: name of the array, for files with several; as in training by default.
        seed: of every random number.
    """
    from equilibria.app import diagnose as diagnosing
    from equilibria.compiled import cache

    cache()
    return diagnosing.diagnose(run, data, array, sweeps, chains, tempered, temperature, seed)


def export(
    run: Folder,
    to: Literal["npz", "csv", "torch"] = "npz",
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None,
) -> int:
    """Write the parameters of a trained machine for other programs.

    Args:
        run: folder of the run.
        to: npz for NumPy, csv for spreadsheets and R, torch for a state dict of PyTorch.
        out: the file. By default machine.npz, machine.csv or machine.pt in the run's folder.
    """
    from equilibria.app import using

    return using.export(run, to, out)

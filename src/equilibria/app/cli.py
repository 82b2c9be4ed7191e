"""The command line. Each command is one function in `COMMANDS`; heavy imports stay inside the functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from equilibria.learn.names import LikelihoodRecipe
from equilibria.papers import INDEX, check_id

Preset = Literal["quick", "paper"]
Units = Literal["binary", "spin", "gaussian"]
Cluster = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")]


def list_experiments() -> int:
    """List the figures that can be reproduced."""
    width = max(map(len, INDEX))
    for id, title in sorted(INDEX.items()):
        print(f"{id:<{width}}  {title}")
    return 0


def reproduce(
    experiment: Annotated[str, tyro.conf.arg(metavar="PAPER/FIGURE"), tyro.conf.Positional],
    preset: Preset = "quick",
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None,
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    cluster: Cluster = None,
) -> int:
    """Make a figure of a paper and check what the paper says about it. The exit code is 1 if a claim does not hold.

    Args:
        experiment: which figure, as `equilibria list` shows it.
        preset: quick is a small version of the run; paper is the algorithm, size and schedule of the paper.
        out: folder for result.nc, figure.png, figure.pdf, config.json and claims.json.
            By default results/PAPER/FIGURE/PRESET.
        force: run again even if the result is there.
        cluster: a Dask scheduler such as tcp://host:8786, which computes the grids of the figure. What is not a grid is
            computed here.
    """
    check_id(experiment)  # a misspelt name is answered before the slow imports
    from equilibria.app import figures
    from equilibria.app.compile_cache import cache_compilations

    cache_compilations()
    return figures.reproduce(experiment, preset, out, force, cluster)


def report(
    out: Path = Path("results"),
    preset: Preset = "quick",
    jobs: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None,
    kept: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Reproduce every figure that is not there yet, and write one page about all of them.

    The page is there after the first figure, and grows. Figures whose data are missing are left out, with what to do about
    it. The exit code is 0 once the page is written, also where a claim does not hold: the page says so, and which results
    are stale, made by earlier code.

    Args:
        out: folder for the results and for report.html.
        preset: quick is a small version of each run; paper is the algorithm, size and schedule of the papers.
        jobs: figures made at the same time, each in its own process; as many as there are cores by default.
        kept: only the page, about what is there; nothing is run.
    """
    from equilibria.app import figures
    from equilibria.app.compile_cache import cache_compilations

    cache_compilations()
    return figures.report(out, preset, jobs, kept)


def phase_diagram(
    model: Annotated[Literal["hopfield"], tyro.conf.Positional],
    sleep: tyro.conf.UseAppendAction[tuple[float, ...]] = (),
    points: int = 100,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/phase-diagram"),
    cluster: Cluster = None,
) -> int:
    """Draw what theory says a large network does at each load and temperature, and keep the numbers.

    Args:
        model: which network.
        sleep: sleeping time; give it several times for several diagrams side by side. By default 0, Hebb's rule.
        points: of the grid along each axis.
        out: folder for phase-diagram.png and phase-diagram.nc.
        cluster: a Dask scheduler such as tcp://host:8786, which computes the diagram after each sleep.
    """
    from equilibria.app import hopfield
    from equilibria.app.compile_cache import cache_compilations
    from equilibria.grids.engines import on_cluster

    cache_compilations()
    with on_cluster(cluster):
        return hopfield.phase_diagram(sleep or (0.0,), points, out)


def recall(
    patterns: Annotated[Path, tyro.conf.arg(metavar="DIR")],
    cue: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    sleep: float = 0.0,
    temperature: float = 0.0,
    sweeps: int = 100,
    seed: int = 0,
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("recalled.png"),
) -> int:
    """Store pictures in a Hopfield network and recall one from a cue. The exit code is 1 if none of them is recalled.

    Args:
        patterns: folder of pictures, all of one size; pixels brighter than half are on.
        cue: the picture to start from.
        sleep: sleeping time of the network: 0 is Hebb's rule; pictures that resemble each other need more, up to inf.
        temperature: of the neurons.
        sweeps: at most so many updates of every neuron.
        seed: of the order in which neurons are visited.
        out: picture of the cue, what it became, and the stored picture closest to that.
    """
    from equilibria.app import hopfield
    from equilibria.app.compile_cache import cache_compilations

    cache_compilations()
    return hopfield.recall(patterns, cue, sleep, temperature, sweeps, seed, out)


def train(
    kind: Annotated[Literal["rbm"], tyro.conf.Positional],
    data: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")],
    hidden: int = 100,
    recipe: LikelihoodRecipe = "pcd",
    steps: int = 1,
    epochs: int = 10,
    batch_size: int = 100,
    chains: int | None = None,
    learning_rate: float = 0.05,
    final_rate: float = 0.1,
    l1: float = 0.0,
    l2: float = 0.0,
    visible_units: Units = "binary",
    hidden_units: Units = "binary",
    array: str | None = None,
    seed: int = 0,
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    time_limit: Annotated[float | None, tyro.conf.arg(metavar="SECONDS", help_behavior_hint="")] = None,
) -> int:
    """Train a restricted Boltzmann machine on a table of your own.

    When the time limit is reached, or the system sends SIGTERM or SIGUSR1, as batch queues do, the run writes its checkpoint
    and the exit code is 75: the same command with --resume goes on, bit for bit as if it had not been stopped.

    Args:
        kind: what to train.
        data: .npy, .npz, .csv or .h5 file of shape (examples, features); for binary units 0 and 1, or between.
        out: folder for checkpoints, history.nc and pictures of samples, filters and the learning curve.
        hidden: number of hidden neurons.
        recipe: how the free phase is reached.
        steps: sweeps (or rounds) of the free phase in each update.
        epochs: passes through the data.
        batch_size: examples in an update.
        chains: persistent chains; as many as examples in a batch by default.
        learning_rate: at the start; it falls linearly.
        final_rate: what it falls to, as a fraction. 1 keeps it, and lets a run that is resumed have more epochs.
        l1: penalty on the size of the couplings.
        l2: penalty on their squares.
        visible_units: kind of the features.
        hidden_units: kind of the hidden neurons.
        array: name of the array, for files with several.
        seed: of every random number.
        resume: go on with the run in the folder, if there is one.
        time_limit: stop after so many seconds of training, within about a second. By default never.
    """
    from equilibria.app import rbm
    from equilibria.app.compile_cache import cache_compilations

    cache_compilations()
    options = rbm.Training(
        recipe=recipe,
        steps=steps,
        epochs=epochs,
        batch_size=batch_size,
        chains=chains,
        learning_rate=learning_rate,
        final_rate=final_rate,
        l1=l1,
        l2=l2,
        seed=seed,
        resume=resume,
        time_limit=time_limit,
    )
    return rbm.train(data, out, array, hidden, (visible_units, hidden_units), options)


def sample(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    count: int = 64,
    sweeps: int = 1000,
    temperature: float = 1.0,
    seed: int = 0,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None,
) -> int:
    """Draw from a trained machine.

    Args:
        run: folder of the run.
        count: number of draws.
        sweeps: sweeps before each draw.
        temperature: of the neurons.
        seed: of every random number.
        out: .npy file for the draws, with a picture beside it. By default samples.npy in the run's folder.
    """
    from equilibria.app import rbm
    from equilibria.app.compile_cache import cache_compilations

    cache_compilations()
    return rbm.sample(run, count, sweeps, temperature, seed, out)


def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    data: Annotated[Path, tyro.conf.arg(metavar="FILE")],
    method: Literal["auto", "exact", "ais", "bethe"] = "auto",
    steps: int = 14_500,
    chains: int = 100,
    array: str | None = None,
    seed: int = 0,
) -> int:
    """The log-likelihood of data under a trained machine, with its error.

    Args:
        run: folder of the run.
        data: .npy, .npz, .csv or .h5 file of shape (examples, features).
        method: auto is exact where the sum has up to 2^20 states, else annealed importance sampling.
        steps: temperatures of the annealing.
        chains: chains of the annealing.
        array: name of the array, for files with several.
        seed: of every random number.
    """
    from equilibria.app import rbm
    from equilibria.app.compile_cache import cache_compilations

    cache_compilations()
    return rbm.evaluate(run, data, array, method, steps, chains, seed)


COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_experiments,
    "reproduce": reproduce,
    "report": report,
    "phase-diagram": phase_diagram,
    "recall": recall,
    "train": train,
    "sample": sample,
    "evaluate": evaluate,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors of use are one line on stderr.

    Args:
        arguments: those of the process by default.

    Returns:
        The exit code: 0; 1 where the answer is no (a claim that does not hold, a picture that is not recalled); 2 for an
        error of use; 75 for a run that was told to stop and can go on; 130 after Ctrl-C.

    >>> main(["reproduce", "no/such-figure"])
    2
    """
    try:
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="equilibria",
            description="Neural networks that work and learn by coming to equilibrium, and the theory of them.",
            args=arguments,
        )
    except BrokenPipeError:  # whoever read the output, `head` for one, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes on its way out
        return 0
    except (ValueError, OSError) as error:
        if os.environ.get("EQUILIBRIA_DEBUG"):
            raise
        print("equilibria: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("equilibria: interrupted", file=sys.stderr)
        return 130  # what shells expect of a program stopped by Ctrl-C


if __name__ == "__main__":
    sys.exit(main())

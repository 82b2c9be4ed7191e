"""The command line. Each command is one function in `COMMANDS`; heavy imports stay inside the functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from equilibria import __version__
from equilibria.app.commands import diagnose, evaluate, export, sample, train
from equilibria.app.lab.command import serve as lab
from equilibria.app.terminal import explained, explains_itself, spell
from equilibria.papers import INDEX, check_id

Preset = Literal["quick", "paper"]
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
    from equilibria.compiled import cache

    cache()
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
    from equilibria.compiled import cache

    cache()
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
        out: folder for phase-diagram.nc and the picture, phase-diagram.png, .pdf and .svg.
        cluster: a Dask scheduler such as tcp://host:8786, which computes the diagram after each sleep.
    """
    from equilibria.app import hopfield
    from equilibria.compiled import cache
    from equilibria.grids.engines import on_cluster

    cache()
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
    from equilibria.compiled import cache

    cache()
    return hopfield.recall(patterns, cue, sleep, temperature, sweeps, seed, out)


COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_experiments,
    "reproduce": reproduce,
    "report": report,
    "phase-diagram": phase_diagram,
    "recall": recall,
    "train": train,
    "sample": sample,
    "evaluate": evaluate,
    "diagnose": diagnose,
    "export": export,
    "lab": lab,
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
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(f"equilibria {__version__}")
        return 0
    spell()
    try:
        return tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="equilibria",
            description="Neural networks that work and learn by coming to equilibrium, and the theory of them. "
            "`equilibria --version` says which version this is.",
            args=given,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )
    except BrokenPipeError:  # whoever read the output, `head` for one, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes on its way out
        return 0
    except (ValueError, ArithmeticError, OSError, MemoryError, RuntimeError) as error:
        if os.environ.get("EQUILIBRIA_DEBUG") or not explains_itself(error):
            raise
        print("equilibria: error:", explained(error, given), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("equilibria: interrupted", file=sys.stderr)
        return 130  # what shells expect of a program stopped by Ctrl-C


if __name__ == "__main__":
    sys.exit(main())

"""The folder of a run: what was asked, which files are its own, what is out of date once it goes on."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equilibria import check, files
from equilibria.app.watch import say
from equilibria.learn.stopping import Callback

RESULTS = (
    "run.json", "history.nc", "samples.png", "filters.png", "filters.csv", "features.png", "correlations.png", "learning.png",
    "best.json", "root.safetensors",
)  # fmt: skip
ROOT = "root.safetensors"  # the machine of low rank that the run began with
# By evaluate, sample, diagnose and export.
_MADE_LATER = (
    "evaluation.json", "predictions.csv", "samples.npy", "samples.csv", "samples.fasta", "samples.json", "diagnosis.json",
    "diagnosis.nc", "diagnosis.png", "machine.npz", "machine.csv", "machine.pt",
)  # fmt: skip
_FREE = {"data", "out", "epochs", "time_limit", "resume", "quiet", "patience", "allow_large", "array"}


def begin(
    out: Path,
    kind: str,
    asked: Mapping[str, Any],
    table: Mapping[str, Any],
    found: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What is to be kept of what was asked; a run that goes on must be the one that began. Nothing is written yet.

    Args:
        out: the folder.
        kind: of the machine.
        asked: the options.
        table: what is to be known of the features later.
        found: what was found out from the data, and is kept as the run began.

    Returns:
        What `keep` writes.

    Raises:
        ValueError: if the folder holds a run and `resume` is not set, or another run, or files that are not of a run.
    """
    files.check_writable(out)
    now = {"kind": kind, **_plain(asked), "table": dict(table)}
    began = now
    if files.latest(out) is not None:
        if not asked["resume"]:
            check.refuse("--out", f"{out}, which holds a run", "another folder, or --resume to go on with that run")
        began = described(out) or now
        _refuse_another(out, began, now)
        with warnings.catch_warnings(action="ignore"):  # what is damaged is said when the run goes on
            if not isinstance(files.load(out, fallback=True).metadata.get("setup"), dict):
                check.refuse("--out", f"{out}, which holds a network and no run", "a folder that `train` has written")
    elif theirs := [name for name in RESULTS if os.path.lexists(out / name) and not _is_ours(out / name)]:
        check.refuse("--out", f"{out}, with {', '.join(theirs)} and no run", "another folder: they would be replaced")
    now |= {name: began.get(name, value) for name, value in (found or {}).items()}
    now["rate_epochs"] = began.get("rate_epochs", began.get("epochs"))
    return now


def keep(out: Path, now: Mapping[str, Any]) -> None:
    """Write what is known of a run as run.json into its folder."""
    files.write_atomic(out / "run.json", json.dumps(now).encode())


class TakenUp(Callback):
    """Writes run.json once the loop has taken a run up: one that is refused leaves the folder as it was.

    Args:
        out: the folder.
        now: what `begin` returned.
        longer: whether the machine is about to learn more, so that what was made of it is put aside.
    """

    def __init__(self, out: Path, now: Mapping[str, Any], longer: bool):
        self.out, self.now, self.longer = out, now, longer

    def begin(self) -> None:
        """Keep what was asked."""
        keep(self.out, self.now)
        for name in put_aside(self.out) if self.longer else ():
            say(f"  {name}: of the machine as it was before it went on, and renamed so")


def described(folder: Path) -> dict[str, Any]:
    """What is known of the run in a folder; nothing where nobody has written it down."""
    try:
        found = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in asked.items()}


def _refuse_another(out: Path, began: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in (name for name in now if name in began and name not in {*_FREE, "table"}):
        if began[name] != now[name] and not _same_text(began[name], now[name]):
            allowed = f"{began[name]}, with which the run in {out} began; or another folder"
            check.refuse(f"--{name.replace('_', '-')}", now[name], allowed)


def _same_text(first: Any, second: Any) -> bool:
    return str(first) == str(second)


def _is_ours(path: Path) -> bool:
    """Whether a file is what `train` leaves before its first checkpoint."""
    return path.name in ("run.json", ROOT) and {"data", "out"} <= described(path.parent).keys()


def put_aside(folder: Path) -> list[str]:
    """Rename what was made of a machine that is about to learn more, so that nobody takes it for the new one's.

    Args:
        folder: of the run.

    Returns:
        The new names, each with the step that it belongs to.
    """
    moved = []
    of = _steps_of(folder)
    for name in _MADE_LATER:
        path = folder / name
        before = of.get(name.partition(".")[0])
        if not path.is_file():
            continue
        ending = f"step-{before}" if before is not None else "an-earlier-step"
        aside = path.with_name(f"{path.stem}.of-{ending}{path.suffix}")
        path.replace(aside)
        moved.append(aside.name)
    return moved


def _steps_of(folder: Path) -> dict[str, int | None]:
    """The step of the machine that each kind of file was made with, as far as it is written down."""
    found: dict[str, int | None] = {}
    for name in ("evaluation", "samples", "diagnosis"):
        try:
            found[name] = json.loads((folder / f"{name}.json").read_text()).get("step")
        except (OSError, ValueError, AttributeError):
            found[name] = None
    return found


def existing(folder: Path) -> Path:
    """The folder of a run, if there is such a folder."""
    if not folder.is_dir():
        check.refuse("run", folder, "the folder of a run, which `train` or `eq.save_network` has written")
    return folder


def step_of(folder: Path) -> int | None:
    """How far the run in a folder has come; None where there is no checkpoint."""
    newest = files.latest(folder)
    number = None if newest is None else re.search(r"(\d+)", newest.name)
    return None if number is None else int(number[1])


def machine(folder: Path) -> Path:
    """Where the network of a run is: in a folder of its own where it is not the last state of learning."""
    apart = folder / "machine"
    return apart if files.latest(apart) is not None else folder

"""One figure of a paper: configuration -> run -> plot -> claims, with its results kept on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import inspect
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import xarray as xr
from matplotlib.figure import Figure

from equilibria import __version__, check, files, plots
from equilibria.papers import find
from equilibria.papers.claims import Claim
from equilibria.progress import Progress, progress

Config = TypeVar("Config")
_FILES = ("result.nc", "config.json", "figure.png", "figure.pdf", "claims.json")


@dataclass(frozen=True)
class Experiment(Generic[Config]):
    """How one figure is made: configuration -> run -> plot -> claims. `papers.find` makes it from the figure's module.

    Args:
        id: "paper/figure".
        title: what the figure shows, in one line.
        presets: configurations by name, "quick" and "full". `Config` is a frozen dataclass of plain values, usually with a
            `seed`.
        run: takes a configuration, and by name what it asks for of `progress` (a progress bar) and `checkpoint` (a folder,
            gone once the result is there, in which a run that takes hours keeps its state to go on from).
        plot: the figure of a result.
        claims: what the paper says, beside what a result says.

    >>> import xarray as xr
    >>> square = Experiment("a/b", "A square", {"quick": 3.0}, lambda side: xr.Dataset({"area": side**2}), None, None)
    >>> float(square.computed(square.presets["quick"])["area"])
    9.0
    """

    id: str
    title: str
    presets: Mapping[str, Config]
    run: Callable[..., xr.Dataset]
    plot: Callable[[xr.Dataset], Figure]
    claims: Callable[[xr.Dataset], list[Claim]]

    def computed(
        self, config: Config, *, progress: Progress = progress, checkpoint: str | Path | None = None
    ) -> xr.Dataset:
        """The result of a configuration.

        Args:
            config: one of the presets, or another.
            progress: makes the progress bars.
            checkpoint: a folder for the state of a long run; without one it starts from the beginning.

        Returns:
            What `run` returns.
        """
        offered = {"progress": progress, "checkpoint": None if checkpoint is None else Path(checkpoint)}
        asked = inspect.signature(self.run).parameters
        return self.run(config, **{name: value for name, value in offered.items() if name in asked})


class Reproduction(NamedTuple):
    """What `reproduce` did.

    Attributes:
        folder: where it is.
        dataset: the result.
        claims: what the paper says beside it.
        cached: whether the result had been there before.
        stored: whether everything could be written; a warning says why not.

    >>> Reproduction(Path("out"), xr.Dataset(), [], cached=False).held
    True
    """

    folder: Path
    dataset: xr.Dataset
    claims: list[Claim]
    cached: bool
    stored: bool = True

    @property
    def held(self) -> bool:
        """Whether every claim holds."""
        return all(claim.held for claim in self.claims)


def folder_of(id: str, preset: str, root: str | Path = "results") -> Path:
    """Where the results of an experiment are kept; quick results never overwrite full ones.

    Args:
        id: "paper/figure".
        preset: "quick" or "full".
        root: the folder of all results.

    Returns:
        The folder; it need not exist.

    >>> folder_of("agliari2024/retrieval", "quick").as_posix()
    'results/agliari2024/retrieval/quick'
    """
    return Path(root, *id.split("/"), preset)


def reproduce(
    experiment: str | Experiment[Any],
    preset: str = "quick",
    out: str | Path | None = None,
    *,
    force: bool = False,
    progress: Progress = progress,
) -> Reproduction:
    """Make a figure of a paper, and write result.nc, figure.png, figure.pdf, config.json and claims.json.

    The run is skipped when the folder holds the result of the same experiment with the same configuration and version of
    the package; a long run that was stopped goes on from where it was. The figure and the claims are always made anew. A
    result that cannot be stored in the end is still returned.

    Args:
        experiment: "paper/figure", or an experiment of one's own.
        preset: which configuration.
        out: the folder, results/PAPER/FIGURE/PRESET when it is not given. Files of the same names that this function did
            not write are never replaced.
        force: run again, from the beginning, and replace what this function has written there, also for another figure.
        progress: makes the progress bars.

    Returns:
        The folder, the result and the claims.

    Raises:
        ValueError: if there is no such experiment or preset, the configuration is not of plain values, or the folder holds
            something else.
        StorageError: if the folder cannot be written; that is found before the run.

    >>> reproduce("agliari2024/retrieval", "huge")
    Traceback (most recent call last):
    ValueError: preset: got 'huge'; allowed: 'quick', 'full'
    """
    if isinstance(experiment, str):
        experiment = find(experiment)
    config = experiment.presets[check.choice("preset", preset, experiment.presets)]
    folder = folder_of(experiment.id, preset) if out is None else Path(out)
    identity = _identity(experiment.id, config)
    _refuse_what_is_not_ours(folder, experiment.id, preset, force)
    dataset = None if force else _cached(folder / "result.nc", identity["fingerprint"])
    cached = dataset is not None
    stored = True
    if dataset is None:
        files.check_writable(folder)
        files.sweep(folder)
        checkpoint = _checkpoint(folder, identity)
        if force:
            _remove(checkpoint)
        dataset = _run(experiment, config, progress, identity, checkpoint).assign_attrs(preset=preset)
        stored = _kept(partial(files.save_dataset, folder / "result.nc", dataset))
        if stored:
            with contextlib.suppress(OSError):  # what is left of it does no harm
                _remove(checkpoint)
    claims = experiment.claims(dataset)
    stored = stored and _kept(partial(_write_rest, folder, experiment, preset, config, dataset, claims))
    return Reproduction(folder, dataset, claims, cached, stored)


def _checkpoint(folder: Path, identity: dict[str, str]) -> Path:
    """The folder for the state of a run, which carries its fingerprint: nobody else makes or means one of that name."""
    return folder / f"checkpoint-{identity['fingerprint'][:12]}"


def _remove(checkpoint: Path) -> None:
    if checkpoint.is_symlink():
        checkpoint.unlink()  # what it leads to was made by somebody else
    elif checkpoint.is_dir():
        shutil.rmtree(checkpoint)


def _kept(write: Callable[[], None]) -> bool:
    """Whether something could be written; what was computed is not lost for want of a disk."""
    try:
        write()
    except files.StorageError as error:
        warnings.warn(f"{error} The result is shown, but not kept.", stacklevel=3)
        return False
    return True


def _write_rest(
    folder: Path, experiment: Experiment[Any], preset: str, config: Any, dataset: xr.Dataset, claims: list[Claim]
) -> None:
    verdict = {"id": experiment.id, "title": experiment.title, "held": all(claim.held for claim in claims)}
    _write_json(folder / "config.json", _provenance(dataset) | {"preset": preset, "config": _plain(config)})
    _write_figures(folder, experiment, dataset)
    _write_json(folder / "claims.json", verdict | {"claims": [claim.to_json() for claim in claims]})


def _refuse_what_is_not_ours(folder: Path, id: str, preset: str, force: bool) -> None:
    """Refuse a folder in which something would be replaced that is not an earlier result of the same figure."""
    there = [name for name in _FILES if os.path.lexists(folder / name)]
    if not there:
        return
    found = _owner(folder)
    if found is None:
        check.refuse("out", f"{folder}, whose {', '.join(there)} `reproduce` did not write", "another folder")
    if not force and found != (id, preset):
        allowed = "another folder, or force to replace it"
        check.refuse("out", f"{folder}, which holds the {found[1]} result of {found[0]}", allowed)


def _owner(folder: Path) -> tuple[str, str] | None:
    """The experiment and the preset that a folder's files are of, if `reproduce` wrote them."""
    with contextlib.suppress(files.CheckpointError, KeyError):  # damaged, or not there: the configuration says it too
        attributes = files.load_dataset(folder / "result.nc").attrs
        return (attributes["experiment"], attributes["preset"]) if "fingerprint" in attributes else None
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        told = json.loads((folder / "config.json").read_bytes())
        return (told["experiment"], told["preset"]) if "fingerprint" in told else None
    return None


def _run(
    experiment: Experiment[Any], config: Any, progress: Progress, identity: dict[str, str], checkpoint: Path
) -> xr.Dataset:
    begin = time.perf_counter()
    dataset = experiment.computed(config, progress=progress, checkpoint=checkpoint)
    seconds = time.perf_counter() - begin
    seed = {"seed": config.seed} if hasattr(config, "seed") else {}
    made = {
        "seconds": round(seconds, 3),
        "created": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "jax_version": jax.__version__,
        "device": jax.devices()[0].device_kind,
    }
    return dataset.assign_attrs(identity | seed | made)


def _identity(id: str, config: Any) -> dict[str, str]:
    """What decides whether two runs are the same one."""
    identity = {
        "experiment": id,
        "config": json.dumps(_plain(config), sort_keys=True),
        "equilibria_version": __version__,
    }
    text = json.dumps(identity, sort_keys=True)
    return identity | {"fingerprint": hashlib.sha256(text.encode()).hexdigest()}


def _plain(config: Any) -> dict[str, Any]:
    """The configuration as JSON holds it."""
    fields = dataclasses.asdict(config)
    try:
        return json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError) as error:
        check.refuse("config", repr(config), f"a dataclass of finite numbers, text, lists and dicts ({error})")


def _cached(path: Path, fingerprint: str) -> xr.Dataset | None:
    """The result on disk, if it is readable and the one wanted."""
    if not path.exists():
        return None
    try:
        dataset = files.load_dataset(path)
    except files.CheckpointError as error:
        warnings.warn(f"{error}; it is made again", stacklevel=3)
        return None
    return dataset if dataset.attrs.get("fingerprint") == fingerprint else None


def _provenance(dataset: xr.Dataset) -> dict[str, Any]:
    return {name: value.item() if hasattr(value, "item") else value for name, value in dataset.attrs.items()}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    files.write_atomic(path, json.dumps(content, indent=2, ensure_ascii=False, default=str).encode())


def _write_figures(folder: Path, experiment: Experiment[Any], dataset: xr.Dataset) -> None:
    with plots.style():
        figure = experiment.plot(dataset)
        for kind in ("png", "pdf"):
            with files.replacing(folder / f"figure.{kind}") as temporary:
                figure.savefig(temporary, format=kind)

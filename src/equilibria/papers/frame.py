"""One figure of a paper: configuration -> run -> plot -> claims, with its results kept on disk."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import inspect
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Experiment(Generic[Config]):
    """How one figure is made. `Config` is a frozen dataclass of plain values, usually with a `seed`.

    The module papers/PAPER/FIGURE.py defines one of these under the name `experiment`. A `run` that takes hours has a
    third parameter, `checkpoint`: a folder, gone once the result is there, to keep its state in and to go on from.
    """

    id: str  # "paper/figure"
    title: str
    presets: Mapping[str, Config]  # "quick" and "full"
    run: Callable[..., xr.Dataset]  # of the configuration and a progress bar
    plot: Callable[[xr.Dataset], Figure]
    claims: Callable[[xr.Dataset], list[Claim]]


class Reproduction(NamedTuple):
    """What `reproduce` did."""

    folder: Path
    dataset: xr.Dataset
    claims: list[Claim]
    cached: bool  # the run was not repeated: its result was there

    @property
    def held(self) -> bool:
        return all(claim.held for claim in self.claims)


def folder_of(id: str, preset: str, root: str | Path = "results") -> Path:
    """Where the results of an experiment are kept; quick results never overwrite full ones.

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
    """Make a figure of a paper, and write result.nc, figure.png, figure.pdf, config.json and claims.json into `out`.

    `out` is results/PAPER/FIGURE/PRESET when it is not given. The run is skipped when `out` holds the result of the
    same experiment with the same configuration and version of the package, unless `force`; a long run that was stopped
    goes on from where it was. The figure and the claims are always made anew from the result.
    """
    if isinstance(experiment, str):
        experiment = find(experiment)
    config = experiment.presets[check.choice("preset", preset, experiment.presets)]
    folder = folder_of(experiment.id, preset) if out is None else Path(out)
    identity = _identity(experiment.id, config)
    dataset = None if force else _cached(folder / "result.nc", identity["fingerprint"])
    cached = dataset is not None
    if dataset is None:
        checkpoint = folder / "checkpoint" / identity["fingerprint"][:12]
        if force:
            shutil.rmtree(checkpoint, ignore_errors=True)
        dataset = _run(experiment, config, progress, identity, checkpoint)
        files.save_dataset(folder / "result.nc", dataset)
        shutil.rmtree(checkpoint.parent, ignore_errors=True)
    claims = experiment.claims(dataset)
    _write_json(folder / "config.json", _provenance(dataset) | {"preset": preset, "config": _plain(config)})
    _write_figures(folder, experiment, dataset)
    verdict = {"id": experiment.id, "title": experiment.title, "held": all(claim.held for claim in claims)}
    _write_json(folder / "claims.json", verdict | {"claims": [claim.to_json() for claim in claims]})
    return Reproduction(folder, dataset, claims, cached)


def _run(
    experiment: Experiment[Any], config: Any, progress: Progress, identity: dict[str, str], checkpoint: Path
) -> xr.Dataset:
    resumable = {"checkpoint": checkpoint} if "checkpoint" in inspect.signature(experiment.run).parameters else {}
    begin = time.perf_counter()
    dataset = experiment.run(config, progress, **resumable)
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
    except ValueError:
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

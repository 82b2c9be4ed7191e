"""One figure of a paper: configuration -> run -> plot -> claims, with its results kept on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import xarray as xr
from matplotlib.figure import Figure

from equilibria import __version__, check, files, plots
from equilibria.papers import code, find, store
from equilibria.papers.claims import Claim, Tally, tally
from equilibria.progress import Progress, progress

Config = TypeVar("Config")


@dataclass(frozen=True)
class Experiment(Generic[Config]):
    """How one figure is made: configuration -> run -> plot -> claims. `papers.find` makes it from the figure's module.

    Args:
        id: "paper/figure".
        title: what the figure shows, in one line.
        presets: configurations by name: "quick" is a small version, "paper" the paper's algorithm, size and schedule.
            `Config` is a frozen dataclass of plain values, usually with a `seed`.
        run: takes a configuration, and by name what it asks for of `progress` (a progress bar) and `checkpoint` (a folder,
            gone once the result is there, in which a run that takes hours keeps its state to go on from).
        plot: the figure of a result; its docstring is the caption.
        claims: what the paper says and what we say, beside what a result says.
        differs: for each preset what is not as in the paper, in a few words each.

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
    differs: Mapping[str, Sequence[str]] = field(default_factory=dict)

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
        claims: what the paper says beside it, and what we say.
        cached: whether the result had been there before.
        stored: whether everything could be written; a warning says why not.
        stale: whether it was made by other code than this.

    >>> Reproduction(Path("out"), xr.Dataset(), [], cached=False).held
    True
    """

    folder: Path
    dataset: xr.Dataset
    claims: list[Claim]
    cached: bool
    stored: bool = True
    stale: bool = False

    @property
    def tally(self) -> Tally:
        """How many claims held, did not hold, and could not be tested."""
        return tally(self.claims)

    @property
    def held(self) -> bool:
        """Whether every claim that could be tested holds, the paper's and ours."""
        return self.tally.failed == 0


def folder_of(id: str, preset: str, root: str | Path = "results") -> Path:
    """Where the results of an experiment are kept; quick results never overwrite the others.

    Args:
        id: "paper/figure".
        preset: "quick" or "paper".
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

    The run is skipped when the folder holds the result of the same experiment with the same configuration; whether the code
    has changed since is said in `stale`. A long run that was stopped goes on from where it
    was, as long as the code is the same. The figure and the claims are always made anew. A result that cannot be stored in
    the end is still returned.

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
    ValueError: preset: got 'huge'; allowed: 'quick', 'paper'
    """
    if isinstance(experiment, str):
        experiment = find(experiment)
    config = experiment.presets[check.choice("preset", preset, experiment.presets)]
    folder = folder_of(experiment.id, preset) if out is None else Path(out)
    identity = _identity(experiment.id, config)
    made_by = code.digest(experiment.id)
    store.refuse_what_is_not_ours(folder, experiment.id, preset, force)
    dataset = None if force else store.cached(folder / "result.nc", identity["fingerprint"])
    cached = dataset is not None
    stored = True
    if dataset is None:
        files.check_writable(folder)
        files.sweep(folder)
        checkpoint = folder / _state_of(identity | {"code": made_by})
        if force:
            store.remove(checkpoint)
        told = {"code": made_by, "differs": json.dumps(list(experiment.differs.get(preset, ())), ensure_ascii=False)}
        dataset = _run(experiment, config, progress, identity, checkpoint).assign_attrs(told, preset=preset)
        stored = store.kept(partial(files.save_dataset, folder / "result.nc", dataset))
        if stored:
            with contextlib.suppress(OSError):  # what is left of it does no harm
                store.remove(checkpoint)
    claims = experiment.claims(dataset)
    stored = stored and store.kept(partial(_write_rest, folder, experiment, preset, config, dataset, claims))
    stale = made_by not in (dataset.attrs.get("code"), dataset.attrs.get("same"))
    return Reproduction(folder, dataset, claims, cached, stored, stale)


def _state_of(identity: dict[str, str]) -> str:
    """The name of the folder for the state of a run. It carries a fingerprint: nobody else makes or means one of that name,
    and what other code began is not gone on with."""
    return f"checkpoint-{_fingerprint(identity)[:12]}"


def _write_rest(
    folder: Path, experiment: Experiment[Any], preset: str, config: Any, dataset: xr.Dataset, claims: list[Claim]
) -> None:
    counts = tally(claims)
    verdict = {
        "id": experiment.id,
        "title": experiment.title,
        "caption": inspect.getdoc(experiment.plot) or "",
        "held": counts.failed == 0,
        "tally": counts._asdict(),
    }
    _write_json(folder / "config.json", _provenance(dataset) | {"preset": preset, "config": plain(config)})
    _write_figures(folder, experiment, dataset)
    _write_json(folder / "claims.json", verdict | {"claims": [claim.to_json() for claim in claims]})


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
        "equilibria_version": __version__,
        "jax_version": jax.__version__,
        "device": jax.devices()[0].device_kind,
    }
    return dataset.assign_attrs(identity | seed | made)


def _identity(id: str, config: Any) -> dict[str, str]:
    """What decides whether two runs are the same one."""
    identity = {"experiment": id, "config": json.dumps(plain(config), sort_keys=True)}
    return identity | {"fingerprint": _fingerprint(identity)}


def _fingerprint(identity: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON holds it.

    Args:
        config: a dataclass of plain values.

    Returns:
        Its values by name.

    Raises:
        ValueError: if some are not plain.
    """
    fields = dataclasses.asdict(config)
    try:
        return json.loads(json.dumps(fields, allow_nan=False))
    except (TypeError, ValueError) as error:
        check.refuse("config", repr(config), f"a dataclass of finite numbers, text, lists and dicts ({error})")


def _provenance(dataset: xr.Dataset) -> dict[str, Any]:
    told = {name: value.item() if hasattr(value, "item") else value for name, value in dataset.attrs.items()}
    return told | {"differs": json.loads(told.get("differs", "[]"))}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    files.write_atomic(path, json.dumps(content, indent=2, ensure_ascii=False, default=str).encode())


def _write_figures(folder: Path, experiment: Experiment[Any], dataset: xr.Dataset) -> None:
    with plots.style():
        figure = experiment.plot(dataset)
        for kind in ("png", "pdf"):
            with files.replacing(folder / f"figure.{kind}") as temporary:
                figure.savefig(temporary, format=kind)

"""What `equilibria phase-diagram hopfield` and `equilibria recall` do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image, UnidentifiedImageError

import equilibria as eq
from equilibria import check, files, plots

_FORMATS = ("png", "pdf", "svg")
_FINE = 100  # temperatures of the lines, more than of the cells
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm"}


def phase_diagram(sleeps: Sequence[float], points: int, out: Path) -> int:
    """Write the phase diagram of a Hopfield network after each of `sleeps`, as a picture and as netCDF."""
    check.count("points", points, least=2)
    files.check_writable(out)
    capacities = eq.theory.hopfield_capacity(0.0, np.array(sleeps, float))
    loads = np.linspace(0, 1.3 * capacities.max(), points + 1)[1:]
    temperatures = np.linspace(
        0, 1.05 * float(np.max(eq.theory.hopfield_glass(loads, np.array(sleeps, float)[:, None]))), points
    )
    found = diagram(loads, temperatures, sleeps)
    names = list(found["phase"].attrs["names"])
    files.save_dataset(out / "phase-diagram.nc", found)
    with plots.style():
        figure = drawn(found, names)
        for ending in _FORMATS:
            with files.replacing(out / f"phase-diagram.{ending}") as temporary:
                figure.savefig(temporary, format=ending)
    for sleep, capacity in zip(sleeps, capacities, strict=True):
        print(f"sleep {sleep:g}: at T = 0 patterns are retrieved up to a load of {capacity:.5f}")
    print(f"in {out}: phase-diagram.nc, {', '.join(f'phase-diagram.{ending}' for ending in _FORMATS)}")
    return 0


def diagram(loads: np.ndarray, temperatures: np.ndarray, sleeps: Sequence[float]) -> xr.Dataset:
    """The diagrams after each of `sleeps`, one beside the other; each is one cell of a grid."""
    phases = partial(eq.theory.hopfield_phases, loads, temperatures)
    found = eq.grid(phases, sleep=list(sleeps), batch=False)
    form = eq.theory.hopfield_phases(loads[:1], temperatures[:1])  # the names of the axes
    variables = {name: (("sleep", *form[name].dims), found[name].values, form[name].attrs) for name in form}
    coordinates = {"branch": form["branch"], "temperature": temperatures, "load": loads, "sleep": list(sleeps)}
    return xr.Dataset(variables, coordinates)


def drawn(phases: xr.Dataset, names: list[str]) -> Figure:
    """The diagrams side by side, cells coloured by phase and the lines between them, with one legend below."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = ["#ffffff", "#f3e3d3", "#cfe3f1", "#8fbfe0"]
    count = phases.sizes["sleep"]
    with plots.style():
        figure, axes = plots.panels(columns=count, sharey=True, squeeze=False, size=(4.2, 4.0))
        for panel, sleep in zip(axes[0], phases["sleep"].values, strict=True):
            here = phases.sel(sleep=sleep)
            load, heat = here["load"], here["temperature"]
            cells = np.hstack([here["phase"].values[:, :1], here["phase"].values])  # from load 0 on
            panel.pcolormesh(
                [0, *load.values], heat, cells, cmap=ListedColormap(colours), vmin=-0.5, vmax=3.5, shading="nearest",
                rasterized=True,
            )  # fmt: skip
            _draw_lines(panel, float(load[-1]), float(heat[-1]), float(sleep))
            panel.set(xlabel=r"load $\alpha = K/N$", xlim=(0, load[-1]), ylim=(0, heat[-1]))
            panel.set_title(f"sleep $t = {sleep:g}$")
            panel.grid(False)
        axes[0, 0].set_ylabel("temperature $T$")
        patches = [Patch(facecolor=c, edgecolor="0.7", label=name) for c, name in zip(colours, names, strict=True)]
        handles = [*axes[0, 0].get_legend_handles_labels()[0], *patches]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, 2 * count), fontsize=7)
        return figure


def _draw_lines(panel: plots.Axes, most: float, top: float, sleep: float) -> None:
    """Where retrieval ends, is no longer the ground state, where replica symmetry breaks in it, and where spins freeze."""
    heat = np.concatenate([np.geomspace(1e-4 * top, 0.02 * top, 20), np.linspace(0.025 * top, top, _FINE)])
    lines = eq.theory.hopfield_lines(heat, sleep)
    there = np.asarray(lines.spinodal) > 0
    plots.theory_line(panel, lines.spinodal[there], heat[there], label="retrieval ends")
    first = lines.first_order[there]
    plots.theory_line(panel, first, heat[there], linestyle="--", label="retrieval is the ground state")
    # Where nothing breaks before the branch ends, the end is what comes back, and no line of its own.
    breaks = there & (np.asarray(lines.almeida_thouless) < (1 - 1e-6) * np.asarray(lines.spinodal))
    purple = plots.PALETTE[3]
    dotted = {"colour": purple, "linestyle": ":", "label": "replica symmetry breaks"}
    plots.theory_line(panel, lines.almeida_thouless[breaks], heat[breaks], **dotted)
    loads = np.geomspace(1e-4 * most, most, _FINE)
    glass = eq.theory.hopfield_glass(loads, sleep)
    plots.theory_line(panel, loads, glass, colour=plots.PALETTE[1], label="spins freeze")


def recall(patterns: Path, cue: Path, sleep: float, temperature: float, sweeps: int, seed: int, out: Path) -> int:
    """Store every picture of a folder, let the network fall from the cue, and say which one it came to."""
    files.check_writable(out.parent)
    if not patterns.is_dir():
        check.refuse("--patterns", patterns, "a folder")
    paths = sorted(path for path in patterns.iterdir() if path.suffix.lower() in PICTURES)
    if not paths:
        check.refuse(
            "--patterns", f"{patterns}, without pictures", f"a folder with files {', '.join(sorted(PICTURES))}"
        )
    stored, shown = [_picture(path) for path in paths], _picture(cue)
    for path, picture in zip([*paths[1:], cue], [*stored[1:], shown], strict=True):
        if picture.shape != stored[0].shape:
            check.refuse(str(path), f"a picture of shape {picture.shape}", f"{stored[0].shape}, as {paths[0]}")
    spins = eq.data.binarise(np.stack([*stored, shown]))
    network = eq.hopfield(spins[:-1], sleep=sleep)
    found = eq.retrieve(network, spins[:-1], spins[-1], temperature=temperature, sweeps=sweeps, key=seed)
    closest = paths[int(found.pattern)].name
    panels = np.stack([spins[-1], np.asarray(found.state), spins[int(found.pattern)]])
    verdict = "no stored picture; the closest is " if found.spurious else ""
    rest = "" if found.converged is None else f", {'at rest' if found.converged else 'not at rest'}"
    print(
        f"recalled {verdict}{closest}: overlap {float(found.overlap):.3f} after {int(found.steps)} sweeps{rest}",
        flush=True,  # it is not lost where the picture cannot be written
    )
    with plots.style(), files.replacing(out) as temporary:
        figure = plots.image_row(panels.reshape(3, *shown.shape), ["cue", "recalled", closest])
        figure.savefig(temporary, format="png")
    print(f"  in {out}")
    return int(found.spurious)


def _picture(path: Path) -> np.ndarray:
    """A picture in shades of grey, 8 bits."""
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("L"))
    except UnidentifiedImageError:
        check.refuse(str(path), "a file that is no picture", "a picture that Pillow can read")
    except FileNotFoundError:
        raise
    except Exception as error:  # cut short, damaged, or so large that Pillow takes it for a bomb
        check.refuse(
            str(path), f"a picture that cannot be read ({error})", "a whole picture of up to 178 million pixels"
        )

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

PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm"}


def phase_diagram(sleeps: Sequence[float], points: int, out: Path) -> int:
    """Write the phase diagram of a Hopfield network after each of `sleeps`, as a picture and as netCDF."""
    check.count("points", points, least=2)
    capacities = eq.theory.hopfield_capacity(0.0, np.array(sleeps, float))
    loads = np.linspace(0, 1.3 * capacities.max(), points + 1)[1:]
    temperatures = np.linspace(
        0, 1.05 * float(np.max(eq.theory.hopfield_glass(loads, np.array(sleeps, float)[:, None]))), points
    )
    diagram = _diagram(loads, temperatures, sleeps)
    names = list(diagram["phase"].attrs["names"])
    files.save_dataset(out / "phase-diagram.nc", diagram)
    with plots.style(), files.replacing(out / "phase-diagram.png") as temporary:
        _drawn(diagram, names).savefig(temporary, format="png")
    for sleep, capacity in zip(sleeps, capacities, strict=True):
        print(f"sleep {sleep:g}: at T = 0 patterns are retrieved up to a load of {capacity:.5f}")
    print(f"in {out / 'phase-diagram.png'} and {out / 'phase-diagram.nc'}")
    return 0


def _diagram(loads: np.ndarray, temperatures: np.ndarray, sleeps: Sequence[float]) -> xr.Dataset:
    """The diagrams after each of `sleeps`, one beside the other; each is one cell of a grid."""
    phases = partial(eq.theory.hopfield_phases, loads, temperatures)
    found = eq.grid(phases, sleep=list(sleeps), batch=False)
    form = eq.theory.hopfield_phases(loads[:1], temperatures[:1])  # the names of the axes
    variables = {name: (("sleep", *form[name].dims), found[name].values, form[name].attrs) for name in form}
    coordinates = {"branch": form["branch"], "temperature": temperatures, "load": loads, "sleep": list(sleeps)}
    return xr.Dataset(variables, coordinates)


def _drawn(diagram: xr.Dataset, names: list[str]) -> Figure:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = ["#ffffff", "#f3e3d3", "#cfe3f1", "#8fbfe0"]
    figure, axes = plots.panels(columns=diagram.sizes["sleep"], sharey=True, squeeze=False, size=(4.2, 3.6))
    for panel, sleep in zip(axes[0], diagram["sleep"].values, strict=True):
        here = diagram.sel(sleep=sleep)
        load, heat = here["load"], here["temperature"]
        cells = ListedColormap(colours)
        panel.pcolormesh(load, heat, here["phase"], cmap=cells, vmin=-0.5, vmax=3.5, shading="nearest", rasterized=True)
        plots.theory_line(panel, here["spinodal"], heat, label="retrieval ends")
        plots.theory_line(panel, here["first_order"], heat, linestyle="--", label="retrieval is the ground state")
        plots.theory_line(
            panel,
            here["almeida_thouless"],
            heat,
            colour=plots.PALETTE[3],
            linestyle=":",
            label="replica symmetry breaks",
        )
        plots.theory_line(panel, load, here["glass"], colour=plots.PALETTE[1], label="spins freeze")
        panel.set(xlabel=r"load $\alpha = K/N$", xlim=(0, load[-1]), ylim=(0, heat[-1]), title=f"sleep $t = {sleep:g}$")
        panel.grid(False)
    axes[0, 0].set_ylabel("temperature $T$")
    phases = [Patch(facecolor=colour, edgecolor="0.7", label=name) for colour, name in zip(colours, names, strict=True)]
    handles = [*axes[0, 0].get_legend_handles_labels()[0], *phases]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=7)
    return figure


def recall(patterns: Path, cue: Path, sleep: float, temperature: float, sweeps: int, seed: int, out: Path) -> int:
    """Store every picture of a folder, let the network fall from the cue, and say which one it came to."""
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
    with plots.style(), files.replacing(out) as temporary:
        figure = plots.image_row(panels.reshape(3, *shown.shape), ["cue", "recalled", closest])
        figure.savefig(temporary, format="png")
    verdict = "no stored picture; the closest is " if found.spurious else ""
    rest = "" if found.converged is None else f", {'at rest' if found.converged else 'not at rest'}"
    print(
        f"recalled {verdict}{closest}: overlap {float(found.overlap):.3f} after {int(found.steps)} sweeps{rest}; in {out}"
    )
    return int(found.spurious)


def _picture(path: Path) -> np.ndarray:
    """A picture in shades of grey, 8 bits."""
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("L"))
    except UnidentifiedImageError:
        check.refuse(str(path), "a file that is no picture", "a picture that Pillow can read")

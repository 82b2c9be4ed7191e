"""Show the code: what the page shows runs as it stands, and gives the numbers of the room and of its files."""

import ast
import contextlib
import io
import re

import numpy as np
import pytest
import xarray as xr

from app_lab_tab import opened, served
from equilibria.app.lab import uploads
from equilibria.app.lab.catalogue import PLANS
from equilibria.app.lab.rooms.room import to_bits

DRAWN = to_bits(np.sign(np.sin(np.arange(784))))
STATES = {
    "digits": ("remember", {}),
    "random": ("remember", {"patterns": "random", "load": 0.02, "order": "parallel", "temperature": 0.2}),
    "drawn": ("remember", {"patterns": "mine", "mine": f"{DRAWN}.{DRAWN}", "load": 0.01, "cue": DRAWN}),
    "hopfield": ("phases", {"area": "0.02,0.06,0.2,0.4", "points": 1}),
    "examples": ("phases", {"model": "examples", "area": "0.01,0.02,0.1,0.2", "points": 1}),
    "modes": ("phases", {"model": "modes", "area": "0.4,0.6,1.9,2.1", "points": 1}),
    "classify": ("classify", {"epochs": 1}),
    "synapses": ("synapses", {"steps": 20, "density": 1.0}),
    "clusters": ("distribution", {"steps": 200}),
    "images": ("distribution", {"steps": 200, "data": "digits"}),
    "table": ("distribution", {"steps": 200, "data": "table", "table": "mine"}),
}


def printed(text):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "shown", "exec"), {})
    return out.getvalue()


def shown(name):
    """The code of a room, as a page would get it, without running the room."""
    from equilibria.app.lab.rooms.room import room_class

    room, state = STATES[name]
    return room_class(room)(PLANS[room].state(state), lambda message: None, {}).code()


def taken(tab):
    """The last row of the numbers that a visitor takes away, which are the same in both kinds of files."""
    with xr.open_dataset(io.BytesIO(bytes(tab.ask(do="file", form="nc")["content"]))) as kept:
        found = kept.load()
    table = bytes(tab.ask(do="file", form="csv")["content"]).decode().splitlines()
    notes = [line for line in table if line.startswith("#")]
    assert f"# seed: {found.attrs['seed']}" in notes
    names, *rows = (line.split(",") for line in table[len(notes) :])
    assert len(rows) == np.prod(list(found.sizes.values()))
    last = {name: float(value) for name, value in zip(names, rows[-1], strict=True)}
    for name, values in found.items():
        assert last[name] == pytest.approx(float(values.values.flat[-1]), rel=1e-6)
    return found.isel({name: -1 for name in found.dims if name != "mode"})


@pytest.mark.parametrize("name", STATES)
def test_the_code_shown_is_short_and_uses_public_names_only(name):
    text = shown(name)
    assert len([line for line in text.splitlines() if line.strip()]) <= 25
    assert max(map(len, text.splitlines())) <= 160
    modules = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert not any(module.startswith("equilibria") for module in modules)


@pytest.mark.parametrize(
    "name", ["digits", *(pytest.param(each, marks=pytest.mark.slow) for each in ("random", "drawn"))]
)
def test_the_recall_shown_gives_the_overlaps_of_the_room(name):
    with served() as client, opened(client) as tab:
        tab.enter("remember", **STATES[name][1], pace=30)
        seen, theory = {}, None
        while 20 not in seen or theory is None:
            message = tab.hear("frame", "theory")
            if message["kind"] == "frame":
                seen[message["sweep"]] = message["overlap"]
            else:
                theory = message["m"]
    *lines, last = printed(shown(name)).splitlines()
    found = [float(line.split()[1]) for line in lines]
    assert found == pytest.approx([seen[sweep] for sweep in range(1, 21)], abs=1e-6)
    assert float(last.split()[1]) == pytest.approx(theory, abs=1e-6)


@pytest.mark.parametrize(
    "name", ["hopfield", *(pytest.param(each, marks=pytest.mark.slow) for each in ("examples", "modes"))]
)
def test_the_grid_shown_gives_the_cell_of_the_room(name):
    with served() as client, opened(client) as tab:
        tab.enter(STATES[name][0], **STATES[name][1])
        cell, kept = tab.hear("cell"), taken(tab)
    assert float(kept["overlap"]) == pytest.approx(cell["value"], rel=1e-6)
    assert float(kept["predicted"]) == pytest.approx(cell["theory"], rel=1e-6)
    x, y, measured, _, theory = printed(shown(name)).split()
    assert (float(x), float(y)) == (cell["x"], cell["y"])
    assert float(measured) == pytest.approx(cell["value"], abs=2e-3)
    assert float(theory) == pytest.approx(cell["theory"], abs=1e-5)


def test_the_training_shown_gives_the_error_of_the_room():
    with served() as client, opened(client) as tab:
        tab.enter("classify", epochs=1)
        record = [message for message in tab.all_until("trained") if message["kind"] == "record"][-1]
        assert float(taken(tab)["error"]) == pytest.approx(record["error"])
    error = float(printed(shown("classify")).split()[-1])
    assert error == pytest.approx(record["error"], abs=1.5 / 360)


def test_the_learning_shown_gives_the_overlap_of_the_room():
    with served() as client, opened(client) as tab:
        tab.enter("synapses", steps=20, density=1.0)
        end = tab.hear("end")
        assert float(taken(tab)["overlap"]) == pytest.approx(end["overlap"])
    density, _, bound, _, overlap = printed(shown("synapses")).splitlines()[0].split()
    assert float(density) == end["density"]
    assert float(overlap) == pytest.approx(end["overlap"])
    assert float(bound) == pytest.approx(end["bound"], abs=1e-4)


@pytest.mark.parametrize("name", ["clusters", pytest.param("images", marks=pytest.mark.slow)])
def test_the_machine_shown_gives_the_modes_of_the_room(name):
    with served() as client, opened(client) as tab:
        tab.enter("distribution", **STATES[name][1])
        last = {message["kind"]: message for message in tab.all_until("done")}
        record, score = last["record"], last["score"]
        assert taken(tab)["singular_values"].values == pytest.approx(record["values"][:10])
    text = printed(shown(name))
    values = [float(value) for value in re.findall(r"[\d.]+", text.splitlines()[0])]
    assert values == pytest.approx(list(record["values"][:6]), rel=1e-4)
    assert "NoiseFit" in text
    assert "effective samples" in text
    assert text.splitlines()[-1] == score["verdict"]
    assert score["mixed"] == (score["verdict"] == "mixed") == (score["r_hat"] < 1.01)


@pytest.mark.parametrize("name", ["images", "table"])
def test_the_data_shown_are_those_of_the_room(name, tmp_path, monkeypatch):
    from equilibria.app.lab.rooms.distribution import chosen

    random = np.random.default_rng(0)
    values = np.where(
        random.uniform(size=(90, 6)) < [0.1, 0.4, 0.5, 0.7, 0.8, 1.0], 3, 1
    )  # some are mostly high, one always
    content = "".join(",".join(map(str, row)) + "\n" for row in values).encode()
    (tmp_path / "my-table.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(shown(name).partition("weights =")[0], names)
    expected = chosen(STATES[name][1]["data"], 1, uploads.table("my-table.csv", content))
    assert np.array_equal(names["data"], expected.spins)
    assert expected.spins.shape[1] == (5 if name == "table" else len(expected.kept))

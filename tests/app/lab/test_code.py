"""Show the code: what the page shows runs as it stands, and gives the numbers of the room."""

import ast
import contextlib
import io
import re

import numpy as np
import pytest

from app_lab_tab import opened, served
from equilibria.app.lab.catalogue import PLANS
from equilibria.app.lab.rooms.room import to_bits

DRAWN = to_bits(np.sign(np.sin(np.arange(784))))
STATES = {
    "digits": ("remember", {"sweeps": 3}),
    "random": ("remember", {"patterns": "random", "load": 0.02, "order": "parallel", "temperature": 0.2}),
    "drawn": ("remember", {"patterns": "mine", "mine": f"{DRAWN}.{DRAWN}", "load": 0.01, "cue": DRAWN}),
    "hopfield": ("phases", {"area": "0.02,0.06,0.2,0.4", "points": 1}),
    "examples": ("phases", {"model": "examples", "area": "0.01,0.02,0.1,0.2", "points": 1}),
    "modes": ("phases", {"model": "modes", "area": "0.4,0.6,1.9,2.1", "points": 1}),
    "classify": ("classify", {"epochs": 1}),
    "synapses": ("synapses", {"steps": 20, "density": 1.0}),
    "clusters": ("distribution", {"steps": 200}),
    "images": ("distribution", {"steps": 200, "data": "digits"}),
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
    state = {key: value for key, value in state.items() if key != "sweeps"}
    return room_class(room)(PLANS[room].state(state), lambda message: None, {}).code()


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
def test_the_recall_shown_runs(name):
    lines = printed(shown(name)).splitlines()
    assert len(lines) == 21
    assert lines[-1].startswith("theory")


@pytest.mark.parametrize(
    "name", ["hopfield", *(pytest.param(each, marks=pytest.mark.slow) for each in ("examples", "modes"))]
)
def test_the_grid_shown_gives_the_cell_of_the_room(name):
    with served() as client, opened(client) as tab:
        tab.enter(STATES[name][0], **STATES[name][1])
        cell = tab.hear("cell")
    x, y, measured, _, theory = printed(shown(name)).split()
    assert (float(x), float(y)) == (cell["x"], cell["y"])
    assert float(measured) == pytest.approx(cell["value"], abs=2e-3)
    assert float(theory) == pytest.approx(cell["theory"], abs=1e-5)


def test_the_training_shown_gives_the_error_of_the_room():
    with served() as client, opened(client) as tab:
        tab.enter("classify", epochs=1)
        record = [message for message in tab.all_until("trained") if message["kind"] == "record"][-1]
    error = float(printed(shown("classify")).split()[-1])
    assert error == pytest.approx(record["error"], abs=1.5 / 360)


def test_the_learning_shown_gives_the_overlap_of_the_room():
    with served() as client, opened(client) as tab:
        tab.enter("synapses", steps=20, density=1.0)
        end = tab.hear("end")
    density, _, bound, _, overlap = printed(shown("synapses")).splitlines()[0].split()
    assert float(density) == end["density"]
    assert float(overlap) == pytest.approx(end["overlap"])
    assert float(bound) == pytest.approx(end["bound"], abs=1e-4)


@pytest.mark.parametrize("name", ["clusters", pytest.param("images", marks=pytest.mark.slow)])
def test_the_machine_shown_gives_the_modes_of_the_room(name):
    with served() as client, opened(client) as tab:
        tab.enter("distribution", **STATES[name][1])
        record = [message for message in tab.all_until("done") if message["kind"] == "record"][-1]
    text = printed(shown(name))
    values = [float(value) for value in re.findall(r"[\d.]+", text.splitlines()[0])]
    assert values == pytest.approx(list(record["values"][:6]), rel=1e-4)
    assert "NoiseFit" in text
    assert "effective samples" in text

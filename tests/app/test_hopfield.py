"""`equilibria phase-diagram hopfield` and `equilibria recall`, from the command line's side."""

import jax
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import equilibria as eq
from equilibria import files
from equilibria.app import hopfield
from equilibria.app.cli import main
from faults.disk import full


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.setattr("equilibria.compiled.cache", lambda: None)  # leave the test process as it is
    monkeypatch.chdir(tmp_path)


def draw(path, spins):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.where(np.reshape(spins, (10, 12)) > 0, 255, 0).astype(np.uint8)).save(path)


@pytest.fixture
def pictures(tmp_path):
    patterns = np.asarray(eq.data.random_patterns(3, 120, key=jax.random.key(0)))
    for name, pattern in zip("abc", patterns, strict=True):
        draw(tmp_path / "pictures" / f"{name}.png", pattern)
    (tmp_path / "pictures" / "notes.txt").write_text("not a picture")
    return patterns


@pytest.mark.pictures
def test_the_phase_diagram_is_drawn_and_kept(tmp_path, capsys):
    arguments = ["phase-diagram", "hopfield", "--sleep", "0", "--sleep", "1", "--points", "8", "--out", "diagram"]
    assert main(arguments) == 0
    for ending, start in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}.items():
        assert (tmp_path / f"diagram/phase-diagram.{ending}").read_bytes().startswith(start)
    diagram = files.load_dataset(tmp_path / "diagram/phase-diagram.nc")
    assert diagram.sleep.values.tolist() == [0.0, 1.0]
    assert diagram.sizes["load"] == diagram.sizes["temperature"] == 8
    np.testing.assert_allclose(diagram.spinodal.sel(temperature=0), eq.theory.hopfield_capacity(0.0, [0.0, 1.0]))
    assert "sleep 1: at T = 0 patterns are retrieved up to a load of 0.38660" in capsys.readouterr().out


@pytest.mark.pictures
@pytest.mark.parametrize("sleeps", [(0.0,), (0.0, 1.0)])
def test_the_phase_diagram_is_whole(sleeps):
    """The legend is inside the picture, and the line of replica symmetry breaking inside the retrieval phase."""
    diagram = hopfield.diagram(np.linspace(0.05, 0.5, 6), np.linspace(0, 1.5, 6), sleeps)
    figure = hopfield.drawn(diagram, list(diagram["phase"].attrs["names"]))
    FigureCanvasAgg(figure).draw()
    whole = figure.bbox
    for box in (figure.legends[0].get_window_extent(), *(panel.get_tightbbox() for panel in figure.axes)):
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1
    assert not figure.legends[0].get_window_extent().overlaps(figure.axes[0].get_window_extent())
    for panel, sleep in zip(figure.axes, sleeps, strict=True):
        lines = {line.get_label(): line.get_xydata() for line in panel.lines}
        loads, heats = lines["replica symmetry breaks"].T
        assert len(loads) > 5
        assert (np.diff(loads) > 0).all()  # no way back, and no jump to the end of the branch
        assert (loads < eq.theory.hopfield_lines(heats, sleep).spinodal).all()


def test_a_damaged_picture_is_recalled(tmp_path, pictures, capsys):
    draw(tmp_path / "cue.png", np.where(np.arange(120) < 25, -1, pictures[1]))
    assert main(["recall", "--patterns", "pictures", "--cue", "cue.png", "--sleep", "1"]) == 0
    assert capsys.readouterr().out.startswith("recalled b.png: overlap 1.000 after")
    assert (tmp_path / "recalled.png").exists()


def test_what_was_recalled_is_told_where_the_picture_cannot_be_kept(tmp_path, pictures, capsys, monkeypatch):
    full(monkeypatch)
    assert main(["recall", "--patterns", "pictures", "--cue", "pictures/b.png", "--sleep", "1"]) == 2
    told = capsys.readouterr()
    assert told.out.startswith("recalled b.png: overlap 1.000 after")
    assert "No space left" in told.err


def test_a_mixture_is_no_stored_picture(tmp_path, pictures, capsys):
    draw(tmp_path / "cue.png", np.sign(pictures.sum(axis=0)))
    assert main(["recall", "--patterns", "pictures", "--cue", "cue.png"]) == 1
    assert "no stored picture; the closest is" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recall", "--patterns", "empty", "--cue", "cue.png"], "--patterns: got empty, without pictures"),
        (["recall", "--patterns", "nowhere", "--cue", "cue.png"], "nowhere"),
        (
            ["recall", "--patterns", "pictures", "--cue", "wide.png"],
            "wide.png: got a picture of shape (5, 9); allowed: (10, 12)",
        ),
        (["recall", "--patterns", "pictures", "--cue", "pictures/notes.txt"], "a file that is no picture"),
        (
            ["recall", "--patterns", "pictures", "--cue", "bomb.png"],
            "bomb.png: got a picture that cannot be read (Image size",
        ),
        (["recall", "--patterns", "pictures", "--cue", "cut.png"], "cut.png: got a picture that cannot be read"),
        (["phase-diagram", "hopfield", "--sleep", "-1"], "sleep: got"),
        (["phase-diagram", "hopfield", "--points", "1"], "points: got 1"),
    ],
)
def test_an_error_of_use_is_one_line(arguments, message, tmp_path, pictures, capsys):
    (tmp_path / "empty").mkdir()
    Image.fromarray(np.zeros((5, 9), np.uint8)).save(tmp_path / "wide.png")
    if "bomb.png" in arguments:
        Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")  # some 50 kB, and 400 million pixels
    (tmp_path / "cut.png").write_bytes((tmp_path / "wide.png").read_bytes()[:45])
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1

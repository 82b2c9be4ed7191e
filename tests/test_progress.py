"""A bar is seen only on long work, and never changes what is iterated."""

import time

from equilibria.progress import progress


def test_short_work_shows_nothing(capsys):
    assert list(progress("abc", "letters", show=True)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_long_work_shows_label_unit_and_rate(capsys, monkeypatch):
    now = time.time()
    with progress(10, "training", "epoch", show=True) as bar:
        monkeypatch.setattr(bar, "_time", lambda: now + 5)  # five seconds later
        bar.update(8)
    shown = capsys.readouterr().err
    assert "training:  80%" in shown
    assert " 8/10 " in shown
    assert "epoch/s" in shown


def test_without_a_terminal_it_is_silent(capsys, monkeypatch):
    now = time.time()
    with progress(10, "training") as bar:
        monkeypatch.setattr(bar, "_time", lambda: now + 5, raising=False)
        bar.update(8)
    assert capsys.readouterr().err == ""

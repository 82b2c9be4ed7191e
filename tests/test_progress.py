"""A bar is seen only on long work, says when it waits for the compiler, and never changes what is iterated."""

import logging
import time

import equilibria as eq
from equilibria.progress import CompiledBar, progress


def test_short_work_shows_nothing(capsys):
    assert list(progress("abc", "letters", show=True)) == ["a", "b", "c"]
    with CompiledBar(0, 3, "letters", show=True) as bar:
        bar.reached(1)
        bar.reached(3)
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
    with CompiledBar(0, 10, "training") as bar:
        bar.reached(8)
        bar.tell({"error": 0.5})
    assert capsys.readouterr().err == ""


def test_a_bar_that_waits_for_the_compiler_says_so_and_guesses_no_time(capsys, monkeypatch):
    with CompiledBar(0, 1000, "training", show=True) as bar:
        clock = [bar.start_t + 0.01]
        monkeypatch.setattr(bar, "_time", lambda: clock[0])
        clock[0] += 3
        bar._appear()  # what the timer does after two seconds
        assert "training, compiling:   0%" in capsys.readouterr().err
        clock[0] += 4
        bar.tell({"error": 0.25})
        bar.reached(1)
        first = capsys.readouterr().err
        assert "compiling" not in first
        assert " 1/1000 [00:07, error 0.25]" in first  # no pace yet, and no remaining time
        clock[0] += 1
        bar.reached(101)
        assert (
            " 101/1000 [00:08<00:08, 100.00step/s" in capsys.readouterr().err
        )  # seven seconds of compilation left out


def test_a_timer_shows_the_bar_while_the_first_chunk_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr("equilibria.progress._DELAY", 0.05)
    with CompiledBar(0, 10, "training", show=True):
        time.sleep(0.5)
    assert "training, compiling" in capsys.readouterr().err


def slow(x):
    time.sleep(0.06)
    return x + 1.0


def test_long_work_tells_the_log_how_far_it_is_though_no_bar_is_shown(caplog, monkeypatch):
    monkeypatch.setattr("equilibria.progress._BETWEEN", 0.05)
    with caplog.at_level(logging.INFO, logger="equilibria"):
        eq.grid(slow, x=[1.0, 2.0], batch=False, chunk=1, show_progress=False)
    told = [record.getMessage() for record in caplog.records]
    assert [line.partition(" after")[0] for line in told] == ["grid: 1 of 2 cells", "grid: 2 of 2 cells"]


def test_the_log_counts_iterated_and_compiled_work_and_has_one_last_line(caplog, monkeypatch):
    monkeypatch.setattr("equilibria.progress._BETWEEN", 0.05)
    with caplog.at_level(logging.INFO, logger="equilibria"):
        for _ in progress(range(2), "letters", "letter", show=False):
            time.sleep(0.06)
        with CompiledBar(0, 1000, "training", show=False) as bar:
            time.sleep(0.06)
            bar.reached(500)
            bar.reached(1000)
            bar.close()
    told = [record.getMessage().partition(" after")[0] for record in caplog.records]
    compiled = ["training: 500 of 1,000 steps", "training: 1,000 of 1,000 steps"]
    assert told == ["letters: 1 of 2 letters", "letters: 2 of 2 letters", *compiled]


def test_short_work_tells_the_log_nothing(caplog):
    with caplog.at_level(logging.DEBUG, logger="equilibria.progress"):
        list(progress("abc", "letters", show=True))
        with CompiledBar(0, 3, "letters", show=True) as bar:
            bar.reached(3)
    assert not caplog.records

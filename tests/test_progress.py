"""A bar is seen only on long work, says when it waits for the compiler, and never changes what is iterated."""

import time

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

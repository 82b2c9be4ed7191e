"""One thread for all tabs: who comes first, who waits, and what ends."""

import threading
import time

import pytest

from equilibria.app.lab.worker import MOST_ASKS, Worker


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


def busy(seconds, log, name):
    """A job of chunks that each take some time."""
    while True:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        log.append(name)
        yield None


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.002)


def test_two_tabs_get_equal_time_whatever_their_chunks(worker):
    log: list[str] = []
    first, second = worker.join(print), worker.join(print)
    worker.start(first, busy(0.002, log, "short"))
    worker.start(second, busy(0.010, log, "long"))
    until(lambda: log.count("long") >= 12)
    worker.leave(first)
    worker.leave(second)
    assert log.count("short") > log.count("long")
    longest = 0.010 + 0.05  # of a chunk, on a machine that may be busy
    assert abs(first.used - second.used) < longest
    assert min(first.used, second.used) > 0.1


def test_a_tab_that_comes_later_does_not_make_up_for_the_time_before(worker):
    log: list[str] = []
    first = worker.join(print)
    worker.start(first, busy(0.002, log, "first"))
    until(lambda: len(log) > 40)
    second = worker.join(print)
    worker.start(second, busy(0.002, log, "second"))
    here = len(log)
    until(lambda: len(log) > here + 30)
    assert log[here : here + 30].count("first") > 5


def test_an_ask_comes_before_jobs(worker):
    log: list[str] = []
    worker.start(worker.join(print), busy(0.005, log, "job"))
    until(lambda: len(log) > 3)
    asked, began = threading.Event(), time.perf_counter()
    worker.ask(worker.join(print), asked.set)
    assert asked.wait(1)
    assert time.perf_counter() - began < 0.1


def test_a_new_job_ends_the_old_one_between_chunks(worker):
    ended = threading.Event()

    def job():
        try:
            while True:
                yield 0.001
        finally:
            ended.set()

    share = worker.join(print)
    worker.start(share, job())
    time.sleep(0.02)
    worker.start(share, iter(()))
    assert ended.wait(1)


def test_a_closed_tab_ends_its_work_and_its_asks(worker):
    log: list[str] = []
    share = worker.join(print)
    worker.start(share, busy(0.002, log, "job"))
    until(lambda: log)
    worker.leave(share)
    until(lambda: share not in worker.shares)
    count = len(log)
    time.sleep(0.03)
    assert len(log) <= count + 1


def test_a_job_waits_for_its_room_and_for_a_page_that_is_slow(worker):
    log: list[str] = []
    gate, open_ = threading.Event(), [False]
    share = worker.join(print, ready=lambda: open_[0])
    worker.start(share, busy(0.001, log, "job"), gate)
    time.sleep(0.05)
    assert log == []
    gate.set()
    time.sleep(0.05)
    assert log == []
    open_[0] = True
    until(lambda: log)


def test_an_error_is_told_to_its_tab_and_the_thread_goes_on(worker):
    told: list[Exception] = []

    def broken():
        yield None
        raise ValueError("no")

    share = worker.join(told.append)
    worker.start(share, broken())
    until(lambda: told)
    assert str(told[0]) == "no"
    asked = threading.Event()
    worker.ask(share, asked.set)
    assert asked.wait(1)


def test_too_many_asks_are_refused(worker):
    held = threading.Event()
    share = worker.join(print)
    worker.ask(share, held.wait)
    time.sleep(0.02)
    answers = [worker.ask(share, lambda: None) for _ in range(MOST_ASKS + 5)]
    held.set()
    assert answers.count(False) == 5

"""The one thread that computes for every open tab.

A tab has one job, a generator: what it does up to its next `yield` is a chunk of some ten milliseconds. It yields None to go on
at once, or the seconds after which it wants to. Between chunks the thread takes up what matters more: an ask, which is a short
call that a visitor waits for, before any job; and of the jobs that of the tab that has used the least time. A new job takes the
place of the old one between two chunks, and a tab that is closed has none.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

Job = Iterator[float | None]
MOST_ASKS = 64  # that one tab may have waiting


class Share:
    """One tab's part of the worker.

    Args:
        failed: called with an error that a job or an ask has raised.
        ready: whether the tab can take more; a job waits while it cannot.
    """

    def __init__(self, failed: Callable[[Exception], None], ready: Callable[[], bool] = lambda: True):
        self.failed, self.ready = failed, ready
        self.asks: collections.deque[Callable[[], Any]] = collections.deque()
        self.job: Job | None = None
        self.old: list[Job] = []
        self.left = False
        self.used = 0.0  # seconds
        self.wake = 0.0  # when the job wants to go on
        self.gate: threading.Event | None = None  # what the job waits for: that its room is warm


class Worker:
    """The thread, and who shares it.

    >>> seen, worker = [], Worker()
    >>> share = worker.join(failed=print)
    >>> worker.ask(share, lambda: seen.append("asked"))
    True
    >>> worker.close()
    >>> seen
    ['asked']
    """

    def __init__(self) -> None:
        self.shares: list[Share] = []
        self.changed = threading.Condition()
        self.closing = False
        self.thread = threading.Thread(target=self._work, name="lab worker", daemon=True)
        self.thread.start()

    def join(self, failed: Callable[[Exception], None], ready: Callable[[], bool] = lambda: True) -> Share:
        """A share for a new tab; it begins with the time of the one that used least, not with a debt of all others."""
        share = Share(failed, ready)
        with self.changed:
            share.used = min((other.used for other in self.shares), default=0.0)
            self.shares.append(share)
        return share

    def leave(self, share: Share) -> None:
        """End a tab's work."""
        with self.changed:
            share.asks.clear()
            self._retire(share)
            share.left = True
            self._forget(share)
            self.changed.notify()

    def ask(self, share: Share, call: Callable[[], Any], *, alone: bool = False) -> bool:
        """Have something short done before any job, `alone` in place of all that waits; False if too much waits already."""
        with self.changed:
            if alone:
                share.asks.clear()
            if len(share.asks) >= MOST_ASKS:
                return False
            share.asks.append(call)
            self.changed.notify()
            return True

    def start(self, share: Share, job: Job, gate: threading.Event | None = None) -> None:
        """Give a tab another job; the old one ends between two chunks."""
        with self.changed:
            self._retire(share)
            share.job, share.gate, share.wake = job, gate, 0.0
            self.changed.notify()

    def awaken(self, share: Share) -> None:
        """Let a job that waits go on now."""
        with self.changed:
            share.wake = 0.0
            self.changed.notify()

    def close(self, patience: float = 5.0) -> None:
        """Do what is asked, drop all jobs, and end the thread."""
        with self.changed:
            self.closing = True
            self.changed.notify()
        self.thread.join(patience)

    def _forget(self, share: Share) -> None:
        """A tab that has left is gone once its job is closed."""
        if share.left and not share.old and share in self.shares:
            self.shares.remove(share)

    def _retire(self, share: Share) -> None:
        if share.job is not None:
            share.old.append(share.job)  # closed by the worker itself: it may be inside it now
            share.job = None

    def _work(self) -> None:
        while (chosen := self._next()) is not None:
            share, call = chosen
            began = time.perf_counter()
            try:
                call()
            except Exception as error:
                if not isinstance(error, (ValueError, ArithmeticError)):
                    traceback.print_exc()
                share.failed(error)
            share.used += time.perf_counter() - began

    def _next(self) -> tuple[Share, Callable[[], Any]] | None:
        """What to do now; waits until there is something. None when the worker is to end."""
        with self.changed:
            while True:
                if leaving := [share for share in self.shares if share.old]:
                    return leaving[0], functools.partial(self._drop, leaving[0])
                if asking := [share for share in self.shares if share.asks]:
                    share = min(asking, key=lambda share: share.used)
                    return share, share.asks.popleft()
                if self.closing:
                    return None
                now = time.monotonic()
                waiting = [share for share in self.shares if share.job is not None]
                due = [share for share in waiting if share.wake <= now and _open(share)]
                if due:
                    share = min(due, key=lambda share: share.used)
                    return share, functools.partial(self._chunk, share)
                # A tab that cannot take more, or whose room is not warm, is looked at again soon.
                until = min((share.wake - now if share.wake > now else 0.01 for share in waiting), default=None)
                self.changed.wait(until)

    def _drop(self, share: Share) -> None:
        with self.changed:
            gone, share.old = share.old, []
        for job in gone:
            with contextlib.suppress(Exception):
                job.close()  # type: ignore[attr-defined]
        with self.changed:
            self._forget(share)

    def _chunk(self, share: Share) -> None:
        job = share.job
        if job is None:
            return
        try:
            pause = next(job)
        except StopIteration:
            self._ended(share, job)
            return
        except Exception:
            self._ended(share, job)
            raise
        if pause is not None:
            share.wake = time.monotonic() + pause

    def _ended(self, share: Share, job: Job) -> None:
        with self.changed:
            if share.job is job:
                share.job = None


def _open(share: Share) -> bool:
    return (share.gate is None or share.gate.is_set()) and share.ready()

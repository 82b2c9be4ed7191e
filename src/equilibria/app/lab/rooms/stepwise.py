"""A long call of the library, made to go step by step.

`eq.train` calls back at every record and comes back at its end. Here it runs on a thread of its own that only moves while it is
asked for its next record, so that the worker does one thing at a time, and a room that is left ends its run by `StopRun`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from equilibria.learn.stopping import StopRun


def stepwise(work: Callable[[Callable[[Any], None]], Any]) -> Iterator[Any]:
    """What `work` pauses with, one after another.

    Args:
        work: a function of `pause`; wherever it calls `pause(value)`, it waits until the next value is asked for. Once nobody
            asks any more, `pause` raises `StopRun`.

    Yields:
        The values.

    >>> list(stepwise(lambda pause: [pause(number) for number in range(3)]))
    [0, 1, 2]
    """
    turn, back = threading.Semaphore(0), queue.SimpleQueue[tuple[str, Any]]()
    left = threading.Event()

    def pause(value: Any) -> None:
        back.put(("value", value))
        turn.acquire()
        if left.is_set():
            raise StopRun("the room was left")

    def body() -> None:
        turn.acquire()
        try:
            if not left.is_set():
                work(pause)
            back.put(("end", None))
        except StopRun:
            back.put(("end", None))
        except BaseException as error:
            back.put(("error", error))

    thread = threading.Thread(target=body, name="lab run", daemon=True)
    thread.start()
    kind = "value"
    try:
        while True:
            turn.release()
            kind, value = back.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        left.set()
        while kind == "value":  # a run that is stopped may still have records to show
            turn.release()
            kind, _ = back.get()
        thread.join()

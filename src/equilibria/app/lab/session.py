"""One tab: what it says, what is sent to it, and the room that it is in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from equilibria import check
from equilibria.app.lab.catalogue import PLANS
from equilibria.app.lab.frames import pack
from equilibria.app.lab.rooms.room import Room, room_class
from equilibria.app.lab.worker import Worker

MOST_WAITING = 6  # messages on their way to a page; a page that is slower is sent fewer frames, not older ones


class Session:
    """A tab from the moment it connects until it is closed.

    Args:
        socket: the connection.
        worker: who computes.
        warm: for each room whether its code is compiled.
        tables: what was dropped on pages, by name.
    """

    def __init__(
        self, socket: WebSocket, worker: Worker, warm: dict[str, threading.Event], tables: dict[str, np.ndarray]
    ):
        self.socket, self.worker, self.warm, self.tables = socket, worker, warm, tables
        self.loop = asyncio.get_running_loop()
        self.outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self.waiting, self.counting = 0, threading.Lock()  # two threads count
        self.room: Room | None = None
        self.turning: dict[str, dict[str, Any]] = {}
        self.share = worker.join(self.failed, lambda: self.waiting < MOST_WAITING)

    def emit(self, message: dict[str, Any]) -> None:
        """Send a message, from whatever thread."""
        content = pack(message)
        with self.counting:
            self.waiting += 1
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            self.loop.call_soon_threadsafe(self.outgoing.put_nowait, content)

    def failed(self, error: Exception, question: Any = None) -> None:
        """Tell the page what went wrong, in the words of the error; a defect of ours is said to be one."""
        known = isinstance(error, (ValueError, ArithmeticError))
        text = str(error) if known else f"The lab has failed here ({type(error).__name__}); its terminal says more."
        self.emit({"kind": "error", "text": text, "re": question})

    async def serve(self) -> None:
        """Until the tab is closed."""
        sender = asyncio.create_task(self._send())
        try:
            while True:
                self._heard(await self.socket.receive_text())
        except (WebSocketDisconnect, KeyError):  # KeyError: bytes, which pages do not send
            pass
        finally:
            sender.cancel()
            self.worker.leave(self.share)

    async def _send(self) -> None:
        while True:
            content = await self.outgoing.get()
            try:
                await self.socket.send_bytes(content)
            except (WebSocketDisconnect, RuntimeError):  # closed; `serve` hears of it too
                return
            with self.counting:
                self.waiting -= 1

    def _heard(self, text: str) -> None:
        question = None
        try:
            message = json.loads(text)
            if not isinstance(message, dict):
                check.refuse("message", type(message).__name__, "an object")
            question = message.get("re")
            how = {"enter": self._enter, "turn": self._turn, "act": self._act, "code": self._code, "file": self._file}
            act = how[check.choice("do", str(message.get("do")), how)]
        except ValueError as error:
            return self.failed(error, question)

        if message["do"] == "turn":  # a slider that is dragged: of values that wait only the last one counts
            name = str(message.get("name"))
            waits = name in self.turning
            self.turning[name] = message
            if waits:
                return None

        def ask() -> None:
            try:
                act(self.turning.pop(name, message) if message["do"] == "turn" else message)
            except ValueError as error:
                self.failed(error, question)

        entering = message["do"] == "enter"
        if entering:
            self.turning.clear()  # of the room that is left
        if not self.worker.ask(self.share, ask, alone=entering):
            self.turning.clear()
            self.failed(ValueError("Too much is asked at once: wait a moment."), question)

    def _enter(self, message: dict[str, Any]) -> None:
        """Go into a room, or begin anew in the same one."""
        name, given = check.choice("room", str(message.get("room")), PLANS), message.get("state", {})
        if not isinstance(given, dict):
            check.refuse("state", type(given).__name__, "values by name")
        state = PLANS[name].state(given)
        if not self.warm[name].is_set():
            self.emit({"kind": "warming", "room": name})
        self.room = None
        self.worker.start(self.share, self._job(name, state, message.get("visit")), self.warm[name])

    def _job(self, name: str, state: dict[str, Any], visit: Any) -> Any:
        """The room's work; the room is made by the worker once its code is there."""

        def emit(message: dict[str, Any]) -> None:
            self.emit({**message, "visit": visit})

        self.room = room_class(name)(state, emit, self.tables)
        emit({"kind": "entered", "room": name, "state": state})
        yield from self.room.run()
        emit({"kind": "done"})

    def _here(self) -> Room:
        if self.room is None:
            raise ValueError("The room is not ready yet: wait a moment.")
        return self.room

    def _turn(self, message: dict[str, Any]) -> None:
        self._here().turn(str(message.get("name")), message.get("value"))
        self.worker.awaken(self.share)

    def _act(self, message: dict[str, Any]) -> None:
        self._here().act(message)
        self.worker.awaken(self.share)

    def _code(self, message: dict[str, Any]) -> None:
        self.emit({"kind": "code", "text": self._here().code(), "re": message.get("re")})

    def _file(self, message: dict[str, Any]) -> None:
        from equilibria.app.lab import export  # slow to import, and of no use before

        content = export.written(self._here().dataset(), str(message.get("form")))
        self.emit({"kind": "file", "content": np.frombuffer(content, np.uint8), "re": message.get("re")})

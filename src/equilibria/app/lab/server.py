"""The lab's server: the page, one connection for each tab, one worker for all of them."""

from __future__ import annotations

import atexit
import contextlib
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from equilibria import check
from equilibria.app.lab.catalogue import PLANS, PORT
from equilibria.app.lab.frames import pack
from equilibria.app.lab.security import Guard, loopback, new_token
from equilibria.app.lab.uploads import MOST_BYTES, upload
from equilibria.app.lab.worker import Worker

STATIC = Path(__file__).parent / "static"
MOST_TABS = 8


class Lab:
    """A lab that can be served: its token, its worker, its application.

    Args:
        token: what the page needs; a new one by default.
        hosts: names under which it is reached besides the loopback's.
        any_address: lets in every Host that is a numerical address.
        rooms: which rooms are made warm, in this order; all by default.
        cache: keeps what is compiled in the user's cache folder, as commands do.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        hosts: Sequence[str] = (),
        any_address: bool = False,
        rooms: Sequence[str] | None = None,
        cache: bool = False,
    ):
        self.token = token or new_token()
        self.worker = Worker()
        self.warm = {name: threading.Event() for name in PLANS}
        self.tabs = 0
        self.tables: dict[str, Any] = {}
        self.closing = False
        order = list(PLANS) if rooms is None else [check.choice("rooms", room, PLANS) for room in rooms]
        self.warming = threading.Thread(target=self._make_warm, args=(order, cache), name="lab warming", daemon=True)
        routes = [
            Route("/", _page),
            Route("/api/upload", upload, methods=["POST"]),
            WebSocketRoute("/api/live", self.live),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        guard = Middleware(Guard, token=self.token, hosts=hosts, any_address=any_address)
        self.app = Starlette(routes=routes, middleware=[guard], lifespan=self._lifespan)
        self.app.state.tables = self.tables

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.begin()
        yield
        self.close()

    def begin(self) -> None:
        """Begin to compile what the rooms need, beside serving the page."""
        if not self.warming.is_alive() and not self.closing:
            self.warming.start()

    def close(self) -> None:
        """End the work."""
        self.closing = True
        self.worker.close(patience=1.0)

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work, in compiled code or a compiler that nothing can interrupt."""
        return self.warming.is_alive() or self.worker.thread.is_alive()

    def _make_warm(self, order: Sequence[str], cache: bool) -> None:
        from equilibria import compiled
        from equilibria.app.lab.first import first_sweep

        if cache:
            compiled.cache()
        if order:  # the compiler and Python's imports use two cores
            there = threading.Event()
            beside = threading.Thread(target=self._first_room, args=(there,), daemon=True)
            self._attempt(lambda: first_sweep(beside.start))
            if beside.ident is not None:
                there.wait()
        from equilibria.app.lab.rooms.room import room_class

        def warm(name: str, how: str) -> None:
            self._attempt(lambda: getattr(room_class(name), how)())

        for name in order:
            warm(name, "warm")
            self.warm[name].set()
            warm(name, "warm_soon")
        for name in order:
            warm(name, "warm_later")
        if order and beside.ident is not None:
            beside.join()

    def _first_room(self, there: threading.Event) -> None:
        from equilibria.app.lab.first import first_room

        self._attempt(lambda: first_room(there))
        there.set()  # also where the lab was closed first, and nothing was attempted

    def _attempt(self, work: Callable[[], None]) -> None:
        """What fails here fails again in the room, and is told there."""
        try:
            if not self.closing:
                work()
        except Exception:
            traceback.print_exc()

    async def live(self, socket: WebSocket) -> None:
        """One tab."""
        await socket.accept()
        if self.tabs >= MOST_TABS:
            text = f"The lab has {MOST_TABS} open tabs, which is the most it serves: close one and try again."
            await socket.send_bytes(pack({"kind": "full", "text": text}))
            return await socket.close(1013)
        self.tabs += 1
        try:
            rooms = [plan.told() for plan in PLANS.values()]
            await socket.send_bytes(
                pack({"kind": "hello", "rooms": rooms, "tabs": MOST_TABS, "most_bytes": MOST_BYTES})
            )
            session = await run_in_threadpool(_session_class)
            await session(socket, self.worker, self.warm, self.tables).serve()
        finally:
            self.tabs -= 1


def _session_class() -> Any:
    """Imported beside the loop: what it needs takes longer than a page waits for."""
    from equilibria.app.lab.session import Session

    return Session


def _page(request: Any) -> FileResponse:
    return FileResponse(STATIC / "index.html")


class Served:
    """A lab on a port of this machine.

    Args:
        host: the address to listen on.
        port: the port; None is 8017, or another one where that is taken; 0 is any that is free.
        token: what the page needs; a new one by default.
        rooms: which rooms are made warm, in this order; all by default.
        cache: keeps what is compiled in the user's cache folder.

    Raises:
        OSError: if the port is taken.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int | None = None,
        *,
        token: str | None = None,
        rooms: Sequence[str] | None = None,
        cache: bool = False,
    ):
        self.socket = _listening(host, port)
        self.port = self.socket.getsockname()[1]
        everywhere = host in ("0.0.0.0", "::")
        names = [] if loopback(host) else [host, socket.gethostname(), socket.getfqdn()]
        self.lab = Lab(token, hosts=names, any_address=everywhere, rooms=rooms, cache=cache)
        shown = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
        self.link = f"http://{shown}:{self.port}/?token={self.lab.token}"
        config = uvicorn.Config(
            self.lab.app, log_level="warning", access_log=False, ws_max_size=1 << 17, ws_per_message_deflate=False,
            timeout_graceful_shutdown=1,
            server_header=False,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        self.thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt), self.socket:
            self.server.run(sockets=[self.socket])

    def start(self) -> Served:
        """Serve from a thread of its own, beside a notebook; what nobody closes is closed when Python ends."""
        atexit.register(self.close)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), name="lab server", daemon=True)
        self.thread.start()
        return self

    def close(self) -> None:
        """End the server that `start` began, and wait for what it compiles: Python aborts if it ends meanwhile."""
        atexit.unregister(self.close)
        self.lab.close()  # older versions of uvicorn do not, where they are told to end before they have begun
        self.server.should_exit = True
        if self.thread is not None:
            self.thread.join(10)
        self.socket.close()
        for thread in (self.lab.warming, self.lab.worker.thread):
            if thread.is_alive():
                thread.join(60)


def _listening(host: str, port: int | None) -> socket.socket:
    if port is not None:
        check.count("--port", port, least=0, most=65535)
    if not host:  # the system would listen on every address
        check.refuse("--host", repr(host), "an address of this machine, such as 127.0.0.1; 0.0.0.0 for all of them")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (PORT, 0) if port is None else (port,):
        here = socket.socket(family, socket.SOCK_STREAM)
        if sys.platform != "win32":
            here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            here.bind((host, wanted))
        except OSError as error:
            here.close()
            if isinstance(error, socket.gaierror):
                raise OSError(f"--host: got {host!r}, {error.strerror}; allowed: an address of this machine") from None
            if wanted == PORT and port is None:
                continue
            raise OSError(f"--port: got {wanted} on {host}, {error.strerror}; allowed: a port that is free") from None
        here.listen(64)
        return here
    raise AssertionError("a free port can always be had")

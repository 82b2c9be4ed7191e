"""What `equilibria lab` and `eq.lab()` do. Nothing here imports a server before it is asked for one."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from html import escape
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from equilibria.app.lab.server import Served

# Seconds for which a thread that imports or compiles may keep one waiting that answers a page; Python's own are ten times that.
_TURN = 0.0005
_MISSING = "the lab needs its extra: pip install 'equilibria[lab]'"


def serve(
    port: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None,
    host: str = "127.0.0.1",
    browser: bool = True,
) -> int:
    """Serve the lab, theory and live networks on one page, until Ctrl-C. Prints the whole link as one line.

    Args:
        port: where to listen. By default 8017, or a free one if that is taken.
        host: an address beyond this machine lets everybody who has the link use its processor, over plain http.
        browser: open the page; --no-browser only prints the link.
    """
    sys.setswitchinterval(_TURN)
    try:
        served = _served(host=host, port=port, cache=True)
    except ImportError as error:
        raise ValueError(str(error)) from None
    from equilibria.app.lab.security import loopback  # needs the extra, too

    if not loopback(host):
        print(
            f"equilibria: the lab listens on {host}: whoever has the link can use this machine's processor, and what is "
            "sent is not encrypted.",
            file=sys.stderr,
        )
    print(served.link, flush=True)
    if browser:
        opener = threading.Thread(target=_open, args=(served.link,), daemon=True)
        opener.start()
    served.run()
    if served.lab.busy:  # Python would wait for, or abort, threads that are inside a compiler
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


class LabPage:
    """A lab that is served beside a notebook, which shows it.

    Args:
        served: the server, which runs.
    """

    def __init__(self, served: Served):
        self._served = served
        self.link = served.link

    def close(self) -> None:
        """End the server."""
        self._served.close()

    def _repr_html_(self) -> str:
        source = escape(self.link, quote=True)
        return f'<iframe src="{source}" title="equilibria lab" width="100%" height="760" style="border:0"></iframe>'

    def __repr__(self) -> str:
        return f"the lab at {self.link}"


def lab(*, port: int | None = None) -> LabPage:
    """Show the lab, theory and live networks on one page, in a notebook on this machine.

    Args:
        port: where to listen; by default 8017, or a free one if that is taken.

    Returns:
        The page: a notebook shows it, `link` is its address, and `close()` ends it.

    Raises:
        ImportError: if the extra `[lab]` is not installed.
        OSError: if the port is taken.

    >>> page = lab(port=0)
    >>> page.link.startswith("http://127.0.0.1:")
    True
    >>> page.close()
    """
    return LabPage(_served(port=port).start())


def _served(**options: Any) -> Served:
    try:
        from equilibria.app.lab.server import Served
    except ImportError as error:
        raise ImportError(f"{_MISSING} ({error})") from None
    return Served(**options)


def _open(link: str) -> None:
    with contextlib.suppress(Exception):  # a machine without a browser has the link
        webbrowser.open(link)

"""Who may speak to the lab: those who have its token, from its own page, under a name that is its own.

The page and its scripts can be had by anybody who reaches the port, and hold nothing. Everything below /api/ needs the token.
A Host that is not ours is refused, so that a foreign name cannot be pointed at this machine (DNS rebinding); an Origin that is
not the Host's is refused, so that another page in the same browser cannot use a link that it has seen.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Frames: a notebook on this machine may show the page. Pictures: the page makes its own, as blobs.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self' http://127.0.0.1:* http://localhost:*"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """A token that nobody guesses: 192 random bits."""
    return secrets.token_urlsafe(24)


def loopback(host: str) -> bool:
    """Whether an address is this machine's own.

    >>> loopback("127.0.0.1"), loopback("0.0.0.0")
    (True, False)
    """
    return host in _LOOPBACK or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


class Guard:
    """Lets through what is allowed, refuses the rest with a sentence, and puts the page's policy on every answer.

    Args:
        app: what is guarded.
        token: what everything below /api/ needs, as `?token=` or as the header X-Lab-Token.
        hosts: names under which the lab is reached besides those of the loopback.
        any_address: lets in every Host that is a numerical address: for a server that listens on all of them.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str] = (), any_address: bool = False):
        self.app, self.token, self.any_address = app, token, any_address
        self.hosts = {*_LOOPBACK, *hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        reason = self.refusal(scope)
        if reason is None:
            return await self.app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 4403, "reason": reason})
        await PlainTextResponse(reason + "\n", status_code=403)(scope, receive, _with_headers(send))

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused, or None."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.known(host):
            return "This name is not the lab's: open the link that the command printed."
        if not scope["path"].startswith("/api/"):
            return None
        if origin is not None and urlsplit(origin).netloc != host:
            return "Another page may not use the lab."
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        given = headers.get("x-lab-token", given)
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "The token is missing or old: open the link that the command printed."
        return None

    def known(self, host: str) -> bool:
        """Whether the Host header is one of ours."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.hosts or (self.any_address and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sent

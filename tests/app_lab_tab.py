"""A tab without a browser: what the page says and hears."""

import contextlib
import json

from starlette.testclient import TestClient

from equilibria.app.lab.frames import unpack
from equilibria.app.lab.server import Lab

TOKEN = "token-of-the-tests"


class Tab:
    def __init__(self, socket):
        self.socket, self.visit = socket, 0
        self.hello = self.hear("hello")

    def say(self, **message):
        self.socket.send_text(json.dumps(message))

    def enter(self, room, **state):
        self.visit += 1
        self.say(do="enter", room=room, state=state, visit=self.visit)

    def next(self):
        return unpack(self.socket.receive_bytes())

    def hear(self, *kinds, most=4000):
        """The next message of these kinds; an error that was not asked for fails."""
        for _ in range(most):
            message = self.next()
            if message["kind"] in kinds and message.get("visit", self.visit) == self.visit:
                return message
            assert message["kind"] != "error", message["text"]
        raise AssertionError(f"no {kinds} in {most} messages")

    def all_until(self, kind, most=4000):
        """Every message of this visit up to the first of a kind."""
        found = []
        for _ in range(most):
            message = self.next()
            assert message["kind"] != "error" or kind == "error", message
            if message.get("visit", self.visit) == self.visit:
                found.append(message)
                if message["kind"] == kind:
                    return found
        raise AssertionError(f"no {kind} in {most} messages")

    def ask(self, **message):
        self.say(re=77, **message)
        for _ in range(4000):
            answer = self.next()
            if answer.get("re") == 77:
                return answer
        raise AssertionError("no answer")


@contextlib.contextmanager
def served(rooms=()):
    """A client of a lab whose rooms are not warmed up; they are compiled when they are entered."""
    lab = Lab(TOKEN, rooms=list(rooms))
    for event in lab.warm.values():
        event.set()
    with TestClient(lab.app, base_url="http://127.0.0.1:8017") as client:
        yield client


@contextlib.contextmanager
def opened(client):
    with client.websocket_connect(f"/api/live?token={TOKEN}", headers={"host": "127.0.0.1:8017"}) as socket:
        yield Tab(socket)

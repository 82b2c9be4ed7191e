"""`equilibria lab` from outside: one line with the link, a page behind it, and a clean end."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import equilibria as eq
from equilibria.app.cli import main


@pytest.fixture
def command(tmp_path):
    """The command on a free port, not waiting for a browser; it is killed if a test fails before it ends."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    options = [sys.executable, "-m", "equilibria.app.cli", "lab", "--no-browser", "--port", "0"]
    running = subprocess.Popen(options, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    yield running
    if running.poll() is None:
        running.kill()
        running.communicate()


def status(address):
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_it_prints_its_link_serves_the_page_and_ends_with_ctrl_c(command):
    link = command.stdout.readline().strip()
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\?token=([\w-]{32})", link)
    assert found
    assert status(link) == 200
    assert status(f"{found[1]}static/main.js") == 200
    assert status(f"{found[1]}api/live") == 403
    command.send_signal(signal.SIGINT)
    out, error = command.communicate(timeout=60)
    assert (command.returncode, out, error) == (0, "", "")


def test_a_port_that_is_taken_is_told(capsys):
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        here.listen()
        port = here.getsockname()[1]
        assert main(["lab", "--no-browser", "--port", str(port)]) == 2
    assert f"got {port} on 127.0.0.1" in capsys.readouterr().err


def test_beyond_this_machine_says_what_that_means(capsys, monkeypatch):
    from equilibria.app.lab import server

    monkeypatch.setattr(server.Served, "run", lambda self: self.lab.close())
    assert main(["lab", "--no-browser", "--port", "0", "--host", "0.0.0.0"]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("http://")
    assert out.count("\n") == 1
    assert "whoever has the link can use this machine's processor" in error


def test_a_notebook_shows_it():
    page = eq.lab(port=0)
    shown = page._repr_html_()
    assert shown.startswith('<iframe src="http://127.0.0.1:')
    assert status(page.link) == 200
    page.close()
    with pytest.raises(OSError, match=r".*"):
        status(page.link)

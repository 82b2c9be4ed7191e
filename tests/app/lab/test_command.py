"""`equilibria lab` from outside: one line with the link, a page behind it, and a clean end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from websockets.sync.client import connect

import equilibria as eq
from equilibria.app.cli import main
from equilibria.app.lab.frames import unpack


@pytest.fixture
def begun(tmp_path):
    """Begins the command on a free port, in a process of its own, which it ends; killed if a test fails before that."""
    environment, processes = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, []

    def begin(*options):
        words = [sys.executable, "-m", "equilibria.app.cli", "lab", "--no-browser", "--port", "0", *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes.append(subprocess.Popen(words, env=environment, text=True, **pipes))
        return processes[-1]

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def status(address):
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_it_prints_its_link_serves_the_page_and_ends_with_ctrl_c_while_a_tab_is_open(begun):
    command = begun()
    link = command.stdout.readline().strip()
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)\?token=([\w-]{32})", link)
    assert found
    assert status(link) == 200
    assert status(f"{found[1]}static/main.js") == 200
    assert status(f"{found[1]}api/live") == 403
    with connect(f"ws{found[1].removeprefix('http')}api/live?token={found[2]}") as tab:
        assert unpack(tab.recv(timeout=60))["kind"] == "hello"
        tab.send(json.dumps({"do": "enter", "room": "remember", "state": {}, "visit": 1}))
        while unpack(tab.recv(timeout=120))["kind"] != "frame":
            pass
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


def test_beyond_this_machine_says_what_that_means(begun):
    command = begun("--host", "0.0.0.0")
    link = command.stdout.readline()
    assert re.fullmatch(r"http://[^/]+:\d+/\?token=[\w-]{32}\n", link)
    port = link.partition("/?")[0].rpartition(":")[2]
    assert status(f"http://127.0.0.1:{port}/static/main.js") == 200  # it serves, and listens for signals
    command.send_signal(signal.SIGINT)
    out, error = command.communicate(timeout=60)
    assert (command.returncode, out) == (0, "")
    assert "whoever has the link can use this machine's processor" in error


def test_a_notebook_shows_it():
    page = eq.lab(port=0)
    shown = page._repr_html_()
    assert shown.startswith('<iframe src="http://127.0.0.1:')
    assert status(page.link) == 200
    page.close()
    with pytest.raises(OSError, match=r".*"):
        status(page.link)
    assert not page._served.lab.warming.is_alive()  # Python 3.13 aborts if it ends while a thread compiles


def test_a_lab_that_is_closed_while_it_begins_comes_to_its_end(monkeypatch):
    from equilibria.app.lab import first, server

    lab = server.Lab(rooms=["remember"])

    def closed_meanwhile(meanwhile):
        lab.close()
        meanwhile()

    monkeypatch.setattr(first, "first_sweep", closed_meanwhile)
    lab.begin()
    lab.warming.join(60)
    assert not lab.busy


def test_what_was_told_to_end_before_it_had_begun_ends_all_its_threads():
    from equilibria.app.lab.server import Served

    served = Served(port=0, rooms=[])
    served.lab.begin()
    served.close()  # without the server's own word, which some versions of uvicorn do not give
    assert not served.lab.busy


def test_what_nobody_closes_is_closed_before_python_ends():
    code = (
        "import atexit, equilibria as eq; atexit.register(lambda: print('at work:', page._served.lab.busy));"
        "page = eq.lab(port=0)"  # hooks run in reverse order: the lab's before the one that prints
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "at work: False\n"), ended.stderr


def test_without_its_extra_the_command_says_in_one_line_what_to_install():
    code = (
        "import sys; sys.modules |= dict.fromkeys(['starlette', 'starlette.datastructures', 'uvicorn'])\n"
        "from equilibria.app.cli import main; sys.exit(main(['lab', '--no-browser']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "pip install 'equilibria[lab]'" in ended.stderr

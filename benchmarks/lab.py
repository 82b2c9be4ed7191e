"""The lab as a visitor meets it: its page in Chromium, from the command on, with nothing compiled before.

Times are of the page's own clock, at the frame in which it shows what is waited for. The browser runs before the command does,
as a visitor's does. It needs Playwright for Python and Chromium.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
# Every sweep that the page shows, with the time of the first frame that has it.
_WATCH = """
window.seen = [];
(function look() {
  const sweep = parseInt(document.getElementById('n-sweep')?.textContent);
  if (sweep >= 0 && window.seen.at(-1)?.[1] !== sweep) window.seen.push([performance.timeOrigin + performance.now(), sweep]);
  requestAnimationFrame(look);
})();
"""
_PAINT = "performance.timeOrigin + performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Turn a dial as a finger does, and wait for the frame in which the answer stands; milliseconds.
_TURN = """
([name, value]) => new Promise((done) => {
  const text = (id) => document.getElementById(id).textContent, before = { theory: text('n-theory'), sweep: text('n-sweep') };
  const dial = document.getElementById(`dial-${name}`), output = document.querySelector(`output[for=dial-${name}]`);
  const began = performance.now();
  dial.value = value;
  dial.dispatchEvent(new Event('input', { bubbles: true }));
  (function look() {
    if (ANSWERED || performance.now() - began > 3000) done(performance.now() - began); else requestAnimationFrame(look);
  })();
})
"""
_DIALS = {  # places of the slider, how the page shows the answer, and what that is
    "temperature": (np.linspace(0.3, 0.62, 12).round(2), "text('n-theory') !== before.theory", "theory is there"),
    "flips": (
        np.linspace(0.05, 0.45, 9).round(2),
        "parseInt(text('n-sweep')) < parseInt(before.sweep)",
        "a new cue is there",
    ),
    "load": (
        np.linspace(0.1, 0.5, 9).round(3),
        "output.textContent.includes('K =')",
        "another network and its theory are there",
    ),
}


def main() -> None:
    """Start the command, watch its page, and print what it took."""
    chromium = os.environ.get("EQUILIBRIA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("measured where Chromium and Playwright for Python are")
        return
    with sync_playwright() as running, tempfile.TemporaryDirectory() as folder:
        browser = running.chromium.launch(executable_path=chromium, args=_OPTIONS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(_WATCH)
        began = time.time()
        command = _command(folder)
        try:
            assert command.stdout is not None
            page.goto(command.stdout.readline().strip(), wait_until="commit")
            for name, found, goal in (*_first(page, began), *_pace(page), *_turned(page)):
                print(f"{name:72} {found:>12}   {goal}", flush=True)
        finally:
            browser.close()
            command.send_signal(signal.SIGINT)
            command.wait(20)


def _command(folder: str) -> subprocess.Popen[str]:
    """The lab with an empty cache."""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    options = [sys.executable, "-m", "equilibria.app.cli", "lab", "--no-browser", "--port", "0"]
    environment["XDG_CACHE_HOME"] = folder
    return subprocess.Popen(options, env=environment, stdout=subprocess.PIPE, text=True)


def _first(page: Any, began: float) -> list[tuple[str, str, str]]:
    moved = _until(page, "window.seen?.find((row) => row[1] > 0)?.[0]")
    rows = [("first paint", page.evaluate(_PAINT), 1), ("first moving neurons, nothing compiled before", moved, 3)]
    return [(name, f"{at / 1000 - began:.2f} s", f"below {goal} s") for name, at, goal in rows]


def _pace(page: Any) -> list[tuple[str, str, str]]:
    """How many sweeps the page shows in a second, of the 30 that it may be asked for."""
    found = []
    for address, name in (("pace=30", "8 patterns"), ("pace=30&patterns=random&load=1&sleep=0", "784 patterns")):
        page.evaluate(f"location.hash = 'remember?{address}'")
        _until(page, "parseInt(document.getElementById('n-sweep').textContent) === 8")
        _until(page, "parseInt(document.getElementById('n-sweep').textContent) > 8")
        page.evaluate("window.seen.length = 0")
        page.wait_for_timeout(4000)
        times = np.array([row[0] for row in page.evaluate("window.seen")])
        rate = 1000 * (len(times) - 1) / (times[-1] - times[0])
        found.append((f"frames a second, 784 neurons, {name}", f"{rate:.1f}", "at least 20"))
    return found


def _turned(page: Any) -> list[tuple[str, str, str]]:
    page.evaluate("location.hash = 'remember?patterns=random&load=0.03&sleep=0'")
    _until(page, "document.querySelector('svg.chart.clickable').textContent.includes('spins freeze')")
    found = []
    for name, (values, answered, what) in _DIALS.items():
        times = []
        for value in values:
            times.append(page.evaluate(_TURN.replace("ANSWERED", answered), [name, str(value)]))
            page.wait_for_timeout(400)
        told = f"{np.median(times):.0f}, {max(times):.0f} ms"
        found.append((f"dial {name}, until {what}: median, worst", told, "below 100 ms"))
    return found


def _until(page: Any, expression: str, seconds: float = 60.0) -> Any:
    """What it gives once that is something; the page's policy forbids Playwright's own way."""
    end = time.monotonic() + seconds
    while not (found := page.evaluate(f"(() => {{ try {{ return {expression}; }} catch {{ return null; }} }})()")):
        if time.monotonic() > end:
            raise TimeoutError(expression)
        page.wait_for_timeout(20)
    return found


if __name__ == "__main__":
    main()

"""The lab in a real browser, operated as a visitor would; what the page shows is compared with the library."""

import http.server
import os
import re
import shutil
import threading
import time

import jax
import numpy as np
import pytest
import xarray as xr
from PIL import Image

import equilibria as eq
from equilibria.app.lab.command import LabPage
from equilibria.app.lab.server import Served

CHROMIUM = os.environ.get("EQUILIBRIA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
playwright = pytest.importorskip(
    "playwright.sync_api", reason="the lab is tested in a browser with Playwright for Python"
)
if CHROMIUM is None:
    pytest.skip("the lab is tested in a browser where Chromium is: apt-get install chromium", allow_module_level=True)

ROOMS = {"remember": "overlap", "phases": "done", "distribution": "step", "classify": "answer", "synapses": "step"}
RECALL = "remember?patterns=random&flips=0.1&load=0.03&sleep=0&temperature=0.3&pace=30&seed=4"
SECONDS = 180_000  # of patience with a machine that is busy compiling, in milliseconds


@pytest.fixture(scope="module")
def lab():
    served = Served(port=0, token="token-of-the-tests", rooms=[]).start()
    for event in served.lab.warm.values():
        event.set()
    yield served
    served.close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


class Visitor:
    """One page, and what it complained about."""

    def __init__(self, browser, lab, **options):
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(SECONDS)
        self.page, self.lab, self.complaints = self.context.new_page(), lab, []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)

    def go(self, address=""):
        self.page.goto(f"{self.lab.link}#{address}" if address else self.lab.link)
        return self

    def number(self, id):
        """A number as the page shows it, once it shows one."""
        self.wait(f"/[0-9]/.test(document.getElementById('n-{id}')?.textContent || '')")
        text = self.page.locator(f"#n-{id}").inner_text().replace("−", "-")
        return float(re.search(r"-?\d+(\.\d+)?", text)[0])

    def text(self, id):
        return self.page.locator(f"#n-{id}").inner_text()

    def wait(self, expression):
        """Until it is true; Playwright's own way needs `eval`, which the page's policy forbids."""
        end = time.monotonic() + SECONDS / 1000
        while not self.page.evaluate(
            f"(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        ):
            assert time.monotonic() < end, f"never came true: {expression}"
            self.page.wait_for_timeout(30)

    def state(self):
        return dict(re.findall(r"(\w+)=([^&]*)", self.page.evaluate("location.hash")))


@pytest.fixture
def visitor(browser, lab):
    visitor = Visitor(browser, lab)
    yield visitor
    visitor.context.close()
    assert visitor.complaints == []


def recalled(sweeps, *, load=0.03, temperature=0.3, seed=4):
    patterns = eq.data.random_patterns(784, 784, key=eq.key(seed))[: round(load * 784)]
    neurons, network = eq.data.corrupt(patterns[0], flips=0.1, masked=0.3, key=eq.key(seed + 1)), eq.hopfield(patterns)
    for sweep in range(sweeps):
        key = jax.random.fold_in(eq.key(seed + 2), sweep)
        neurons = eq.equilibrate(network, eq.Sweeps(1), neurons, temperature=temperature, key=key)["neurons"]
    return float(eq.overlap(neurons, patterns[0])), np.asarray(neurons)


def test_remember_shows_the_overlap_of_the_library(visitor):
    visitor.go(RECALL)
    visitor.wait("Number.parseInt(document.getElementById('n-sweep').textContent) >= 6")
    visitor.page.keyboard.press(" ")
    visitor.page.wait_for_timeout(300)
    sweep = int(visitor.number("sweep"))
    overlap = recalled(sweep)[0]
    assert visitor.number("overlap") == pytest.approx(overlap, abs=5e-4)
    assert visitor.number("theory") == pytest.approx(float(eq.theory.hopfield(24 / 784, 0.3).m), abs=5e-4)
    visitor.page.keyboard.press(".")
    visitor.wait(f"document.getElementById('n-sweep').textContent.startsWith('{sweep + 1}')")
    assert visitor.number("overlap") == pytest.approx(recalled(sweep + 1)[0], abs=5e-4)
    # the picture itself: neurons that are on are dark, in the page's light colours
    picture = "[...document.querySelector('canvas.pixels').getContext('2d').getImageData(0, 0, 28, 28).data]"
    pixels = np.array(visitor.page.evaluate(picture)).reshape(-1, 4)[:, :3]
    on = (np.abs(pixels - [0x23, 0x26, 0x2B]).sum(axis=1) < 6) | (np.abs(pixels - [0xD5, 0x5E, 0]).sum(axis=1) < 6)
    assert np.array_equal(on, recalled(sweep + 1)[1] > 0)


def test_a_click_in_the_diagram_goes_there(visitor):
    visitor.go(RECALL)
    visitor.wait("document.querySelectorAll('svg.chart.clickable path').length > 5")
    box = visitor.page.locator("svg.chart.clickable").bounding_box()
    visitor.page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.75 * box["height"])
    visitor.wait("!location.hash.includes('load=0.03&')")
    load, heat = (visitor.state()[name] for name in ("load", "temperature"))
    count = round(float(load) * 784)
    visitor.wait(f"document.querySelector('output[for=dial-load]').textContent.includes('K = {count})')")
    expected = eq.theory.hopfield(count / 784, float(heat)).m
    assert visitor.number("theory") == pytest.approx(float(expected), abs=5e-4)
    visitor.page.locator("svg.chart.clickable").focus()
    visitor.page.keyboard.press("ArrowUp")
    visitor.wait(f"!location.hash.includes('temperature={heat}')")
    assert float(visitor.state()["temperature"]) > float(heat)


def test_a_cue_is_drawn_and_stored(visitor):
    visitor.go("remember?temperature=0&pace=30")
    visitor.number("overlap")
    visitor.page.get_by_role("button", name="Empty cue").click()
    visitor.wait("location.hash.includes('cue=')")
    box = visitor.page.locator("canvas.paintable").bounding_box()
    visitor.page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"], steps=12)
    before = visitor.state()["cue"]
    visitor.page.mouse.up()
    visitor.wait(f"!location.hash.includes('{before}')")
    visitor.page.get_by_role("button", name="Store what is drawn").click()
    visitor.wait("location.hash.includes('mine=')")
    assert visitor.state()["patterns"] == "mine"
    visitor.number("overlap")


def test_pictures_are_dropped_and_bad_ones_refused(visitor, tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "<img src=x onerror=alert(1)>.png"
    Image.fromarray(np.pad(np.full((40, 40), 255, np.uint8), 15)).save(good)
    bad.write_bytes(b"no picture")
    visitor.go("remember?pace=30")
    visitor.number("overlap")
    visitor.page.locator("#pictures").set_input_files(good)
    visitor.wait("location.hash.includes('mine=')")
    visitor.page.locator("#pictures").set_input_files(bad)
    visitor.wait("document.getElementById('toast').textContent.includes('no picture')")
    assert visitor.page.locator("#toast img").count() == 0
    visitor.complaints = [text for text in visitor.complaints if "400" not in text]  # the browser notes the refusal


def test_a_rectangle_is_simulated_over_the_theory(visitor):
    visitor.go("phases?points=2&seed=3")
    visitor.wait("document.querySelectorAll('svg.chart.clickable path').length > 5")
    box = visitor.page.locator("svg.chart.clickable").bounding_box()
    visitor.page.mouse.move(box["x"] + 0.15 * box["width"], box["y"] + 0.8 * box["height"])
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.6 * box["height"], steps=5)
    visitor.page.mouse.up()
    visitor.wait("document.getElementById('n-done').textContent === '4 of 4'")
    from equilibria.app.lab.catalogue import PLANS
    from equilibria.app.lab.rooms.phases import Phases, cells

    area = visitor.state()["area"].replace("%2C", ",")
    room = Phases(PLANS["phases"].state({"points": 2, "seed": 3, "area": area}), lambda message: None, {})
    found = [room.simulated(*cell, number) for number, cell in enumerate(cells(area, 2, (1.0, 2.0)))]
    titles = visitor.page.evaluate(
        "[...document.querySelectorAll('svg.chart.clickable circle title')].map(t => t.textContent)"
    )
    shown = [float(re.search(r": (-?[\d.]+) ±", title.replace("−", "-"))[1]) for title in titles]
    assert shown == pytest.approx([cell["value"] for cell in found], abs=6e-4)
    ordered = [cell for cell in found if cell["theory"] > 0]
    assert len(ordered) > 1
    assert visitor.number("distance") == pytest.approx(
        np.mean([abs(cell["value"] - cell["theory"]) for cell in ordered]), abs=1e-3
    )


def test_other_models_of_the_phase_diagram(visitor):
    visitor.go("phases?model=examples&here=0.01,0.1")
    entropy = eq.theory.dataset_entropy(0.7, 8)
    expected = eq.theory.hopfield_examples(0.01, 0.1, entropy=entropy, examples=8).m
    assert visitor.number("theory") == pytest.approx(float(expected), abs=6e-4)
    visitor.page.get_by_text("RBM with a mode").click()
    visitor.wait("document.querySelector('svg.chart.clickable').textContent.includes('ferromagnet')")
    assert visitor.page.locator("#dial-sleep").is_hidden()
    assert visitor.page.locator("#dial-aspect").is_visible()


def test_a_machine_learns_its_clusters(visitor):
    visitor.go("distribution?steps=200&seed=2")
    visitor.wait("document.getElementById('n-step')?.textContent === '200'")
    visitor.wait("document.getElementById('n-likelihood').textContent.includes('from')")
    assert visitor.number("outliers") == 3  # one mode for each cluster
    verdict = visitor.page.locator("#verdict").inner_text()
    assert re.search(r": (mixed|not mixed.*)\.$", verdict)
    assert visitor.text("mixed").startswith("not mixed") == (": not mixed" in verdict)


def test_a_table_of_ones_own_is_learned(visitor, tmp_path):
    random = np.random.default_rng(0)
    rows = np.sign(random.normal(size=(80, 1)) * random.normal(size=12) + random.normal(size=(80, 12)))
    np.savetxt(tmp_path / "mine.csv", rows, delimiter=",")
    visitor.go("distribution?steps=200")
    visitor.number("step")
    visitor.page.locator("#table-file").set_input_files(tmp_path / "mine.csv")
    visitor.wait("document.getElementById('n-machine').textContent.includes('12 × 60')")
    visitor.number("outliers")


def test_a_network_learns_to_classify_and_answers_a_drawing(visitor):
    visitor.go("classify?epochs=4&seed=1")
    visitor.wait("document.getElementById('n-epoch')?.textContent.startsWith('4.00')")
    assert visitor.number("error") < 15  # of a hundred; chance is 90
    assert visitor.number("cosine") > 0.5
    box = visitor.page.locator("canvas.paintable").bounding_box()
    visitor.page.locator("#wipe").click()
    visitor.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.1 * box["height"])
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.9 * box["height"], steps=20)
    visitor.page.mouse.up()
    visitor.wait("document.getElementById('n-truth').textContent === 'drawn'")
    visitor.page.wait_for_timeout(400)
    assert visitor.number("answer") in range(10)


def test_planted_fields_are_found(visitor):
    visitor.go("synapses?density=4&steps=100&seed=2")
    visitor.wait("document.getElementById('n-step')?.textContent === '100'")
    fields = eq.data.planted_receptive_fields(2, 100, key=eq.key(2))
    data = np.asarray(eq.data.planted_data(fields, 600, key=eq.key(3)))[:400]
    run = eq.learn_synapses(data, 2, steps=100, every=4, key=eq.key(4))
    expected = eq.match_fields(np.asarray(run.synapses.decoded).T, fields).overlaps.mean()
    assert visitor.number("overlap") == pytest.approx(expected, abs=6e-4)
    assert visitor.number("threshold") == pytest.approx(1.0, abs=0.005)
    assert visitor.number("bound") == pytest.approx(float(run.history["bound"][-1]) / 400, abs=2e-3)


def test_the_code_and_the_files_can_be_taken_away(visitor, tmp_path):
    visitor.go(RECALL)
    visitor.number("overlap")
    # the theory's lines come by themselves, after the picture
    visitor.wait("document.getElementById('stage').textContent.includes('retrieval ends')")
    visitor.page.keyboard.press("c")
    visitor.page.locator("#code-text").wait_for()
    code = visitor.page.locator("#code-text").inner_text()
    assert "eq.hopfield(patterns, sleep=0)" in code
    visitor.page.keyboard.press("Escape")
    visitor.page.locator("#save").click()
    kept = {}
    for form in ("SVG", "PNG", "CSV", "netCDF"):
        with visitor.page.expect_download() as waiting:
            visitor.page.get_by_role("button", name=form, exact=True).click()
        kept[form] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(kept[form])
    assert "<script" not in kept["SVG"].read_text()
    assert "retrieval ends" in kept["SVG"].read_text()
    with Image.open(kept["PNG"]) as image:
        assert len(np.unique(np.asarray(image.convert("L")))) > 20
    assert "# seed: 4" in kept["CSV"].read_text()
    with xr.open_dataset(kept["netCDF"]) as dataset:
        assert float(dataset["overlap"][0, 0]) == pytest.approx(recalled(0)[0])


def test_two_tabs_at_once(browser, lab):
    first, second = Visitor(browser, lab), Visitor(browser, lab)
    try:
        first.go(RECALL)
        second.go("synapses?density=2&steps=40")
        second.wait("document.getElementById('n-step')?.textContent === '40'")
        first.wait("Number.parseInt(document.getElementById('n-sweep').textContent) > 10")
        assert first.complaints == second.complaints == []
    finally:
        first.context.close()
        second.context.close()


def test_the_link_opens_the_same_room_with_the_same_seed(visitor, browser, lab):
    visitor.go(RECALL)
    visitor.number("overlap")
    visitor.page.keyboard.press("n")
    visitor.wait("location.hash.includes('seed=5')")
    address = visitor.page.evaluate("location.href")
    other = Visitor(browser, lab)
    other.page.goto(address)
    other.number("overlap")
    assert other.page.locator("#dial-seed").input_value() == "5"
    assert other.state() == visitor.state()
    other.context.close()


def test_a_page_without_the_token_says_what_to_do(browser, lab):
    visitor = Visitor(browser, lab)
    visitor.page.goto(lab.link.partition("?")[0])
    visitor.wait("document.getElementById('notice').textContent.includes('open the link')")
    assert all("WebSocket" in text for text in visitor.complaints)
    visitor.context.close()


def test_a_link_of_a_report_uses_the_token_of_the_last_page(visitor):
    visitor.go(RECALL)
    visitor.number("overlap")
    visitor.page.goto(f"{visitor.lab.link.partition('?')[0]}#synapses?steps=20")
    visitor.number("step")


def test_another_origin_is_refused(browser, lab):
    visitor = Visitor(browser, lab)
    visitor.page.goto("about:blank")
    address = f"ws://127.0.0.1:{lab.port}/api/live?token={lab.lab.token}"
    opened = visitor.page.evaluate(
        "address => new Promise(done => { const s = new WebSocket(address);"
        " s.onopen = () => done(true); s.onerror = () => done(false); })",
        address,
    )
    assert opened is False
    visitor.context.close()


@pytest.fixture
def notebook(lab):
    """A page of another server on this machine that shows what `eq.lab()` gives to a notebook."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(LabPage(lab)._repr_html_().encode())

        def log_message(self, *message):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def test_a_notebook_shows_it_in_a_frame(visitor, notebook):
    visitor.page.goto(notebook)
    inside = visitor.page.frame_locator("iframe").locator("#n-sweep")
    playwright.expect(inside).to_contain_text(re.compile(r"\d"), timeout=SECONDS)


def test_a_server_that_ends_is_shown_and_found_again(browser):
    served = Served(port=0, token="again", rooms=[]).start()
    for event in served.lab.warm.values():
        event.set()
    visitor = Visitor(browser, served).go(RECALL)
    visitor.wait("Number.parseInt(document.getElementById('n-sweep')?.textContent) > 2")
    served.close()
    visitor.wait("document.getElementById('notice').textContent.includes('does not answer')")
    again = Served(port=served.port, token="again", rooms=[]).start()
    for event in again.lab.warm.values():
        event.set()
    visitor.wait("document.documentElement.dataset.connection === 'open'")
    visitor.wait("document.getElementById('notice').textContent === ''")
    visitor.wait("Number.parseInt(document.getElementById('n-sweep').textContent) > 2")
    visitor.context.close()
    again.close()


NAMELESS = """
[...document.querySelectorAll('button, input, select, canvas, svg.chart, [role=img]')]
  .filter(e => !e.closest('[aria-hidden=true]'))
  .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
  .map(e => e.outerHTML.slice(0, 120))
"""
TOO_WIDE = """
new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
  () => done(document.documentElement.scrollWidth - innerWidth))))
"""


@pytest.fixture(scope="module")
def tour(browser, lab):
    """Every room once, reached by its key: what has no name for a screen reader, and by how much the page is too wide."""
    visitor, found = Visitor(browser, lab).go(RECALL), {}
    for number, (room, shown) in enumerate(ROOMS.items(), start=1):
        visitor.number("overlap") if number == 1 else visitor.page.keyboard.press(str(number))
        visitor.wait(f"document.querySelector('nav a[aria-current]')?.getAttribute('href') === '#{room}'")
        visitor.number(shown)
        too_wide = {}
        for width in (375, 900, 1280):
            visitor.page.set_viewport_size({"width": width, "height": 800})
            too_wide[width] = visitor.page.evaluate(TOO_WIDE)
        found[room] = {"nameless": visitor.page.evaluate(NAMELESS), "too wide": too_wide}
    found["complaints"] = visitor.complaints
    visitor.context.close()
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_everything_has_a_name_and_can_be_reached_by_keys(tour, room):
    assert tour[room]["nameless"] == []
    assert tour["complaints"] == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_fits_a_narrow_page(tour, room):
    assert max(tour[room]["too wide"].values()) <= 0, tour[room]["too wide"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_button(browser, lab, scheme):
    visitor = Visitor(browser, lab, color_scheme=scheme)
    visitor.go(RECALL)
    visitor.number("overlap")
    ground = "getComputedStyle(document.body).backgroundColor"
    first = visitor.page.evaluate(ground)
    assert first == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 23, 26)"}[scheme]
    visitor.page.locator("#theme").click()
    assert visitor.page.evaluate(ground) != first
    visitor.context.close()

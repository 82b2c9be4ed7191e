"""Record a minute of the lab as an animated picture: `python docs/record_lab.py [docs/lab.webp]`.

The real page is operated in Chromium, and what it shows is kept as it is, in its own time; only waiting for a room to open is
cut out.
"""

import io
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from equilibria.app.lab.server import Served

SIZE = (1600, 1000)
SHOWN = (1120, 700)  # of the animated picture
PAUSE = 0.25
MOST = 3_000_000  # bytes
CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--no-first-run"]  # fmt: skip


class Camera:
    """What the page shows while it films, and for how many milliseconds."""

    def __init__(self, page: Page):
        self.page, self.frames, self.lasted = page, [], []

    def film(self, seconds: float) -> None:
        """Keep what is shown, a frame every quarter of a second, or as fast as the machine can."""
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            with Image.open(io.BytesIO(self.page.screenshot())) as shot:
                self.frames.append(shot.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS))
            time.sleep(max(0.0, PAUSE - (time.monotonic() - began)))
            self.lasted.append(round(1000 * (time.monotonic() - began)))

    def until(self, expression: str, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not self.page.evaluate(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)

    def go(self, room: str, ready: str) -> None:
        self.page.evaluate(f"location.hash = '{room}'")
        self.until(f"(document.getElementById('n-{ready}')?.textContent || '–') !== '–'")


def play(camera: Camera) -> None:
    """What a visitor does in a minute."""
    page, chart = camera.page, "svg.chart.clickable"
    camera.go("remember?flips=0.3&pace=6", "sweep")
    camera.until("document.querySelector('svg.chart.clickable')?.textContent.includes('spins freeze')")
    page.keyboard.press("r")
    camera.film(4)
    for target in (2, 5):
        page.locator(".thumbs button").nth(target).click()
        camera.film(2)
    for _ in range(12):  # it melts
        page.locator("#dial-temperature").focus()
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        camera.film(0.25)
    camera.film(1)
    box = page.locator(chart).bounding_box()
    page.mouse.click(box["x"] + 0.12 * box["width"], box["y"] + 0.8 * box["height"])
    camera.film(3)
    camera.go("phases", "done")
    camera.until("document.querySelector('svg.chart.clickable')?.textContent.includes('spins freeze')")
    box = page.locator(chart).bounding_box()
    page.mouse.move(box["x"] + 0.14 * box["width"], box["y"] + 0.83 * box["height"])
    page.mouse.down()
    for step in range(8):
        page.mouse.move(
            box["x"] + (0.14 + 0.09 * step) * box["width"], box["y"] + (0.83 - 0.045 * step) * box["height"]
        )
        camera.film(0.25)
    page.mouse.up()
    camera.film(5)
    camera.go("distribution?steps=1000", "step")
    camera.film(9)
    camera.go("classify?epochs=6", "epoch")
    camera.film(7)
    page.locator("#wipe").click()
    box = page.locator("canvas.paintable").bounding_box()
    stroke = [(0.3, 0.2), (0.7, 0.2), (0.6, 0.5), (0.45, 0.85)]  # a seven
    page.mouse.move(box["x"] + stroke[0][0] * box["width"], box["y"] + stroke[0][1] * box["height"])
    page.mouse.down()
    for x, y in stroke[1:]:
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=8)
        camera.film(0.5)
    page.mouse.up()
    camera.film(2.5)
    camera.go("synapses?density=4", "step")
    camera.film(6)
    page.locator("#all").click()
    camera.film(6)


def write(camera: Camera, path: Path) -> int:
    """The frames as one file of at most three million bytes; the quality is what that allows."""
    for quality in (60, 40, 25, 15, 8):
        options = {"duration": camera.lasted, "loop": 0, "quality": quality, "method": 4, "minimize_size": True}
        camera.frames[0].save(path, save_all=True, append_images=camera.frames[1:], **options)
        if path.stat().st_size <= MOST:
            return quality
    raise ValueError(f"{path}: {path.stat().st_size} bytes at the lowest quality")


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/lab.webp")
    served = Served(port=0, cache=True).start()
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        page.goto(served.link)
        served.lab.warming.join()  # until every room is warm, as it is for a visitor after a while
        camera = Camera(page)
        play(camera)
        browser.close()
    served.close()
    quality, seconds = write(camera, path), sum(camera.lasted) / 1000
    print(f"{path}: {len(camera.frames)} frames, {seconds:.0f} s, {path.stat().st_size:,} bytes at quality {quality}")


if __name__ == "__main__":
    main()

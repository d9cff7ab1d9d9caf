"""Screenshots of the five journeys for the documentation, with the clicks and seconds of each.

    python -m tests.browser.stills

Starts a dashboard with an empty data folder, and Chromium.  Writes docs/pictures/*.png and
the table of docs/tour.md.  The last journey calibrates the machine; with `--only predict compare`
it is omitted, and the table is not changed.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image

from tests.benchmarks.page_timings import machine_words, replace_table
from tests.browser.conftest import QUIET, SETTLED, chromium
from tests.browser.journeys import JOURNEYS, Journey, Walk
from tests.dashboards import served

DOCS = Path(__file__).parents[2] / "docs"
PICTURES, TOUR = DOCS / "pictures", DOCS / "tour.md"
MARK = "<!-- python -m tests.browser.stills -->"
MOST_BYTES = 150_000
_SIZE = {"width": 1400, "height": 900}  # the whole navigation


def small_png(picture: bytes, colours: int = 96) -> bytes:
    """A picture as PNG with few colours, reduced until it is small enough for the documentation."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    while True:
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() < MOST_BYTES or colours <= 16:
            return out.getvalue()
        colours //= 2


class Camera:
    """Writes screenshots of a page.  spent_s: seconds that this took so far."""

    def __init__(self, page: Any) -> None:
        self._page, self.spent_s = page, 0.0

    def take(self, name: str) -> None:
        """Write the screenshot of that name, once charts have stopped moving."""
        began = time.monotonic()
        self._page.mouse.move(2, 2)
        self._page.wait_for_timeout(1_000)
        (PICTURES / f"{name}.png").write_bytes(small_png(self._page.screenshot()))
        self.spent_s += time.monotonic() - began


def walked(browser: Any, url: str, journey: Journey) -> tuple[Journey, int, float, str]:
    """A journey with its clicks, its seconds without those of the screenshots, and its answer."""
    page = browser.new_page(viewport=_SIZE)
    page.set_default_timeout(180_000)
    page.goto(url)
    page.wait_for_selector(SETTLED)
    camera = Camera(page)
    walk = Walk(page, look=camera.take)
    began = time.monotonic()
    answer = journey.walk(walk)
    seconds = time.monotonic() - began - camera.spent_s
    page.close()
    return journey, walk.clicks, seconds, answer


def table(rows: Sequence[tuple[Journey, int, float, str]]) -> str:
    """Questions, answers, clicks and seconds as a Markdown table."""
    lines = ["| question | answer | clicks | at most | seconds |", "|---|---|---|---|---|"]
    for journey, clicks, seconds, answer in rows:
        words = " ".join(answer.split()).replace("|", "/").replace("$", "\\$")
        lines.append(
            f"| {journey.question} | {words} | {clicks} | {journey.most} | {seconds:.0f} |"
        )
    return "\n".join([*lines, "", f"{datetime.now(UTC):%Y-%m-%d}, {machine_words()}."])


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[j.name for j in JOURNEYS])
    chosen = parser.parse_args().only
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = {"RIDGELINE_DATA": str(Path(folder) / "data")}
        with served(Path(folder), environment=data) as server:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            first = browser.new_page(viewport=_SIZE)
            first.set_default_timeout(180_000)
            first.goto(server.url)
            first.wait_for_selector(SETTLED)
            first.get_by_role("button", name="Show me: Predict").click()
            first.get_by_text("TTFT measured").first.wait_for()
            first.wait_for_selector(SETTLED)
            first.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
            Camera(first).take("overview")
            rows = [walked(browser, server.url, j) for j in JOURNEYS if j.name in chosen]
            browser.close()
    text = table(rows)
    print(text)
    if len(rows) == len(JOURNEYS):
        replace_table(TOUR, MARK, text)


if __name__ == "__main__":
    main()

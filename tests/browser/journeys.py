"""Five questions answered in the dashboard as a visitor would, with every click counted.

A click is a press of the mouse: on a button, into a text box, or on a file box.  The text typed
after it, including Enter, belongs to that click.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.browser.conftest import SETTLED, SIMULATED

DRAWN = ".js-plotly-plot .main-svg"
TRACE = Path(__file__).parents[2] / "app" / "samples" / "h100_qwen1.5-0.5b.json.gz"
#: Measuring and calibrating a machine take minutes, more on a busy one.
_LONGEST_MS = 1_200_000


class MachineBusy(Exception):
    """The page refuses to measure now; the message is the page's sentence."""


def _nothing(_: str) -> None:
    return


@dataclass
class Walk:
    """A visitor on a page.  clicks: so far.  look: called with a name whenever a screenshot is
    useful.
    patience_ms: how long to wait for the expected text.
    """

    page: Any
    clicks: int = 0
    look: Callable[[str], None] = _nothing
    steps: list[str] = field(default_factory=list)
    patience_ms: int = 30_000

    def press(self, name: str, role: str = "button") -> None:
        """Click the element of this name."""
        self._click(self.page.get_by_role(role, name=name, exact=True).first, name)

    def type(self, label: str, *texts: str) -> None:
        """Click into the box of this label and type, with Enter after each text."""
        box = self.page.get_by_label(label, exact=True).and_(self.page.locator("input")).first
        self._click(box, f"{label}: {', '.join(texts)}")
        for text in texts:
            self.page.keyboard.press("ControlOrMeta+a")
            self.page.keyboard.type(text, delay=5)
            time.sleep(0.2)  # a list is filtered while one types
            self.page.keyboard.press("Enter")
            self.rest()
        if len(texts) > 1:
            self.page.keyboard.press("Escape")  # the list stays open for further choices

    def ask(self, line: str) -> None:
        """Click on the strip and type a question in place of what stands there."""
        self._click(self.page.locator(".st-key-question_type button").first, "Type a question")
        box = self.page.get_by_label("Question", exact=True)
        self._click(box, line)
        box.press("ControlOrMeta+a")
        box.press_sequentially(line)
        box.press("Enter")
        box.wait_for(state="detached")
        self.rest()

    def to_upload(self) -> None:
        """Click on the form's link to page Upload."""
        link = self.page.get_by_test_id("stPageLink").get_by_text("Upload a file")
        self._click(link, "Upload a file")

    def bring(self, file: Path) -> None:
        """Click on the file box and choose a file."""
        with self.page.expect_file_chooser() as choosing:
            box = self.page.get_by_test_id("stMain").get_by_test_id("stFileUploaderDropzone").first
            self._click(box.locator("button"), f"a file: {file.name}")
        choosing.value.set_files(file)
        self.rest()

    def see(self, words: str, longest_ms: int = 0) -> str:
        """Wait for text that matches a regular expression; returns the match.

        Raises AssertionError with what the page shows instead.
        """
        found = self.page.get_by_text(re.compile(words)).and_(self.page.locator(":visible")).first
        from playwright.sync_api import TimeoutError as Late  # not on every machine

        try:
            found.wait_for(timeout=longest_ms or self.patience_ms)
        except Late as error:
            shown = self.page.get_by_test_id("stMain").inner_text()[:2000]
            message = f"no {words!r} at {self.page.url} after {self.steps}, but: {shown}"
            raise AssertionError(message) from error
        found.scroll_into_view_if_needed()
        return str(found.inner_text())

    def until_simulated(self) -> None:
        """Wait until the plans on page Plan are simulated."""
        self.page.locator(SIMULATED).first.wait_for()
        self.rest()

    def rest(self) -> None:
        """Wait until the page is completely drawn."""
        self.page.wait_for_timeout(200)
        self.page.wait_for_selector(SETTLED)

    def _click(self, place: Any, words: str) -> None:
        place.click()
        self.clicks += 1
        self.steps.append(words)
        self.rest()


@dataclass(frozen=True)
class Journey:
    """A question.  most: clicks that it may take.  walk: answers it and returns the
    answer's text.
    """

    name: str
    question: str
    most: int
    walk: Callable[[Walk], str]


def card(walk: Walk, label: str) -> str:
    """The value of the card with this label."""
    cards = walk.page.get_by_test_id("stMetric").filter(has_text=re.compile(f"^{label}"))
    return str(cards.first.get_by_test_id("stMetricValue").inner_text())


def _predict(walk: Walk) -> str:
    walk.type("Model", "Llama-3.1-70B")
    walk.type("TP", "4")
    walk.type("Weights", "fp8")
    walk.type("Load", "64 users")
    walk.page.wait_for_selector(DRAWN)
    walk.look("predict")
    return f"TTFT {card(walk, 'TTFT')}, TPOT {card(walk, 'TPOT')}"


def _compare(walk: Walk) -> str:
    walk.press("Compare", role="link")
    walk.type("Model", "gpt-oss-120b")
    walk.press("Figures", role="radio")
    walk.press("Choose")
    walk.type("Systems", "H200 SXM", "B200", "MI300X")
    walk.page.wait_for_selector(DRAWN)
    walk.look("compare")
    return walk.see(r"^\$ per Mtok out: ")


def _decide(walk: Walk) -> str:
    walk.press("Plan", role="link")
    walk.type("Model", "Qwen3-32B")
    walk.type("Load", "20/s")
    walk.type("Targets", "tpot < 30ms")
    walk.until_simulated()
    walk.look("decide")
    return walk.see("^fewest that do: ")


def _upload(walk: Walk) -> str:
    walk.press("Measured")
    walk.press("Upload", role="menuitem")
    walk.bring(TRACE)
    walk.page.wait_for_selector(DRAWN)
    finding = walk.see("reach(es)? .* of the roof")
    walk.look("upload")
    return finding


def _measure(walk: Walk) -> str:
    walk.press("Measured")
    walk.press("Measure", role="menuitem")
    walk.press("Calibrate and measure")
    walk.page.wait_for_timeout(2_000)
    walk.look("measure")
    ended = walk.see(r"Kept as |other programs use the cores", _LONGEST_MS)
    if "Kept as " not in ended:
        raise MachineBusy(ended)
    answer = walk.see(r"predicted .* measured ")
    walk.look("calibrate")
    walk.press("Why they differ, operator by operator")
    walk.page.wait_for_selector(DRAWN)
    walk.look("compared")
    return answer


JOURNEYS: Sequence[Journey] = (
    Journey(
        "predict", "Llama-3.1-70B in fp8 on four H100, 64 users: TTFT and TPOT?", 5, _predict
    ),
    Journey(
        "compare", "H200, B200 or MI300X for gpt-oss-120b under load, and at what cost?", 5,
        _compare,
    ),
    Journey(
        "decide", "The fewest H100 for Qwen3-32B, TPOT below 30 ms at 20 requests a second?", 5,
        _decide,
    ),
    Journey("upload", "Here is a trace: why is it slower than it could be?", 3, _upload),
    Journey(
        "measure", "A small model on this machine: is the prediction right?", 4, _measure
    ),
)  # fmt: skip

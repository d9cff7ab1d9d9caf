"""Actions of the browsers besides opening pages: uploads, a simulation, a plan, a search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SAMPLES = Path(__file__).parents[2] / "app" / "samples"
_TRACE = _SAMPLES / "h100_qwen1.5-0.5b.json.gz"
_RESULT = _SAMPLES / "sglang_llama-3.1-405b.jsonl"
_CHART = '[data-testid="stMain"] .js-plotly-plot .main-svg'


@dataclass(frozen=True, slots=True)
class Errand:
    """A task on a page.

    address: where it begins.  do: the clicks.  stands: a selector of an element that exists only
    once it is done.
    """

    words: str
    address: str
    do: Callable[[Any], Awaitable[None]]
    stands: str


def _bring(file: Path) -> Callable[[Any], Awaitable[None]]:
    async def do(page: Any) -> None:
        box = page.locator('[data-testid="stMain"] input[type="file"]').first
        await box.set_input_files(file)

    return do


def _both(
    first: Callable[[Any], Awaitable[None]], then: Callable[[Any], Awaitable[None]]
) -> Callable[[Any], Awaitable[None]]:
    async def do(page: Any) -> None:
        await first(page)
        await then(page)

    return do


def _press(name: str) -> Callable[[Any], Awaitable[None]]:
    async def do(page: Any) -> None:
        await page.get_by_role("button", name=name, exact=True).first.click()

    return do


def _type(label: str, text: str) -> Callable[[Any], Awaitable[None]]:
    async def do(page: Any) -> None:
        box = page.get_by_label(label, exact=True).and_(page.locator("input")).first
        await box.fill(text)
        await box.press("Enter")

    return do


async def _look(page: Any) -> None:
    """No clicks."""


ERRANDS = (
    Errand("a trace to Upload", "upload", _bring(_TRACE), _CHART),
    Errand("a trace beside its prediction", "upload?part=Measured+and+predicted", _bring(_TRACE),
           _CHART),
    Errand(
        "a result to Upload", "upload?model=meta-llama/Llama-3.1-405B&system=h200&tp=8",
        _both(_bring(_RESULT), _press("Predict")), _CHART,
    ),
    Errand(
        "a simulation", "serving?serving_tab=Simulate&isl=256&osl=32", _press("Simulate"), _CHART
    ),
    Errand("a search for modules", "library?part=Modules", _type("Search", "attention"),
           'text=/^\\d+ of \\d+ entries/'),
    Errand("a plan", "plan?systems=h100&systems=h200", _look, _CHART),
    Errand("a frontier", "frontiers?model=qwen3-32b", _look, _CHART),
)  # fmt: skip

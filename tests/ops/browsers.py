"""Several real browsers at once on one server: how long a page takes to stand, and what breaks.

`python -m tests.ops.browsers --browsers 5 --minutes 10` starts a server and as many Chromiums, each
a process tree of its own; each thinks for two to five seconds, then follows a link of the
navigation (60 %), presses a choice of the page (20 %) or opens a link with other inputs (20 %).
It prints its result as Markdown; `--write docs/operations.md` puts it into that document.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from app.wording import quantities
from tests.browser.conftest import QUIET, SETTLED, chromium
from tests.dashboards import Served, served
from tests.ops.sessions import written

MARKER = "<!-- python -m tests.ops.browsers --browsers 5 --minutes 10 --write {} -->"
HEADING = "## Browsers at once"
LINKS = '[data-testid$="NavLink"]:visible'
CHOICES = '[data-testid="stMain"] [data-testid="stButtonGroup"] button:enabled'
SYSTEMS = ("h100", "h200", "mi300x", "b200", "a100-sxm4-80gb")
_THOUGHT_S = (2.0, 5.0)
_PATIENCE_MS = 180_000


@dataclass(slots=True)
class Soak:
    """What the browsers saw.

    waits: (kind, seconds until the page stood) of each action, kind "open", "page", "choice" or
    "link".  errors: exceptions on pages, of scripts, and browsers that were lost, a line each.
    first_bytes, last_bytes: memory of the server after all have opened and at the end.
    """

    browsers: int
    minutes: float
    waits: list[tuple[str, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    first_bytes: int = 0
    last_bytes: int = 0

    def seconds(self, share: float) -> float:
        """The time within which that share of the actions ended [s]."""
        return float(np.quantile([seconds for _, seconds in self.waits], share))


def soak(server: Served, browsers: int, minutes: float, seed: int = 0) -> Soak:
    """Let real browsers use a server for some minutes."""
    result = Soak(browsers, minutes)
    asyncio.run(_all(server, result, seed))
    result.last_bytes = server.memory_bytes
    return result


async def _all(server: Served, result: Soak, seed: int) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        opened = asyncio.Barrier(result.browsers + 1)
        tasks = [
            asyncio.create_task(
                _one(playwright, server.url, random.Random(seed + at), result, opened)
            )
            for at in range(result.browsers)
        ]
        await opened.wait()
        result.first_bytes = server.memory_bytes
        await asyncio.gather(*tasks)


async def _one(
    playwright: Any, url: str, rng: random.Random, result: Soak, opened: asyncio.Barrier
) -> None:
    """One browser: it opens the dashboard, then acts until the minutes are over."""
    browser = await playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
    try:
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(_PATIENCE_MS)
        page.on("pageerror", lambda error: result.errors.append(f"script: {error}"))
        await _timed(result, "open", page, lambda: page.goto(url))
        await opened.wait()
        ends = time.monotonic() + 60.0 * result.minutes
        while time.monotonic() < ends:
            await asyncio.sleep(rng.uniform(*_THOUGHT_S))
            await _act(result, page, url, rng)
    except Exception as error:  # noqa: BLE001  a lost browser is a line of the result
        result.errors.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        await opened.abort()
    finally:
        await browser.close()


async def _act(result: Soak, page: Any, url: str, rng: random.Random) -> None:
    drawn = rng.random()
    choices = page.locator(CHOICES)
    if drawn < 0.2 and (count := await choices.count()):
        chosen = choices.nth(rng.randrange(count))
        await _timed(result, "choice", page, chosen.click)
    elif drawn < 0.4:
        query = f"batch={rng.choice((1, 4, 16, 64))}&system={rng.choice(SYSTEMS)}"
        address = page.url.partition("?")[0]
        await _timed(result, "link", page, lambda: page.goto(f"{address}?{query}"))
    else:
        links = page.locator(LINKS)
        chosen = links.nth(rng.randrange(await links.count()))
        await _timed(result, "page", page, chosen.click)


async def _timed(result: Soak, kind: str, page: Any, act: Callable[[], Awaitable[Any]]) -> None:
    """Act, wait until the page stands, and note the exceptions that it shows."""
    begun = time.perf_counter()
    await act()
    await page.wait_for_timeout(100)  # the click reaches the server
    await page.wait_for_selector(SETTLED)
    result.waits.append((kind, time.perf_counter() - begun - 0.1))
    for shown in await page.locator('[data-testid="stException"]').all_inner_texts():
        result.errors.append(f"{page.url}: {shown.splitlines()[0]}")


def section(result: Soak) -> str:
    """The result as Markdown."""
    today = datetime.datetime.now(datetime.UTC).date()
    growth = result.last_bytes / result.first_bytes - 1.0 if result.first_bytes else 0.0
    return (
        f"{result.browsers} Chromiums for {result.minutes:g} min on {os.cpu_count()} cores that "
        f"they share with the server, {today}: {len(result.waits):,} actions, half of them drawn "
        f"within {quantities.seconds(result.seconds(0.5))}, 95 % within "
        f"{quantities.seconds(result.seconds(0.95))}. Memory of the server "
        f"{quantities.size(result.first_bytes)} with all open, "
        f"{quantities.size(result.last_bytes)} at the end ({growth:+.0%}). "
        f"{len(result.errors) or 'No'} error{'s' if len(result.errors) != 1 else ''}."
    )


def main() -> int:
    """Run the command; returns its exit code, 1 where a browser saw an error."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--browsers", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0, help="of what the browsers choose")
    parser.add_argument("--write", type=Path, help="a document that the result is put into")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        own = {"RIDGELINE_DATA": str(Path(name) / "data"), "HF_HUB_OFFLINE": "1"}
        with served(Path(name), "--shared", environment=own) as server:
            result = soak(server, chosen.browsers, chosen.minutes, chosen.seed)
    text = section(result)
    print(text, *result.errors[:20], sep="\n")
    if chosen.write:
        before = chosen.write.read_text(encoding="utf-8")
        after = written(before, text, str(chosen.write), MARKER, HEADING)
        chosen.write.write_text(after, encoding="utf-8")
    return 1 if result.errors else 0


if __name__ == "__main__":
    sys.exit(main())

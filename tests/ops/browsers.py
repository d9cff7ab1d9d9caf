"""Several real browsers at once on one server: time until pages are drawn, and errors.

`python -m tests.ops.browsers --browsers 5 --minutes 10` starts a server and several Chromiums, each
a separate process tree.  Each waits for two to five seconds, then takes the next page of the
navigation or the next errand (`tests.ops.errands`: uploads, a simulation, a plan) from a deck that
all browsers share (60 %), clicks a choice on the page (20 %) or opens a link with other inputs
(20 %).  The first deck is used up completely, so that every page and every errand is tried.
Two times are taken: until an action is drawn, and until the server has answered a rerun, from the
request to the last message on the session's WebSocket.  Both contain
what the browsers compute on the cores that they share with the server.
It prints its result as Markdown; `--write docs/operations.md` puts it into that document.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from app.answers.table import TableFormat, render
from app.wording import quantities
from tests.browser.conftest import QUIET, SETTLED, chromium
from tests.dashboards import Served
from tests.ops.errands import ERRANDS, Errand
from tests.ops.sessions import asked, reported, server_of_its_own

MARKER = "<!-- python -m tests.ops.browsers --browsers 5 --minutes 10 --write {} -->"
HEADING = "## Browsers at once"
LINKS, GROUPS, ENTRIES = (
    f'[data-testid="stTopNav{kind}"]' for kind in ("Link", "Section", "DropdownLink")
)
CHOICES = '[data-testid="stMain"] [data-testid="stButtonGroup"] button:enabled:visible'
KINDS = {
    "open": "first page",
    "page": "another page",
    "link": "link with other inputs",
    "choice": "choice on the page",
    "errand": "errand",
}
SYSTEMS = ("h100", "h200", "mi300x", "b200", "a100-sxm4-80gb")
_THOUGHT_S = (2.0, 5.0)
_PATIENCE_MS = 300_000
#: Streamlit's frontend first requests files below the page's own address, then at the root.
_PROBED = re.compile(r"/_stcore/(health|host-config)$")
_MOST_GROWTH = 1.0  # from the first pages to the end
#: Bytes of the longest message that a run has ended.
_LONGEST_END = 200
_SIZE = {"width": 1400, "height": 900}  # the whole navigation


@dataclass(slots=True)
class Soak:
    """Observations of the browsers.

    waits: (kind, seconds until the page was drawn) of each action, kind "open", "page", "choice",
    "link" or "errand".  answers: (kind, seconds until the server had answered) of each rerun.
    seen: titles of the drawn pages and words of the finished errands.  unseen: those of the first
    deck that were not.  errors: exceptions on pages and of scripts, failed responses, and browsers
    that crashed, a line each.
    first_bytes, warm_bytes, last_bytes: memory of the server after all have opened, once the first
    deck has been dealt, and at the end.
    load: processes that waited for a core before the start, on average over a minute.
    """

    browsers: int
    minutes: float
    waits: list[tuple[str, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    first_bytes: int = 0
    last_bytes: int = 0
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    answers: list[tuple[str, float]] = field(default_factory=list)
    warm_bytes: int = 0

    def seconds(self, share: float) -> float:
        """The time within which that share of the actions ended [s]."""
        return float(np.quantile([seconds for _, seconds in self.waits], share))

    def answered(self, share: float) -> float:
        """The time within which the server answered that share of the reruns [s]."""
        return float(np.quantile([seconds for _, seconds in self.answers], share))

    @property
    def growth(self) -> float:
        """Growth of the server's memory once every page was used, as a fraction."""
        return self.last_bytes / self.warm_bytes - 1.0 if self.warm_bytes else 0.0


@dataclass(slots=True)
class _Deck:
    """Cards, dealt to all browsers in one order: pages of the navigation by title, and errands."""

    cards: list[str | Errand]
    rng: random.Random
    rest: list[str | Errand] = field(default_factory=list)
    rounds: int = 0

    def draw(self) -> str | Errand:
        if not self.rest:
            self.rest = self.rng.sample(self.cards, len(self.cards))
            self.rounds += 1
        return self.rest.pop()

    @property
    def played(self) -> bool:
        """Whether every card has been dealt once."""
        return self.rounds > 1 or (self.rounds == 1 and not self.rest)


def soak(server: Served, browsers: int, minutes: float, seed: int = 0) -> Soak:
    """Let real browsers use a server for some minutes, and until the first deck is used up."""
    result = Soak(browsers, minutes)
    # In a thread, because playwright keeps an event loop in this one after tests in a browser.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_all(server, result, seed))).result()
    result.last_bytes = server.memory_bytes
    try:
        urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=60).close()
    except (urllib.error.URLError, OSError) as error:
        result.errors.append(f"the server does not answer at the end: {error}")
    result.errors += [f"never stood: {name}" for name in sorted(result.unseen)]
    grown = result.last_bytes - result.first_bytes
    if result.first_bytes and grown > _MOST_GROWTH * result.first_bytes:
        result.errors.append(f"the server's memory grew by {grown / result.first_bytes:.0%}")
    return result


async def _all(server: Served, result: Soak, seed: int) -> None:
    from playwright.async_api import async_playwright

    deck = _Deck(list(ERRANDS), random.Random(seed))
    visits = [
        _Visit(result, server, random.Random(seed + at), deck) for at in range(result.browsers)
    ]
    async with async_playwright() as playwright:
        browsers = [
            await playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            for _ in visits
        ]
        await _each(visits, lambda visit, at: _open(visit, browsers[at]))
        deck.cards += await _titles(visits[0].page)
        result.first_bytes = server.memory_bytes
        ends = time.monotonic() + 60.0 * result.minutes
        await _each(visits, lambda visit, _: _use(visit, ends))
        await asyncio.gather(*(browser.close() for browser in browsers))
    result.unseen = {_name(card) for card in deck.cards} - result.seen


@dataclass(slots=True)
class _Visit:
    """A browser with its random generator, its page, the kind of its last action, and the result
    that it writes to.
    """

    result: Soak
    server: Served
    rng: random.Random
    deck: _Deck
    page: Any = None
    kind: str = "open"

    def answered(self, seconds: float) -> None:
        self.result.answers.append((self.kind, seconds))


async def _each(
    visits: Sequence[_Visit], do: Callable[[_Visit, int], Coroutine[Any, Any, None]]
) -> None:
    """Let all browsers act at the same time; a browser that crashes is a line of the result."""
    outcomes = await asyncio.gather(
        *(do(visit, at) for at, visit in enumerate(visits)), return_exceptions=True
    )
    for visit, outcome in zip(visits, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            words = f"{type(outcome).__name__}: {' '.join(str(outcome).split())[:300]}"
            visit.result.errors.append(f"{visit.page.url if visit.page else 'open'}: {words}")


async def _open(visit: _Visit, browser: Any) -> None:
    """Open the dashboard's first page."""
    visit.page = await browser.new_page(viewport=_SIZE)
    visit.page.set_default_timeout(_PATIENCE_MS)
    _listen(visit)
    await _timed(visit, "open", lambda: visit.page.goto(visit.server.url))


async def _use(visit: _Visit, ends: float) -> None:
    """Act until that time has passed and the first deck is used up."""
    while time.monotonic() < ends or not visit.deck.played:
        await asyncio.sleep(visit.rng.uniform(*_THOUGHT_S))
        await _act(visit)


def _listen(visit: _Visit) -> None:
    """Record errors that the browser reports, and the times of its reruns."""
    page, result = visit.page, visit.result

    def answered(answer: Any) -> None:
        if answer.status >= 400 and not _PROBED.search(answer.url):
            result.errors.append(f"{answer.status}: {answer.url}")

    page.on("websocket", lambda socket: _Reruns(visit.answered).follow(socket))
    page.on("pageerror", lambda error: result.errors.append(f"script: {error}"))
    page.on("crash", lambda _: result.errors.append("a tab crashed"))
    page.on("response", answered)


@dataclass  # without slots: Playwright sets attributes on what handles its events
class _Reruns:
    """Times of one session's reruns; one that replaces another counts from the first request."""

    answered: Callable[[float], None]
    asked: float | None = None

    def follow(self, socket: Any) -> None:
        socket.on("framesent", self.sent)
        socket.on("framereceived", self.received)

    def sent(self, frame: bytes) -> None:
        message = BackMsg()
        message.ParseFromString(frame)
        if message.WhichOneof("type") == "rerun_script" and self.asked is None:
            self.asked = time.perf_counter()

    def received(self, frame: bytes) -> None:
        if len(frame) > _LONGEST_END or self.asked is None:
            return
        message = ForwardMsg()
        message.ParseFromString(frame)
        if message.WhichOneof("type") != "script_finished":
            return
        if message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            self.answered(time.perf_counter() - self.asked)
            self.asked = None


async def _titles(page: Any) -> list[str]:
    """Titles of all pages, as the navigation shows them."""
    titles = [_title(text) for text in await page.locator(LINKS).all_inner_texts()]
    for group in await page.locator(GROUPS).all():
        await group.click()
        await page.locator(ENTRIES).first.wait_for()
        titles += [_title(text) for text in await page.locator(ENTRIES).all_inner_texts()]
        await page.keyboard.press("Escape")
        await page.locator(ENTRIES).first.wait_for(state="hidden")
    return titles


def _title(text: str) -> str:
    """The title in the text of a link, which begins with the name of its symbol."""
    return text.splitlines()[-1].strip()


def _name(card: str | Errand) -> str:
    return card if isinstance(card, str) else card.words


# ------------------------------------------------------------------------------- the actions


async def _act(visit: _Visit) -> None:
    drawn, page = visit.rng.random(), visit.page
    if drawn < 0.2 and (choices := await page.locator(CHOICES).element_handles()):
        chosen = visit.rng.choice(choices)
        await _timed(visit, "choice", lambda: _press(chosen))
    elif drawn < 0.4:
        query = f"batch={visit.rng.choice((1, 4, 16, 64))}&system={visit.rng.choice(SYSTEMS)}"
        address = page.url.partition("?")[0]
        await _timed(visit, "link", lambda: page.goto(f"{address}?{query}"))
    else:
        card = visit.deck.draw()
        kind = "page" if isinstance(card, str) else "errand"
        await _timed(visit, kind, lambda: _play(visit, card))
        visit.result.seen.add(_name(card))
        if not visit.result.warm_bytes and visit.result.seen.issuperset(
            map(_name, visit.deck.cards)
        ):
            visit.result.warm_bytes = visit.server.memory_bytes


async def _press(choice: Any) -> None:
    """Click a choice; one that the page has meanwhile redrawn is ignored."""
    from playwright.async_api import Error

    try:
        await choice.click()
    except Error:
        if await choice.evaluate("it => it.isConnected"):
            raise


async def _play(visit: _Visit, card: str | Errand) -> None:
    """Open a page through the navigation, or do an errand."""
    if isinstance(card, Errand):
        await visit.page.goto(f"{visit.server.url}/{card.address}")
        await visit.page.wait_for_selector(SETTLED)
        await card.do(visit.page)
        await visit.page.locator(card.stands).first.wait_for()
        return
    await _follow(visit.page, card)
    await visit.page.wait_for_function("t => document.title.startsWith(t)", arg=f"{card} ·")


async def _follow(page: Any, title: str) -> None:
    """Click a page's link, which may be in the menu of its group."""
    for link in await page.locator(LINKS).all():
        if _title(await link.inner_text()) == title:
            return await link.click()
    for group in await page.locator(GROUPS).all():
        await group.click()
        await page.locator(ENTRIES).first.wait_for()
        for link in await page.locator(ENTRIES).all():
            if _title(await link.inner_text()) == title:
                return await link.click()
        await page.keyboard.press("Escape")
        await page.locator(ENTRIES).first.wait_for(state="hidden")
    raise LookupError(f"the navigation has no page {title}")


async def _timed(visit: _Visit, kind: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Act, wait until the page is drawn, and record the exceptions that it shows."""
    page, begun, visit.kind = visit.page, time.perf_counter(), kind
    await act()
    await page.wait_for_timeout(100)  # the click reaches the server
    await page.wait_for_selector(SETTLED)
    visit.result.waits.append((kind, time.perf_counter() - begun - 0.1))
    for shown in await page.locator('[data-testid="stException"]').all_inner_texts():
        visit.result.errors.append(f"{page.url}: {shown.splitlines()[0]}")


# ------------------------------------------------------------------------------- in words


def section(result: Soak) -> str:
    """The result as Markdown."""
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{result.browsers} Chromiums for {result.minutes:g} min on {os.cpu_count()} cores that "
        f"they share with the server and others (load {result.load:.0f} before), {today}: "
        f"{len(result.waits):,} actions, half of them drawn "
        f"within {quantities.seconds(result.seconds(0.5))}, 95 % within "
        f"{quantities.seconds(result.seconds(0.95))}; the server "
        f"answered {len(result.answers):,} reruns, half of them within "
        f"{quantities.seconds(result.answered(0.5))}, 95 % within "
        f"{quantities.seconds(result.answered(0.95))}; {len(result.seen)} "
        f"different pages and errands. Memory of the server "
        f"{quantities.size(result.first_bytes)} with all open, "
        f"{quantities.size(result.warm_bytes)} once every page and errand was done, "
        f"{quantities.size(result.last_bytes)} at the end ({result.growth:+.0%}). "
        f"{len(result.errors) or 'No'} error{'s' if len(result.errors) != 1 else ''}.\n\n"
        + render([_row(result, kind) for kind in KINDS], TableFormat.markdown)
    )


def _row(result: Soak, kind: str) -> dict[str, str | int]:
    """An action's times until it is drawn and until its reruns are answered."""
    drawn, answered = (
        [seconds for of, seconds in times if of == kind] for times in (result.waits, result.answers)
    )
    return {
        "action": KINDS[kind],
        "drawn": len(drawn),
        **_quantiles(drawn, "drawn"),
        "reruns": len(answered),
        **_quantiles(answered, "answered"),
    }


def _quantiles(seconds: Sequence[float], what: str) -> dict[str, str]:
    names = {f"{what}: median": 0.5, f"{what}: p95": 0.95}
    if not seconds:
        return dict.fromkeys(names, "")
    return {name: quantities.seconds(float(np.quantile(seconds, at))) for name, at in names.items()}


def main() -> int:
    """Run the command; returns its exit code, 1 if a browser saw an error."""
    chosen = asked(str(__doc__), "browsers", 5)
    with server_of_its_own("--shared") as server:
        result = soak(server, chosen.browsers, chosen.minutes, chosen.seed)
    return reported(section(result), result.errors, chosen.write, MARKER, HEADING)


if __name__ == "__main__":
    sys.exit(main())

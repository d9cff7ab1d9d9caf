"""Samples of a server's metrics page: recordings of them, and the activity between two.

Counters describe all activity between two samples however far apart they are, so an unreachable
page loses nothing.  A counter that falls means that the server was restarted: its counters
then describe the time since the restart.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from genz_core.errors import ReportError
from profilers.serving_results import ServingMeasurement
from profilers.serving_results.prometheus import Page, of_page, parse

_MOST_LOOKS = 200_000
#: Suffixes of the names of counters.
_COUNTED = ("_total", "_count", "_sum")
#: Tokens of all answers and those of the ended requests may differ by this factor if more than some
#: requests ended; beyond it, one of the two counters jumped.
_JUMP, _ENOUGH = 4.0, 20


@dataclass(frozen=True, slots=True)
class Look:
    """One sample.

    at: seconds since 1970, or since any moment.  page: its text, "" if there was none.
    why: the reason if there was none.
    """

    at: float
    page: str = ""
    why: str = ""

    def line(self) -> str:
        """The sample as a line of a recording."""
        found = {"at": self.at} | ({"page": self.page} if self.page else {"error": self.why})
        return json.dumps(found)


@dataclass(frozen=True, slots=True)
class Between:
    """The activity between two samples.

    seconds: between them.  found: the figures of that time.  restarted: whether the server
    was restarted between them.  jumped: why the figures are unreliable, "" if they are reliable.
    """

    seconds: float
    found: ServingMeasurement
    restarted: bool = False
    jumped: str = ""


def between(before: Page, after: Page, seconds: float) -> Between:
    """The activity between two pages of a server."""
    restarted = _fell(before, after)
    earlier = Page(after.engine) if restarted else before
    found = of_page(after, earlier, seconds)
    return Between(seconds, found, restarted, _jumped(found))


def _fell(before: Page, after: Page) -> bool:
    """Whether any counter is smaller than it was."""
    return any(
        sum(after.values.get(name, [math.inf])) < sum(values) * (1.0 - 1e-9)
        for name, values in before.values.items()
        if name.endswith(_COUNTED)
    )


def _jumped(found: ServingMeasurement) -> str:
    tokens, ended = found.server.get("output_tokens"), found.server.get("requests")
    osl = found.lengths.osl.mean
    if tokens is None or not ended or not osl or ended < _ENOUGH:
        return ""
    ratio = tokens / (ended * osl)
    if 1.0 / _JUMP <= ratio <= _JUMP:
        return ""
    return (
        f"its counters jumped: {tokens:,.0f} tokens were written, and {ended:,.0f} requests of "
        f"{osl:,.0f} tokens ended"
    )


def page_of(look: Look) -> Page | None:
    """The parsed metrics of a sample, None if there was no page.

    Raises:
        ReportError: the page is of none of the engines.
    """
    if not look.page:
        return None
    page = parse(look.page)
    if not page.engine:
        raise ReportError(
            "the page has no metrics of vLLM, SGLang or llama.cpp (SGLang needs "
            "--enable-metrics, llama.cpp --metrics)"
        )
    return page


def recorded(path: Path) -> Iterator[Look]:
    """The samples of a recording, with a JSON object per line: {"at": seconds, "page": text}.

    Raises:
        ReportError: it is not a recording; the line is named.
    """
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from looks_of(path.name, lines)


def looks_of(name: str, lines: Iterable[str]) -> Iterator[Look]:
    """The samples in the lines of a recording; errors as `recorded`."""
    count = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            at = float(found["at"])
            page, why = str(found.get("page", "")), str(found.get("error", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ReportError(
                f'{name}, line {number}: not a sample of a page, {{"at": seconds, "page": text}}; '
                "`ridgeline watch --record FILE` writes them"
            ) from None
        count += 1
        if count > _MOST_LOOKS:
            raise ReportError(f"{name} has more than {_MOST_LOOKS:,} samples")
        yield Look(at, page, why or ("" if page else "the page did not answer"))
    if not count:
        raise ReportError(f"{name} has no samples of a page")

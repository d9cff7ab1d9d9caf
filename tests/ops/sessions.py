"""Many visitors at once: their waits for pages, and the load on the server.

`python -m tests.ops.sessions --sessions 20 --minutes 10` starts a server and several sessions; each
waits for two to five seconds, then opens another page (35 %) or changes a control.  It prints its
result as Markdown; `--write docs/operations.md` puts it into that document.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from websockets.exceptions import WebSocketException

from app.answers.table import TableFormat, render
from app.wording import quantities
from tests.dashboards import Served, served
from tests.ops.visitor import Rerun, Visitor, visit

#: The line of a document that is followed by the result, up to the next heading.
MARKER = "<!-- python -m tests.ops.sessions --sessions 20 --minutes 10 --write {} -->"
HEADING = "## Sessions at once"
KINDS = {
    "open": "first page",
    "page": "another page",
    "sidebar": "control of the sidebar",
    "control": "control of the page",
}
_THOUGHT_S = (2.0, 5.0)
_PAGE_CHANGES = 0.35
_ARRIVAL_S = 4.0  # in which all sessions open


@dataclass(slots=True)
class LoadTest:
    """Observations of the sessions, and the resources that the server needed.

    reruns: of all sessions.  lost: sessions that ended early, a sentence each.
    first_bytes, last_bytes: memory of the server after the first minute (or half of the time) and
    at the end.  processor_s: of the server from the first session to the last.
    """

    sessions: int
    minutes: float
    reruns: list[Rerun] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    first_bytes: int = 0
    last_bytes: int = 0
    processor_s: float = 0.0

    @property
    def errors(self) -> list[str]:
        """Exceptions on pages, and lost sessions."""
        return [f"{r.page}: {error}" for r in self.reruns for error in r.errors] + self.lost

    @property
    def pages(self) -> list[str]:
        """The pages that were drawn, by name."""
        return sorted({rerun.page for rerun in self.reruns})

    @property
    def growth(self) -> float:
        """Growth of the memory after the first minute, as a fraction."""
        return self.last_bytes / self.first_bytes - 1.0

    def seconds(self, share: float) -> float:
        """The time within which that share of the reruns ended [s]."""
        return float(np.quantile([rerun.seconds for rerun in self.reruns], share))


def load_test(server: Served, sessions: int, minutes: float, seed: int = 0) -> LoadTest:
    """Let sessions use a server for some minutes."""
    result, before = LoadTest(sessions, minutes), server.processor_s
    ends = time.monotonic() + 60.0 * minutes
    with ThreadPoolExecutor(sessions) as pool:
        visits = [
            pool.submit(_session, server.url, random.Random(seed + at), ends, result)
            for at in range(sessions)
        ]
        time.sleep(min(60.0, 30.0 * minutes))
        result.first_bytes = server.memory_bytes
        for session in visits:
            session.result()
    result.last_bytes = server.memory_bytes
    result.processor_s = server.processor_s - before
    return result


def _session(url: str, rng: random.Random, ends: float, result: LoadTest) -> None:
    """One session: it waits, opens pages and changes controls until `ends`."""
    time.sleep(rng.uniform(0.0, _ARRIVAL_S))
    try:
        with visit(url) as visitor:
            try:
                visitor.open()
                while time.monotonic() < ends:
                    time.sleep(rng.uniform(*_THOUGHT_S))
                    _act(visitor, rng)
            finally:
                result.reruns += visitor.reruns
    except (WebSocketException, OSError) as error:
        result.lost.append(f"{type(error).__name__}: {error}")


def _act(visitor: Visitor, rng: random.Random) -> None:
    """Change a control, or open another page."""
    if rng.random() < _PAGE_CHANGES or not visitor.change(rng):
        visitor.turn_to(rng.choice([page for page in visitor.pages if page != visitor.page]))


# ------------------------------------------------------------------------------- in words


def section(result: LoadTest) -> str:
    """The result as Markdown."""
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [
        f"{result.sessions} sessions for {result.minutes:g} min on {os.cpu_count()} cores, "
        f"{today}: {len(result.reruns):,} reruns, 95 % within "
        f"{quantities.seconds(result.seconds(0.95))}; "
        f"{quantities.seconds(result.processor_s / len(result.reruns))} of a core each. Memory "
        f"{quantities.size(result.first_bytes)} after the first minute, "
        f"{quantities.size(result.last_bytes)} at the end ({result.growth:+.0%}). "
        f"{len(result.errors) or 'No'} error{'s' if len(result.errors) != 1 else ''}.",
        _table(result.reruns, "rerun", lambda rerun: KINDS[rerun.kind], KINDS.values()),
        _table(result.reruns, "page", lambda rerun: rerun.page, result.pages),
    ]
    return "\n\n".join(lines)


def _table(
    reruns: Sequence[Rerun], title: str, group: Callable[[Rerun], str], names: Iterable[str]
) -> str:
    """Reruns by group: their number, the median, the 95th percentile and the longest."""
    rows = []
    for name in names:
        seconds = [rerun.seconds for rerun in reruns if group(rerun) == name]
        if seconds:
            median, most = np.quantile(seconds, [0.5, 0.95])
            rows.append(
                {
                    title: name,
                    "reruns": len(seconds),
                    "median": quantities.seconds(float(median)),
                    "p95": quantities.seconds(float(most)),
                    "longest": quantities.seconds(max(seconds)),
                }
            )
    return render(rows, TableFormat.markdown)


def written(
    document: str, text: str, path: str, marker: str = MARKER, heading: str = HEADING
) -> str:
    """A document with the text after its marker, which is appended if it is missing.

    path: of the document, as the marker names it.
    """
    marker = marker.format(path)
    if marker not in document:
        document = f"{document.rstrip()}\n\n{heading}\n\n{marker}\n".lstrip()
    head, _, rest = document.partition(marker)
    after = rest.find("\n## ")
    return f"{head}{marker}\n\n{text}\n{rest[after:] if after >= 0 else ''}"


def asked(description: str, visitors: str, how_many: int) -> argparse.Namespace:
    """The options of a load test's command line.  visitors: the name of the option for their
    number.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument(f"--{visitors}", type=int, default=how_many)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0, help="of the visitors' choices")
    parser.add_argument("--write", type=Path, help="document in which the result is replaced")
    return parser.parse_args()


@contextlib.contextmanager
def server_of_its_own(*options: str) -> Iterator[Served]:
    """A server with an empty data folder, which contacts no other host."""
    with tempfile.TemporaryDirectory() as name:
        own = {"RIDGELINE_DATA": str(Path(name) / "data"), "HF_HUB_OFFLINE": "1"}
        with served(Path(name), *options, environment=own) as server:
            yield server


def reported(
    text: str, errors: Sequence[str], document: Path | None, marker: str, heading: str
) -> int:
    """Print a result, and put it into a document; returns the exit code, 1 for errors."""
    print(text, *errors[:20], sep="\n")
    if document:
        before = document.read_text(encoding="utf-8") if document.exists() else ""
        after = written(before, text, str(document), marker, heading)
        document.write_text(after, encoding="utf-8")
    return 1 if errors else 0


def main() -> int:
    """Run the command; returns its exit code, 1 if a session saw an error."""
    chosen = asked(str(__doc__), "sessions", 20)
    with server_of_its_own() as server:
        result = load_test(server, chosen.sessions, chosen.minutes, chosen.seed)
    return reported(section(result), result.errors, chosen.write, MARKER, HEADING)


if __name__ == "__main__":
    sys.exit(main())

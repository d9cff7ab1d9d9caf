"""Processor time of the server for a click on each page: a question that nobody asked before.

    python -m tests.benchmarks.rerun_times --write docs/speed.md

A real server and one session a page: the sidebar, the protocol and the garbage collection are
included, the browser and jobs in other processes are not.  Other programs hardly change
processor time.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

from streamlit.proto.WidgetStates_pb2 import WidgetState

from tests.benchmarks.page_timings import machine_words, percentile, replace_table
from tests.dashboards import Served, served
from tests.ops.visitor import Visitor, visit

#: Clicks of each page; the system counts processor time in hundredths of a second.
CLICKS = 20
_INPUTS = itertools.count(1501, 7)
_QUESTION = {"model": "Qwen/Qwen3-8B", "engine": "vllm"}


@dataclass(frozen=True, slots=True)
class Case:
    """A part of a page.  page: its address.  inputs: of its query, beside those of every page."""

    name: str
    page: str
    inputs: Mapping[str, object] = field(default_factory=dict)


CASES = (
    Case("Answer", ""),
    Case("Answer, Load curves", "", {"part": "Load curves"}),
    Case("Answer, Static batch", "", {"part": "Static batch"}),
    Case("Explain, Roofline", "explain", {"part": "Roofline"}),
    Case("Explain, Breakdown", "explain", {"part": "Breakdown"}),
    Case("Explain, Memory", "explain", {"part": "Memory"}),
    Case("Explain, Model inside", "explain", {"part": "Model inside"}),
    Case("Compare, Frontier", "compare"),
    Case("Compare, Figures", "compare", {"part": "Figures", "compare_by": "Systems"}),
    Case("Chip lab, Another chip", "chip_lab"),
    Case("Chip lab, Sensitivity", "chip_lab", {"part": "Sensitivity"}),
    Case("Chip lab, Ridge", "chip_lab", {"part": "Ridge"}),
    Case("Chip lab, Needed hardware", "chip_lab",
         {"part": "Needed hardware", "target": "tpot < 5ms"}),
    Case("Plan, Economics", "plan", {"part": "Economics"}),
    Case("Plan", "plan", {"rate": 2, "target": "tpot < 30ms"}),
)  # fmt: skip


def with_input(visitor: Visitor, tokens: int) -> None:
    """The page after the lengths in the sidebar were changed."""
    box = next(w for w in visitor.widgets if w.proto.label == "Lengths in / out")
    visitor.set(box, WidgetState(id=box.id, string_value=f"{tokens} / 260"))
    assert not visitor.reruns[-1].errors


def clicks(server: Served, case: Case, inputs: Sequence[int] = ()) -> list[float]:
    """Processor seconds of each click; the first, which no time is taken of, warms the page.

    inputs: input lengths, new ones unless given.
    """
    tokens = inputs or list(itertools.islice(_INPUTS, CLICKS))
    with visit(server.url) as visitor:
        visitor.open(urlencode({**_QUESTION, **case.inputs}), case.page)
        with_input(visitor, next(_INPUTS))
        spent = []
        for one in tokens:
            before = server.own_processor_s
            with_input(visitor, one)
            spent.append(server.own_processor_s - before)
        return spent


def table(found: Mapping[str, Sequence[float]]) -> str:
    """Medians and 95th percentiles of clicks, as Markdown."""
    lines = ["| page | clicks | p50 [ms of a core] | p95 [ms of a core] |", "|---|---|---|---|"]
    for name, spent in found.items():
        middle, far = statistics.median(spent), percentile(sorted(spent), 0.95)
        lines.append(f"| {name} | {len(spent)} | {1e3 * middle:.0f} | {1e3 * far:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="page of the documentation with the mark")
    given = parser.parse_args()
    before = machine_words()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as server:
        found = {case.name: clicks(server, case) for case in CASES}
    text = f"{table(found)}\n\n{datetime.now(UTC):%Y-%m-%d}, {before} before."
    print(text)
    if given.write:
        mark = f"<!-- python -m tests.benchmarks.rerun_times --write {given.write} -->"
        replace_table(given.write, mark, text)


if __name__ == "__main__":
    main()

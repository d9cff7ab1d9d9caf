"""All measurements of the program's speed and accuracy, on one dated page with its history.

    python -m tests.benchmarks.benchmarks_page --write docs --peers /path/to/a/venv/bin/python

writes docs/benchmarks.md and appends to docs/benchmarks.csv (date, version, metric, unit, value);
areas that `--areas` leaves out stay as they were; exit code 1 where a number is more than `--worse`
(0.25) worse than in the last entry of this machine's kind.  On a quiet machine; `--short` measures
less of each, to try the command.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import itertools
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from app.answers.table import TableFormat, render
from tests.benchmarks import measures
from tests.benchmarks.measures import Measure

COLUMNS = ("date", "version", "machine", "metric", "unit", "value")
AREAS = ("accuracy", "sweeps", "start-up", "pages", "reports", "simulation", "scale", "memory")
_HEAD = "## "  # of an area
COMMAND = "python -m tests.benchmarks.benchmarks_page --write docs"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the history."""

    date: str
    version: str
    machine: str
    metric: str
    unit: str
    value: float


def all_measures(short: bool, peers_python: str, areas: Sequence[str] = AREAS) -> Iterator[Measure]:
    """Every number of the selected areas."""
    repeats = 1 if short else 5
    makers: dict[str, Callable[[], Iterator[Measure]]] = {
        "accuracy": measures.accuracy,
        "sweeps": lambda: measures.sweeps(peers_python, 3 if short else 30),
        "start-up": lambda: measures.start_up(repeats),
        "pages": lambda: measures.pages(1 if short else 5, 1 if short else 3),
        "reports": lambda: measures.reports(repeats),
        "simulation": lambda: measures.simulations(200 if short else 2000, repeats),
        "scale": lambda: measures.scale(not short),
        "memory": measures.peaks,
    }
    for area in areas:
        yield from makers[area]()


def this_machine() -> str:
    """The kind of this machine, without its name: processor, cores, Python."""
    model = ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        model = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{os.cpu_count()} x {model or platform.machine()}, Python {python}"


def entries(measured: Iterable[Measure]) -> list[Entry]:
    """The measurements as lines of the history, with today's date."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    try:
        release = version("ridgeline")
    except PackageNotFoundError:
        release = "unknown"
    machine = this_machine()
    return [Entry(today, release, machine, m.name, m.unit, m.value) for m in measured]


def read_history(path: Path) -> list[Entry]:
    """The lines of a history file; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [Entry(**{**row, "value": float(row["value"])}) for row in csv.DictReader(file)]


def written_history(path: Path, lines: Sequence[Entry]) -> None:
    """Replace the file's content by these lines."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for line in lines:
            writer.writerow([*(getattr(line, name) for name in COLUMNS[:-1]), f"{line.value:.6g}"])


def last_values(history: Iterable[Entry], machine: str) -> dict[str, Entry]:
    """The newest entry of each metric; times and memory only from the same kind of machine.

    Accuracy is the same on every machine.
    """
    return {e.metric: e for e in history if e.machine == machine or e.unit == "%"}


def change(measure: Measure, before: Mapping[str, Entry]) -> float | None:
    """Relative worsening of a number (negative: better); None without an earlier value."""
    earlier = before.get(measure.name)
    if earlier is None or earlier.value <= 0.0 or measure.value <= 0.0:
        return None
    ratio = measure.value / earlier.value
    return ratio - 1.0 if measure.less_is_better else 1.0 / ratio - 1.0


def page(measured: Sequence[Measure], before: Mapping[str, Entry], worse: float) -> str:
    """The page as Markdown."""
    today = datetime.datetime.now(datetime.UTC).date()
    parts = [
        "# Benchmarks\n",
        f"Written by `{COMMAND}`, {today}, on {this_machine()}. Times are medians of "
        "processor time in seconds. *Worse by* compares with the last entry of [the "
        "history](benchmarks.csv) from the same kind of machine; more than "
        f"{worse:.0%} is marked as a regression. Details of the errors: "
        "[accuracy](accuracy.md).\n",
    ]
    for area, group in itertools.groupby(sorted(measured, key=_order), key=lambda m: m.area):
        rows = [_row(m, change(m, before), before.get(m.name), worse) for m in group]
        measured_on = f"Measured {today} on {this_machine()}."
        table = render(rows, TableFormat.markdown)
        parts.append(f"{_HEAD}{area}\n\n{measured_on}\n\n{table}\n")
        if area == "Accuracy":
            parts.append(_peers())
    return "\n".join(parts)


def with_other_areas(text: str, written: str) -> str:
    """The page with the areas that are written already and that it has not measured."""
    head, *new = text.split(_HEAD)
    earlier_head, *old = written.split(_HEAD)
    areas = {_area(part): part for part in (*old, *new)}
    head = earlier_head if len(areas) > len(new) else head
    shown = sorted(areas, key=lambda area: AREAS.index(area.lower()))
    return "\n\n".join([head.rstrip(), *(_HEAD + areas[area].rstrip() for area in shown)]) + "\n"


def _area(part: str) -> str:
    return part.partition("\n")[0]


def _order(measure: Measure) -> int:
    return AREAS.index(measure.area.lower())


def _row(m: Measure, by: float | None, earlier: Entry | None, worse: float) -> dict[str, str]:
    shown = "" if by is None else f"{by:+.0%}{' **regression**' if by > worse else ''}"
    return {
        "what": m.name,
        "value": f"{m.value:,.4g} {m.unit}",
        "before": f"{earlier.value:,.4g} ({earlier.date})" if earlier else "",
        "worse by": shown,
    }


def _peers() -> str:
    """Published errors of other predictors on similar rows, with the source of each."""
    from app.accuracy import shipped_errors

    rows = [
        {
            "predictor": row["peer"],
            "on": row["rows"],
            "figure": row["metric"],
            "answers %": row["coverage %"],
            "mean %": row["mape %"],
            "median %": row["median %"],
        }
        for area in ("serving", "published", "operators")
        for row in shipped_errors.peers(area)
    ]
    return f"Others on the same kind of rows:\n\n{render(rows, TableFormat.markdown)}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--write", type=Path, help="folder of benchmarks.md and benchmarks.csv")
    parser.add_argument("--peers", default="", help="Python of a venv that holds the peers")
    parser.add_argument(
        "--short", action="store_true", help="fewer measurements, to try the command"
    )
    parser.add_argument(
        "--worse", type=float, default=0.25, help="relative worsening that counts as a regression"
    )
    parser.add_argument("--areas", nargs="+", choices=AREAS, default=list(AREAS))
    chosen = parser.parse_args()
    folder = chosen.write or Path("docs")
    history = read_history(folder / "benchmarks.csv")
    measured = []
    for measure in all_measures(chosen.short, chosen.peers, chosen.areas):
        print(f"{measure.name}: {measure.value:,.4g} {measure.unit}", file=sys.stderr, flush=True)
        measured.append(measure)
    before = last_values(history, this_machine())
    text = page(measured, before, chosen.worse)
    print(text)
    if chosen.write:
        target = folder / "benchmarks.md"
        written = target.read_text(encoding="utf-8") if target.exists() else ""
        target.write_text(with_other_areas(text, written), encoding="utf-8")
        written_history(folder / "benchmarks.csv", [*history, *entries(measured)])
    return int(any((change(m, before) or 0.0) > chosen.worse for m in measured))


if __name__ == "__main__":
    sys.exit(main())

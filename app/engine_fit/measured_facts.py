"""What the measured runs cover: formats, degrees and kinds of devices with counts, and ranges of
numbers.

Written to hardware_db/engines/measured.csv, which `app.question.measured_ranges` reads.  It depends
only on the measurements, not on a fit: `python -m app.engine_fit.measured_facts` writes it again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from app.accuracy.measured_points import measured_rows
from app.question.facts import device_kind, formats_of, input_facts, split_facts
from app.question.measured_ranges import ALL, DEVICE, LEAST_ROWS
from app.scenario.points_row import Point, parse
from app.scenario.scenario import Resolved, resolve

_COLUMNS = ("load", "engine", "fact", "value", "least", "most", "rows")


def measured_facts() -> list[dict[str, Any]]:
    """One row per load, engine and fact: a value and the number of runs that had it, or a range.

    Engine "*" counts all; engines with fewer than `LEAST_ROWS` runs have no rows of their own, and
    those measured in single steps alone have no range of output tokens.
    """
    words: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    numbers: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    for load, engine, of_words, of_numbers in _runs():
        for name in (ALL, engine):
            counts[load, name] += 1
            for fact, value in of_words.items():
                words[load, name, fact][value] += 1
            for fact, number in of_numbers.items():
                numbers[load, name, fact].append(number)
    rows: list[dict[str, Any]] = []
    for (load, engine), count in sorted(counts.items()):
        if count < LEAST_ROWS:
            continue
        for key, values in sorted(words.items()):
            if key[:2] == (load, engine):
                rows += [
                    _row(*key, value=value, rows=times) for value, times in sorted(values.items())
                ]
        for key, span in sorted(numbers.items()):
            if key[:2] == (load, engine) and not (key[2] == "osl" and max(span) <= 1.0):
                ends = {"least": f"{min(span):.6g}", "most": f"{max(span):.6g}"}
                rows.append(_row(*key, **ends, rows=len(span)))
    return rows


def _row(load: str, engine: str, fact: str, **cells: Any) -> dict[str, Any]:
    return {**dict.fromkeys(_COLUMNS, ""), "load": load, "engine": engine, "fact": fact, **cells}


def _runs() -> Iterator[tuple[str, str, Mapping[str, str], Mapping[str, float]]]:
    """Load, engine, texts and numbers of every measured run."""
    known: dict[Any, Resolved] = {}
    for source in ("published", "serving"):
        for row in measured_rows(source):
            point = parse(row, row["id"])
            scenario = point.question
            key = (scenario.model, scenario.system, scenario.engine, *scenario.precisions.items())
            if key not in known:
                known[key] = resolve(scenario)
            resolved = known[key]
            formats = formats_of(resolved.model)
            split, words = split_facts(scenario.parallelism, mixed="experts" in formats)
            device = {DEVICE: device_kind(resolved.system)}
            of_words = {**words, **formats, **input_facts(resolved.model), **device}
            load = "batch" if point.load == "batch" else "served"
            of_split = {name: float(value) for name, value in split.items()}
            yield load, resolved.engine.name, of_words, {**_numbers(point), **of_split}


def _numbers(point: Point) -> dict[str, float]:
    scenario = point.question
    lengths = {"isl": float(scenario.isl), "osl": float(scenario.osl)}
    if point.load == "batch":
        return {**lengths, "batch": float(scenario.batch), "cached": 0.0}
    limits = {name: float(getattr(scenario, name)) for name in _TOLD}
    return {
        **lengths,
        "users": float(scenario.concurrency or 0),
        "length_ratio": float(scenario.length_ratio or 1.0),
        "stream_interval": float(scenario.stream_interval),
        "recv_interval": float(scenario.recv_interval),
        "batch_wait": float(scenario.batch_wait),
        **{name: value for name, value in limits.items() if value},
    }


_TOLD = ("max_num_seqs", "max_num_batched_tokens")


def main() -> None:
    """Write hardware_db/engines/measured.csv."""
    from app.engine_fit.fit_files import ENGINES, write_rows

    print(write_rows(ENGINES / "measured.csv", measured_facts()), "facts of measured runs")


if __name__ == "__main__":
    main()

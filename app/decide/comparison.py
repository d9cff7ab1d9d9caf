"""Setups that differ in one property: figures under load, the best one, a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.answers.column import Column, ends
from app.answers.columns import COLUMNS
from app.answers.table import Table
from app.scenario import served_rows
from app.scenario.intervals import Ranged
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording import quantities
from genz_core.errors import InvalidValue
from genz_core.models.model_kinds import generates
from genz_core.workload import WITH_TIMES

#: Typical lengths by use case, input and output tokens of a request: assumed, to be replaced by
#: your own.
USE_CASES: Mapping[str, tuple[int, int]] = {
    "Question answering": (256, 128),
    "Chat": (1024, 512),
    "Summarisation": (8192, 256),
    "Code": (2048, 512),
    "RAG": (8192, 512),
    "Agent": (32768, 1024),
    "Batch": (2048, 512),
}
#: The property that differs, in words.
AXES: Mapping[str, str] = {
    "system": "Systems", "engine": "Engines", "model": "Models", "engine_version": "Versions",
    "weights": "Formats", "use": "Use cases",
}  # fmt: skip


#: For a figure of models that generate, the one of models that only read.
_OF_READERS = {
    "ttft_s": "latency_s",
    "output_tokens_per_s_per_device": "sequences_per_s_per_device",
    "usd_per_mtok": "usd_per_million_tokens",
}
#: Figures of a comparison.
HEADLINES: Mapping[str, Column] = {
    name: COLUMNS[name]
    for name in (
        "ttft_s", "latency_s", "tpot_s", "output_tokens_per_s_per_device",
        "sequences_per_s_per_device", "usd_per_mtok", "usd_per_million_tokens", "memory_bytes",
    )
}  # fmt: skip
Figures = Mapping[str, Ranged]


def setups(base: Setup, axis: str, names: Sequence[str]) -> dict[str, Setup]:
    """Variants of the setup with one property changed, by name.

    axis: of `AXES`.  names: of models, systems, engines, versions of the setup's engine,
    formats of weights ("" for the checkpoint's), or `USE_CASES`.

    Raises:
        InvalidValue: another axis, or an unknown use case.
    """
    if axis not in AXES:
        raise InvalidValue(f"axis {axis!r}: choose {', '.join(AXES)}")
    found = {}
    for name in dict.fromkeys(names):
        if axis != "use":
            changed: dict[str, Any] = {axis: name}
            if axis == "engine":
                changed["engine_version"] = ""  # a release of one engine does not apply to another
            label = name or "as checkpoint"
            found[label] = replace(base, scenario=replace(base.scenario, **changed))
            continue
        if name not in USE_CASES:
            raise InvalidValue(f"use case {name!r}: choose {', '.join(USE_CASES)}")
        isl, osl = USE_CASES[name]
        found[name] = replace(base, scenario=replace(base.scenario, isl=isl, osl=osl))
    return found


def figures(resolved: Resolved) -> dict[str, Ranged]:
    """`HEADLINES` of a scenario under its load, NaN where unknown.

    Latencies come with the ends of their intervals.

    Raises:
        RidgelineError: a scenario that cannot be priced.
    """
    s = resolved.scenario
    found_load = served_rows.served(resolved)
    status = str(found_load.status[0])
    if status not in ("ok", *WITH_TIMES):
        raise InvalidValue(found_load.messages.get(0, status))
    columns = served_rows.figures_of(resolved, found_load, closed=s.kind == "concurrency")
    row = Table(columns, 1).row()

    def stated(name: str, over: float = 1.0) -> Ranged:
        values = (row[one] for one in (name, *ends(name)))
        return Ranged(*(math.nan if value is None else value / over for value in values))

    found = {name: stated(name) for name in ("ttft_s", "tpot_s")}
    found["output_tokens_per_s_per_device"] = stated("output_tokens_per_s", row["devices"])
    found["usd_per_mtok"] = stated("usd_per_million_tokens")
    if not generates(resolved.model):
        found = {_OF_READERS[name]: found[name] for name in _OF_READERS}
    if status != "ok":
        found = {}
    found["memory_bytes"] = Ranged(row["memory_bytes_per_device"])
    return {name: found.get(name, Ranged(math.nan)) for name in HEADLINES}


def best(table: Mapping[str, Figures], headline: str) -> str | None:
    """The name with the best value of a headline figure; None where none has one, or all tie.

    A figure without validation is never the best; memory is counted, not measured.
    """
    known = [
        name
        for name in _ranked(table, headline)
        if headline == "memory_bytes" or math.isfinite(table[name][headline].low)
    ]
    alike = len({table[name][headline].value for name in known}) == 1
    return None if len(known) < 2 or alike else known[0]


def _ranked(table: Mapping[str, Figures], headline: str) -> list[str]:
    """The names with a value of a headline figure, the best value first."""
    sign = 1.0 if HEADLINES[headline].smaller else -1.0
    values = {name: sign * found[headline].value for name, found in table.items()}
    known = (name for name, value in values.items() if math.isfinite(value))
    return sorted(known, key=values.__getitem__)


def verdict(table: Mapping[str, Figures]) -> list[str]:
    """A sentence on which setup is best in what, and by how much: before the next one that is
    validated, with whether their intervals overlap, and behind the better ones that are not.
    """
    lines = []
    for headline, about in HEADLINES.items():
        first = best(table, headline)
        if first is None or headline == "memory_bytes":
            continue
        ranked = _ranked(table, headline)
        place = ranked.index(first)
        other = next(n for n in ranked[place + 1 :] if math.isfinite(table[n][headline].low))
        mine, second = table[first][headline], table[other][headline]
        better = (f"{name} {about.words(table[name][headline].value)}" for name in ranked[:place])
        unsure = "".join(f"; {one}, {quantities.NOT_VALIDATED}" for one in better)
        ratio = second.value / mine.value
        gap = quantities.percent(abs(1.0 - 1.0 / ratio) if about.smaller else 1.0 / ratio - 1.0)
        side = "less" if about.smaller else "more"
        lines.append(
            f"{about.head}: {first} is best with {about.words(mine.value)}, {gap} {side} than "
            f"{other}{_apart(mine, second)}{unsure}"
        )
    return lines


def _apart(first: Ranged, second: Ranged) -> str:
    """Whether the 80 % intervals of two figures overlap, in words."""
    if first.high < second.low or second.high < first.low:
        return "; their intervals lie apart"
    return "; their intervals overlap"

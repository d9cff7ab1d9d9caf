"""Setups that differ in one property: figures under load, the best one, a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.columns import COLUMNS, THROUGHPUT_ENDS, Column, ends
from app.scenario import served_rows, sharing
from app.scenario.intervals import Latency
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording import quantities
from genz_core import economics
from genz_core.errors import InvalidValue
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


#: Figures of a comparison.
HEADLINES: Mapping[str, Column] = {
    name: COLUMNS[name]
    for name in (
        "ttft_s", "tpot_s", "output_tokens_per_s_per_device", "usd_per_mtok", "memory_bytes",
    )
}  # fmt: skip
Figures = Mapping[str, Latency]


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


def figures(resolved: Resolved) -> dict[str, Latency]:
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
    beyond = sharing.unmeasured(s)
    closed = s.kind == "concurrency"
    columns = served_rows.columns(resolved, found_load, closed=closed, beyond=beyond)
    fits = status == "ok"
    found = {}
    for name in ("ttft_s", "tpot_s"):
        low, high = (float(columns[end][0]) for end in ends(name))
        found[name] = Latency(float(columns[name][0]), low, high)
    rate = float(found_load.output_tokens_per_s[0])
    devices = int(np.ravel(found_load.devices)[0])
    mean = served_rows.mean_device(resolved)
    cost = economics.usd_per_million_tokens(mean, devices, rate)
    least, most = (float(columns[end][0]) for end in THROUGHPUT_ENDS)
    per_device = (value / devices for value in (rate, least, most))
    found["output_tokens_per_s_per_device"] = Latency(*per_device)
    price = math.nan if cost is None else float(cost)
    found["usd_per_mtok"] = Latency(price, price * rate / most, price * rate / least)
    if not fits:
        found = {name: Latency(math.nan) for name in found}
    found["memory_bytes"] = Latency(float(found_load.memory_bytes[0]))
    return found


def best(table: Mapping[str, Figures], headline: str) -> str | None:
    """The name with the best value of a headline figure; None where none has one, or all tie.

    A figure without validation is never the best; memory is counted, not measured.
    """
    values = {
        name: found[headline].seconds
        for name, found in table.items()
        if math.isfinite(found[headline].seconds)
        and (headline == "memory_bytes" or math.isfinite(found[headline].low_s))
    }
    if len(values) < 2 or len(set(values.values())) == 1:
        return None
    pick = min if HEADLINES[headline].smaller else max
    return pick(values, key=lambda name: values[name])


def verdict(table: Mapping[str, Figures]) -> list[str]:
    """A sentence on which setup is best in what, by how much, and if intervals overlap."""
    lines = []
    for headline, about in HEADLINES.items():
        first = best(table, headline)
        if first is None or headline == "memory_bytes":
            continue
        ranked = sorted(
            (
                (found[headline], name)
                for name, found in table.items()
                if math.isfinite(found[headline].seconds) and name != first
            ),
            key=lambda pair: pair[0].seconds,
            reverse=not about.smaller,
        )
        second, other = ranked[0]
        mine = table[first][headline]
        ratio = second.seconds / mine.seconds
        gap = quantities.percent(abs(1.0 - 1.0 / ratio) if about.smaller else 1.0 / ratio - 1.0)
        side = "less" if about.smaller else "more"
        lines.append(
            f"{about.head}: {first} is best with {about.words(mine.seconds)}, {gap} {side} than "
            f"{other}{_apart(mine, second)}"
        )
    return lines


def _apart(first: Latency, second: Latency) -> str:
    """Whether the 80 % intervals of two latencies overlap, in words; "" without intervals."""
    known = all(math.isfinite(end) for one in (first, second) for end in (one.low_s, one.high_s))
    if not known:
        return ""
    if first.high_s < second.low_s or second.high_s < first.low_s:
        return "; their intervals lie apart"
    return "; their intervals overlap"

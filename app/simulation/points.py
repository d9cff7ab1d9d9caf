"""A row of a file of simulations: what it asks, and the row of figures that answers it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from app.scenario.drafting import Drafting
from app.scenario.local_files import resolve_local
from app.scenario.points_row import KNOWN as OF_POINTS
from app.scenario.points_row import names_and_degrees, whole
from app.scenario.scenario import Scenario
from app.simulation import local_settings, rows
from app.simulation.disaggregation import PrefillPool
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import TARGETS, Settings, run
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.serving.simulation import Options

Row = dict[str, str]
_LOAD = {entry.name: entry.default for entry in fields(OfferedLoad)}
_OPTIONS = {entry.name: entry.default for entry in fields(Options) if entry.name != "step_scale"}
_POOLS = {entry.name: entry.default for cls in (Drafting, PrefillPool) for entry in fields(cls)}
_POOLS |= {"draft_tokens": 0, "transfer_latency_us": 0.0}  # kinds of what is None by default
_TARGETS = tuple(f"{name[:-2]}_target_s" for name in TARGETS)
_NAMES = tuple(name for name in OF_POINTS if name != "batch")
#: Columns of a file of simulations.
KNOWN = tuple(dict.fromkeys((*_NAMES, *_LOAD, *_OPTIONS, "router", "replicas", *_TARGETS, *_POOLS)))
_COUNTED = ("requests", "ended", "refused", "seconds")
_RATES = (
    "requests_per_s", "input_tokens_per_s", "output_tokens_per_s",
    "output_tokens_per_s_per_device", "good_requests_per_s", "good_share",
)  # fmt: skip
#: Columns of its answers; digest: of the row that was asked.
COLUMNS = (
    "id", "status", "message", *_COUNTED, *_RATES,
    *(f"{name}_{what}_s" for name in rows.LATENCIES for what in rows.STATISTICS),
    "cached_share", "preemptions", "steps", "digest",
)  # fmt: skip


def digest(row: Mapping[str, str]) -> str:
    """What tells the question of a row from any other: its cells, and the files that it names."""
    cells = {name: row[name] for name in sorted(row) if row[name] and name in KNOWN}
    for name in ("trace", "lengths"):
        path = Path(row.get(name) or ".")
        if path.is_file():
            cells[f"{name} of"] = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def simulate_row(row: Mapping[str, str], asked: str) -> Row:
    """Simulate a row; whatever is wrong with it stands in its status and message.

    asked: its digest.
    """
    answer = dict.fromkeys(COLUMNS, "") | {"id": row.get("id", ""), "digest": asked}
    try:
        scenario, settings = parse(row)
        outcome = run(resolve_local(scenario), settings)
    except RidgelineError as error:
        return answer | {"status": error.code, "message": str(error)}
    named = rows.figures(outcome)
    figures = {name: f"{value:.9g}" for name, value in named.items() if value == value}
    return answer | {"status": "ok", "message": "; ".join(outcome.notes)} | figures


def parse(row: Mapping[str, str]) -> tuple[Scenario, Settings]:
    """The scenario and the settings of a row.

    Raises:
        InvalidValue: a cell that is none of its kind, or as `OfferedLoad` and `Settings`.
        InvalidParallelism: expert degrees that contradict the others.
    """
    scenario = Scenario(**names_and_degrees(row))
    load = {name: _cell(row, name, default) for name, default in _LOAD.items() if row.get(name)}
    options = {name: _cell(row, name, was) for name, was in _OPTIONS.items() if row.get(name)}
    targets = {
        name: _cell(row, column, 0.0)
        for name, column in zip(TARGETS, _TARGETS, strict=True)
        if row.get(column)
    }
    pools = {name: _cell(row, name, kind) for name, kind in _POOLS.items() if row.get(name)}
    if row.get("mtp_tokens"):
        pools |= {"speculation": "mtp", "draft_tokens": whole(row, "mtp_tokens", 0)}
    return scenario, Settings(
        OfferedLoad(**load),
        Options(**options),
        int(_cell(row, "replicas", 1)),
        row.get("router") or "least_loaded",
        targets,
        **local_settings.pools(pools),
    )


def _cell(row: Mapping[str, str], name: str, default: Any) -> Any:
    """A cell in the kind of its default; without one it is text.

    Raises:
        InvalidValue: it is not of that kind.
    """
    text = row.get(name, "")
    if not text:
        return default
    if isinstance(default, bool):
        words = {"true": True, "1": True, "false": False, "0": False}
        if text.casefold() not in words:
            raise InvalidValue(f"{name} = {text!r}: give true or false")
        return words[text.casefold()]
    if not isinstance(default, (int, float)):
        return text
    try:
        value = float(text)
    except ValueError:
        raise InvalidValue(f"{name} = {text!r} is no number") from None
    if isinstance(default, int):
        if not value.is_integer():
            raise InvalidValue(f"{name} = {text!r} is no whole number")
        return int(value)
    return value

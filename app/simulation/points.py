"""A row of a file of simulations: what it asks, and the row of figures that answers it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from app.question.asking import Asked, ask
from app.question.parameters import ALIASES
from app.question.verbs import parameters_of
from app.scenario.local_files import sources
from app.simulation import rows
from app.simulation.result import simulate
from genz_core.errors import RidgelineError
from genz_core.limits import checked_size

Row = dict[str, str]
_PARAMETERS = tuple(parameters_of("simulate"))
#: Columns of a file of simulations; mtp_tokens: drafted by the model's own module, 0 for none.
KNOWN = (
    "id", *_PARAMETERS, "mtp_tokens",
    *(alias for alias, name in ALIASES.items() if name in _PARAMETERS),
)  # fmt: skip
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
        outcome = simulate(parse(row)).run
    except RidgelineError as error:
        return answer | {"status": error.code, "message": str(error)}
    named = rows.figures(outcome)
    figures = {name: f"{value:.9g}" for name, value in named.items() if value == value}
    return answer | {"status": "ok", "message": "; ".join(outcome.notes)} | figures


def parse(row: Mapping[str, str]) -> Asked:
    """What a row asks; its empty cells and the columns that nobody knows ask nothing.

    Raises:
        InvalidValue: a cell that cannot be, or as `app.question.asking.ask`.
    """
    cells = {name: text for name, text in row.items() if text and name in KNOWN and name != "id"}
    drafted = checked_size("mtp_tokens", cells.pop("mtp_tokens", 0))
    if drafted:
        cells |= {"speculation": "mtp", "draft_tokens": str(drafted)}
    return ask("simulate", cells, sources)

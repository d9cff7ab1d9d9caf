"""A row of a simulation file: its question, and the row of figures with the answer."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from app.question.parameters import ALIASES, PARAMETERS
from app.question.query import Query, ask, read
from app.question.verbs import parameters_of
from app.scenario.local_files import sources
from app.scenario.scenario import find_model
from app.simulation import rows
from app.simulation.result import simulate
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.limits import checked_size
from genz_core.serving.cache_tiers import TIERS
from genz_core.types import Parallelism, Step

Row = dict[str, str]
_PARAMETERS = tuple(parameters_of("simulate"))
#: Columns of a simulation file; mtp_tokens: drafted by the model's own module, 0 for none;
#: eplb_slots: expert slots per layer, including redundant ones, 0 for as many as experts.
KNOWN = (
    "id", *_PARAMETERS, "mtp_tokens", "eplb_slots",
    *(alias for alias, name in ALIASES.items() if name in _PARAMETERS),
)  # fmt: skip
_SLOTS = replace(PARAMETERS["redundant_experts"], name="eplb_slots")
_COUNTED = ("requests", "ended", "refused", "seconds")
_RATES = (
    "requests_per_s", "input_tokens_per_s", "output_tokens_per_s",
    "output_tokens_per_s_per_device", "good_requests_per_s", "good_share",
)  # fmt: skip
#: Columns of the answers; digest: of the row asked.
COLUMNS = (
    "id", "status", "message", *_COUNTED, *_RATES,
    *(f"{name}_{what}_s" for name in rows.LATENCIES for what in rows.STATISTICS),
    "cached_share", *(f"{name}_hit_share" for name in ("device", *TIERS)), "loading_mean_s",
    "preemptions", "steps", "digest",
)  # fmt: skip


def digest(row: Mapping[str, str]) -> str:
    """A digest that identifies a row's question: its cells and the files that it names."""
    cells = {name: row[name] for name in sorted(row) if row[name] and name in KNOWN}
    for name in ("trace", "lengths"):
        path = Path(row.get(name) or ".")
        if path.is_file():
            cells[f"{name} of"] = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def simulate_row(row: Mapping[str, str], digest: str) -> Row:
    """Simulate a row; errors are reported in its status and message.

    digest: of the row.
    """
    answer = dict.fromkeys(COLUMNS, "") | {"id": row.get("id", ""), "digest": digest}
    try:
        outcome = simulate(parse(row)).run
    except RidgelineError as error:
        return answer | {"status": error.code, "message": str(error)}
    named = rows.figures(outcome)
    figures = {name: f"{value:.9g}" for name, value in named.items() if value == value}
    return answer | {"status": "ok", "message": "; ".join(outcome.notes)} | figures


def _redundant(slots: int, query: Query) -> int:
    """The number of redundant experts for a number of slots."""
    q = query.question
    model = find_model(query.named("model"))
    steps = model.graph(Step.decode(1.0, 1.0), Parallelism()).ops
    experts = max(
        (int(op.dims["experts_total"]) for op in steps if op.dims.get("top_k")), default=0
    )
    if slots < experts or not experts:
        raise InvalidValue(
            f"eplb_slots = {slots}: {q.model} has {experts} experts per layer; give at least as "
            "many slots, or 0 for no redundant experts"
        )
    return slots - experts


def parse(row: Mapping[str, str]) -> Query:
    """The question of a row; empty cells and unknown columns are ignored.

    Raises:
        InvalidValue: an invalid cell, or as `app.question.query.ask`.
    """
    cells = {name: text for name, text in row.items() if text and name in KNOWN and name != "id"}
    drafted = checked_size("mtp_tokens", cells.pop("mtp_tokens", 0))
    if drafted:
        cells |= {"speculation": "mtp", "draft_tokens": str(drafted)}
    slots = read(_SLOTS, cells.pop("eplb_slots", "0"))
    if slots:
        cells["redundant_experts"] = str(_redundant(slots, ask("simulate", cells, sources)))
    return ask("simulate", cells, sources)

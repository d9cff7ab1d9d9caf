"""One row of a points file: its text read, or the sentence that says what is wrong with it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.scenario.scenario import Scenario
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.limits import checked_size
from genz_core.serving.options import Options

NAMES = (
    "model", "system", "engine", "engine_version", "weights", "moe_weights", "kv", "activations",
    "compute",
)  # fmt: skip
_DEGREES = ("tp", "pp", "dp")
LOADS = ("batch", "concurrency", "rate")
#: Columns of a points file.
KNOWN = (
    "id", *NAMES, *_DEGREES, "ep", "moe_tp", "isl", "osl", *LOADS, "length_ratio",
    "stream_interval", "recv_interval", "mtp_tokens", "max_num_seqs", "max_num_batched_tokens",
    "memory_fraction",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """One row, its text read.

    concurrency: open requests, or rate: arrivals per second; neither: a static batch.
    stream_interval, recv_interval: see `genz_core.serving.Traffic`.
    mtp_tokens: drafted in a step by the model's own module, 0 for none.
    options: what the engine was told, see `genz_core.serving.options`.
    """

    id: str
    scenario: Scenario
    concurrency: int = 0
    rate: float = 0.0
    length_ratio: float = 1.0
    stream_interval: int = 1
    recv_interval: int = 1
    mtp_tokens: int = 0
    options: Options = field(default_factory=Options)
    notes: tuple[str, ...] = ()

    @property
    def load(self) -> Literal["batch", "concurrency", "rate"]:
        """Which of the columns the load stands in."""
        return "concurrency" if self.concurrency else "rate" if self.rate else "batch"


def parse(row: Mapping[str, str], default_id: str = "") -> Point:
    """Read one row.

    Raises:
        InvalidValue: a size that is no whole number within its limits, or not one load.
        InvalidParallelism: moe_tp * ep is not tp * dp.
    """
    names = names_and_degrees(row)
    batch, concurrency = whole(row, "batch", 0), whole(row, "concurrency", 0)
    rate = number(row, "rate", 0.0, most=1e9)
    given = [name for name in LOADS if row.get(name)]
    if len(given) != 1:
        has = " and ".join(given) or "none"
        raise InvalidValue(f"give batch, concurrency or rate, one of them; this row has {has}")
    scenario = Scenario(
        **names,
        batch=batch or concurrency or 1,
        isl=whole(row, "isl", None),
        osl=whole(row, "osl", None),
    )
    return Point(
        row.get("id") or default_id,
        scenario,
        concurrency,
        rate,
        length_ratio(row),
        whole(row, "stream_interval", 1),
        whole(row, "recv_interval", 1),
        whole(row, "mtp_tokens", 0),
        Options(
            max_num_seqs=whole(row, "max_num_seqs", 0),
            max_num_batched_tokens=whole(row, "max_num_batched_tokens", 0),
            memory_fraction=number(row, "memory_fraction", 0.0, most=1.0),
        ),
    )


def names_and_degrees(row: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a scenario that say what runs where, without its load.

    Raises:
        InvalidValue: no model or system, or a degree that is no whole number.
        InvalidParallelism: moe_tp * ep is not tp * dp.
    """
    names: dict[str, Any] = {name: row.get(name, "") for name in NAMES}
    if not names["model"] or not names["system"]:
        empty = "model" if not names["model"] else "system"
        raise InvalidValue(f"the {empty} is empty; name one")
    degrees: dict[str, Any] = {name: whole(row, name, 1) for name in _DEGREES}
    ep, moe_tp = _experts(row, degrees["tp"] * degrees["dp"])
    return {**names, **degrees, "ep": ep, "moe_tp": moe_tp}


def unknown_columns(header: Iterable[str], known: Sequence[str] = KNOWN) -> list[str]:
    """A sentence for every column that is not known and does not hold a measured figure."""
    sentences = []
    for name in header:
        if name in known or not name or name.startswith("measured_"):
            continue
        near = difflib.get_close_matches(name, known, 3, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        sentences.append(f"column {name!r} is not known and was left out: {hint}")
    return sentences


def _experts(row: Mapping[str, str], ranks: int) -> tuple[int, int | None]:
    """Expert degrees of a row: (ep, moe_tp); see architecture rules for empty cells."""
    ep, moe_tp = whole(row, "ep", 0), whole(row, "moe_tp", 0)
    if not moe_tp:
        return ep or 1, None
    if not ep:
        if ranks % moe_tp:
            raise InvalidParallelism(f"moe_tp={moe_tp} does not divide tp x dp = {ranks}")
        return ranks // moe_tp, moe_tp
    if ep * moe_tp != ranks:
        raise InvalidParallelism(
            f"moe_tp x ep = {moe_tp} x {ep} must equal tp x dp = {ranks}; leave moe_tp empty"
        )
    return ep, moe_tp


def whole(row: Mapping[str, str], name: str, default: int | None) -> int:
    """A whole number of at least one; `default` where the cell is empty, None to refuse that."""
    text = row.get(name, "")
    if text or default is None:
        return checked_size(name, text or "empty")
    return default


def number(row: Mapping[str, str], name: str, default: float, *, most: float) -> float:
    """A number above 0, at most `most`; `default` where the cell is empty."""
    text = row.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= most:
        raise InvalidValue(f"{name} = {text!r} is not a number above 0 and at most {most:g}")
    return value


def length_ratio(row: Mapping[str, str]) -> float:
    """Shortest over nominal length, 1 where the cell is empty."""
    text = row.get("length_ratio", "")
    try:
        value = float(text or 1.0)
    except ValueError:
        value = float("nan")
    if not 0.0 < value <= 1.0:
        raise InvalidValue(f"length_ratio = {text!r} is not between 0 and 1")
    return value

"""A sweep as it is asked: axes by the names of the points file, every combination of their values.

    model: Qwen/Qwen3-32B
    system: [h100, h200]
    tp: [1, 2, 4, 8]
    batch: {from: 1, to: 256, step: x2}
    isl: {from: 1024, to: 8192, step: 1024}

or rows of their own under `points`, each with what differs from the rest of the file.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from app.scenario.points_row import LOADS, NAMES
from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS, checked_size
from genz_core.types import Array
from hardware_db import yaml_document

#: Axes of text or truth: each combination of them is looked up once.
STRUCTURAL = (*NAMES, "sequence_parallel")
#: Axes of whole numbers, with what each is unless said.
SIZES: Mapping[str, float] = {
    "tp": 1, "pp": 1, "dp": 1, "ep": 1, "moe_tp": 0, "cp": 1, "micro_batches": 0,
    "batch": 0, "concurrency": 0, "isl": 1024, "osl": 128,
    "stream_interval": 1, "recv_interval": 1, "max_num_seqs": 0,
}  # fmt: skip
#: Axes of other numbers, with the most that each may be.
NUMBERS: Mapping[str, tuple[float, float]] = {
    "rate": (0.0, 1e9), "length_ratio": (1.0, 1.0), "expert_imbalance": (1.0, 1e6),
}  # fmt: skip
NUMERIC = (*SIZES, *NUMBERS)
KNOWN = (*STRUCTURAL, *NUMERIC, "points")
_LIMIT_OF = {
    "moe_tp": "moe_tp", "micro_batches": "batch", "stream_interval": "osl",
    "recv_interval": "osl", "max_num_seqs": "batch",
}  # fmt: skip
_DEFAULTS: Mapping[str, Any] = {**dict.fromkeys(NAMES, ""), "sequence_parallel": False}
_ENGINES = {"batch": "generic", "concurrency": "vllm", "rate": "vllm"}
MOST_ROWS = 50_000_000
_STEP = ("from", "to", "step")
#: What the model and the system of some keywords mean: names, or files of this machine.
Sources = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that share what is looked up: every combination of the numbers on its axes.

    names: model, system, engine, formats.  load: of `LOADS`.  axes: {axis: values}, the last one
    varies fastest; axes that were not asked for are not among them.  sources: what the names mean,
    a function of a module.
    """

    names: Mapping[str, Any]
    load: str
    axes: Mapping[str, tuple[float, ...]]
    sources: Sources = dict

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    def columns(self, start: int, stop: int) -> dict[str, Array]:
        """The numbers of some of the rows, {axis: [rows]}."""
        shape = tuple(len(values) for values in self.axes.values()) or (1,)
        places = np.unravel_index(np.arange(start, stop), shape)
        pairs = zip(self.axes.items(), places, strict=False)
        return {name: np.asarray(values, dtype=float)[at] for (name, values), at in pairs}


@dataclass(frozen=True, slots=True)
class SweepAxes:
    """A sweep: its blocks, in the order of their rows.

    digest: of what was asked, which tells its unfinished parts from those of another sweep.
    """

    blocks: tuple[Block, ...]
    digest: str = field(default="", compare=False)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))


def read(path: Path, sources: Sources = dict) -> SweepAxes:
    """The sweep in a YAML file; sources: as of `sweep_axes`.

    Raises:
        InvalidValue: it cannot be read, or as `sweep_axes`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"cannot read {path}: {error}") from None
    return sweep_axes(yaml_document.parse(text, path.name), sources)


def sweep_axes(asked: Mapping[str, Any], sources: Sources = dict) -> SweepAxes:
    """A sweep from its axes by name, each a value, a list or {from, to, step}.

    sources: what models and systems mean, a function of a module; by default texts are names.

    Raises:
        InvalidValue: an unknown axis, a value that cannot be, no model or system, not one load, or
            more rows than fit a file.
    """
    _refuse_unknown(asked)
    points = asked.get("points", [{}])
    if not isinstance(points, Sequence) or isinstance(points, str) or not points:
        raise InvalidValue("points: give a list of rows, each with what differs from the rest")
    shared = {name: value for name, value in asked.items() if name != "points"}
    blocks: list[Block] = []
    for point in points:
        if not isinstance(point, Mapping):
            raise InvalidValue(f"points: {str(point)[:60]!r} is no row of axes")
        _refuse_unknown(point)
        blocks.extend(_blocks({**shared, **point}, sources))
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
    result = SweepAxes(tuple(blocks), digest[:16])
    if len(result) > MOST_ROWS:
        raise InvalidValue(f"{len(result):,} rows; sweep at most {MOST_ROWS:,} into one file")
    return result


def _refuse_unknown(asked: Mapping[str, Any]) -> None:
    for name in asked:
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, 3, 0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else f"axes are {', '.join(KNOWN)}"
            raise InvalidValue(f"{name[:60]!r} is no axis of a sweep: {hint}")


def _blocks(asked: Mapping[str, Any], sources: Sources) -> Iterator[Block]:
    given = [name for name in LOADS if name in asked]
    if len(given) > 1:
        raise InvalidValue(
            f"give batch, concurrency or rate, one of them, not {' and '.join(given)}"
        )
    load = given[0] if given else "batch"
    axes = {name: _numbers(name, asked[name]) for name in NUMERIC if name in asked}
    if load == "batch" and "batch" not in axes:
        axes["batch"] = (1.0,)
    texts = {name: _texts(name, asked[name]) for name in STRUCTURAL if name in asked}
    for name in ("model", "system"):
        if not all(texts.get(name, ("",))):
            raise InvalidValue(f"a sweep needs a {name}: name one, or a list of them")
    texts.setdefault("engine", (_ENGINES[load],))
    for values in product(*texts.values()):
        names = {**_DEFAULTS, **dict(zip(texts, values, strict=True))}
        yield Block(names, load, axes, sources)


def _texts(name: str, given: Any) -> tuple[Any, ...]:
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(values) > LIMITS["axis"].most:
        raise InvalidValue(f"{name}: {len(values):,} values; give at most {LIMITS['axis'].most:,}")
    for value in values:
        truth = name == "sequence_parallel"
        named = not isinstance(value, (bool, int, float, list, type(None)))
        if not (isinstance(value, bool) if truth else named):
            raise InvalidValue(f"{name}: {value!r} is no {'truth' if truth else 'name'}")
    return tuple(values)


def _numbers(name: str, given: Any) -> tuple[float, ...]:
    """The values of a numeric axis, each within its limits, once."""
    if isinstance(given, Mapping):
        given = _stepped(name, given)
    values = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
    if not values:
        raise InvalidValue(f"the axis {name} has no values")
    if len(values) > LIMITS["axis"].most:
        raise InvalidValue(f"{name}: {len(values):,} values; give at most {LIMITS['axis'].most:,}")
    return tuple(dict.fromkeys(_number(name, value) for value in values))


def _number(name: str, value: Any) -> float:
    if name in SIZES:
        return float(checked_size(_LIMIT_OF.get(name, name), value, name))
    most = NUMBERS[name][1]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number <= most:
        raise InvalidValue(f"{name} = {str(value)[:40]}: give a number above 0, up to {most:g}")
    return number


def _stepped(name: str, given: Mapping[str, Any]) -> list[float]:
    """The values of {from, to, step}: the step is a number, or "x2" for doubling."""
    unknown = [key for key in given if key not in _STEP]
    if unknown or "from" not in given or "to" not in given:
        raise InvalidValue(f"{name}: a range is from, to and step, not {', '.join(given)}")
    step = given.get("step", 1)
    try:
        low, high = float(given["from"]), float(given["to"])
        factor = float(step[1:]) if isinstance(step, str) and step.startswith("x") else 0.0
        stride = 0.0 if factor else float(step)
    except (TypeError, ValueError):
        low = high = factor = stride = math.nan
    grows = (factor > 1.0 and low > 0.0) or stride > 0.0
    if not (math.isfinite(low) and math.isfinite(high) and low <= high and grows):
        raise InvalidValue(
            f'{name}: {dict(given)} is no range; give {{from: 1, to: 8, step: 1}}, or step "x2" '
            "for doubling"
        )
    values, most = [], LIMITS["axis"].most
    at = 0
    while at <= most:
        value = low * factor**at if factor else low + stride * at
        if value > high * (1.0 + 1e-12):
            break
        values.append(float(round(value)) if name in SIZES else value)
        at += 1
    return values

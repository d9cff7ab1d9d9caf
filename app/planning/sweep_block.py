"""Rows of a block, priced side by side: the columns of the points file as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.planning.sweep_axes import NUMERIC, SIZES, STRUCTURAL, Block
from app.scenario import intervals
from app.scenario.scenario import Resolved, Scenario, resolve_objects
from app.scenario.served_rows import columns as served_columns
from app.scenario.served_rows import serve_resolved
from genz_core import estimate
from genz_core.economics import joules_per_token, usd_per_million_tokens
from genz_core.errors import InvalidParallelism, RidgelineError
from genz_core.types import Array, Parallelism, Workload
from genz_core.validity import check
from genz_core.workload import OUT_OF_MEMORY, bounds

#: Rows that are priced at once: as many as stay in a processor's cache.
AT_ONCE, BOUNDS_AT_ONCE = 5_000, 2_500
_LATENCIES = ("prefill_s", "ttft_s", "tpot_s", "e2e_s")
_FORMATS = ("weights", "moe_weights", "kv", "activations", "compute")
_DEGREES = ("tp", "pp", "dp", "ep", "moe_tp", "cp", "micro_batches", "expert_imbalance")
_TRAFFIC = ("length_ratio", "stream_interval", "recv_interval", "max_num_seqs")
_ECONOMY = (
    "devices", "output_tokens_per_s_per_device", "usd_per_million_tokens",
    "usd_per_million_tokens_low", "usd_per_million_tokens_high", "joules_per_token",
)  # fmt: skip
_FIGURES = (
    *_LATENCIES, "output_tokens_per_s", *_ECONOMY, "memory_bytes_per_device", "bound_prefill_s",
    "bound_decode_step_s", *(end for name in _LATENCIES for end in intervals.ends(name)),
)  # fmt: skip
#: Columns of whole numbers.
WHOLE = (*SIZES, "devices")
#: Columns of a sweep's table, those of the points file first.
COLUMNS = (*STRUCTURAL, *NUMERIC, "status", "message", "fits", *_FIGURES, "not_validated")
_BOUNDS = ("bound_prefill_s", "bound_decode_step_s")
BOUNDS_COLUMNS = (*STRUCTURAL, *NUMERIC, "status", "message", "devices", *_BOUNDS)


Columns = dict[str, Any]


def resolve(block: Block) -> Resolved | RidgelineError:
    """What a block's names stand for, or why they stand for nothing that can be priced.

    Raises:
        RidgelineError: a name that nobody knows.
    """
    names = block.names
    formats = {name: names[name] for name in _FORMATS}
    try:
        meant = block.sources({name: names[name] for name in ("model", "system")})
        return resolve_objects(
            Scenario(), meant["model"], meant["system"], names["engine"], formats
        )
    except LookupError:
        raise
    except RidgelineError as error:
        return error


def price(
    block: Block, found: Resolved | RidgelineError, start: int, stop: int, bounds_only: bool
) -> Columns:
    """Rows `start` to `stop` of a block: {column of `COLUMNS`: [rows]}.

    What cannot run keeps its row, with the reason in status and message.
    bounds_only: the least times alone, some ten times as fast.
    """
    parts = []
    step = BOUNDS_AT_ONCE if bounds_only else AT_ONCE
    for low in range(start, stop, step):
        numbers = block.columns(low, min(low + step, stop))
        parts.append(_priced(block, found, numbers, bounds_only))
    return {name: np.concatenate([p[name] for p in parts]) for name in names_of(bounds_only)}


def names_of(bounds_only: bool) -> tuple[str, ...]:
    """Columns of a table, of one with the bounds alone."""
    return BOUNDS_COLUMNS if bounds_only else COLUMNS


def _priced(
    block: Block, found: Resolved | RidgelineError, numbers: Mapping[str, Array], bounds_only: bool
) -> Columns:
    size = len(next(iter(numbers.values())))
    table: Columns = {name: _text(size, _shown(block.names[name])) for name in STRUCTURAL}
    table |= {name: _asked(name, block, numbers, size) for name in NUMERIC}
    nothing = np.full(size, np.nan)
    table |= dict.fromkeys(_BOUNDS if bounds_only else _FIGURES, nothing)
    table |= {"devices": nothing, "fits": np.zeros(size, dtype=bool)}
    table |= {"not_validated": _text(size, "")}
    try:
        if isinstance(found, RidgelineError):
            raise found
        return table | _figures(block, found, numbers, table, bounds_only)
    except RidgelineError as error:
        reason = {"status": error.code, "message": str(error)}
        return table | {name: _text(size, text) for name, text in reason.items()}


def _shown(name: Any) -> Any:
    """A name as a cell: text, a truth, or what an object calls itself."""
    return name if isinstance(name, (str, bool)) else getattr(name, "name", str(name))


def _text(size: int, text: Any) -> np.ndarray:
    return np.full(size, text, dtype=object)


def _asked(name: str, block: Block, numbers: Mapping[str, Array], size: int) -> Array:
    """A numeric column as it is written: what was asked, its default, or nothing."""
    if name in numbers:
        return numbers[name]
    default = {"rate": np.nan, "length_ratio": 1.0, "expert_imbalance": 1.0, **SIZES}[name]
    return np.full(size, default if default else np.nan)


def _figures(
    block: Block,
    resolved: Resolved,
    numbers: Mapping[str, Array],
    table: Columns,
    bounds_only: bool,
) -> Columns:
    degrees: dict[str, Any] = {name: numbers[name] for name in _DEGREES if name in numbers}
    degrees["sequence_parallel"] = bool(block.names["sequence_parallel"])
    if "moe_tp" in degrees and "ep" not in degrees:
        ranks = np.asarray(degrees.get("tp", 1.0)) * degrees.get("dp", 1.0)
        degrees["ep"] = np.maximum(ranks // degrees["moe_tp"], 1.0)
    split = Parallelism(**degrees)
    if bounds_only:
        return _least(block, resolved, split, table)
    if block.load == "batch":
        return _static(resolved, split, table)
    return _served(block, resolved, split, numbers, table)


def _mean(name: str, table: Columns) -> Array:
    mean = (1.0 + table["length_ratio"]) / 2.0
    return np.asarray(np.maximum(np.round(table[name] * mean), 1.0))


def _least(block: Block, resolved: Resolved, split: Parallelism, table: Columns) -> Columns:
    """The bounds of the lengths and of the batch, or of the users as one."""
    name = "concurrency" if block.load == "concurrency" else "batch"
    batch = np.nan_to_num(table[name], nan=1.0)
    load = Workload(batch, _mean("isl", table), _mean("osl", table))
    checked = check(resolved.model, load, split)
    sound = (resolved.model, resolved.system, checked.workload, checked.parallelism)
    least = bounds(*sound, resolved.engine)
    good = checked.status == "ok"
    messages = _text(batch.size, "")
    for at, words in checked.complaints.items():
        messages[at] = words
    masked = (np.where(good, values, np.nan) for values in least)
    return {
        "status": checked.status.astype(object),
        "message": messages,
        "devices": np.broadcast_to(np.asarray(split.devices, dtype=float), batch.shape),
        **dict(zip(_BOUNDS, masked, strict=True)),
    }


def _static(resolved: Resolved, split: Parallelism, table: Columns) -> Columns:
    load = Workload(table["batch"], _mean("isl", table), _mean("osl", table))
    model, system, engine = resolved.model, resolved.system, resolved.engine
    result = estimate(model, system, load, split, engine, on_error="status")
    seconds = {
        "prefill_s": np.where(result.valid, result.prefill.total_s, np.nan),
        "ttft_s": result.ttft_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s,
    }
    bound = intervals.bounds_of(result)
    known = intervals.of_batch(result)
    figures = intervals.beside(seconds, known, bound)
    figures |= intervals.of_throughput(result.output_tokens_per_s, figures)
    messages = _text(table["batch"].size, "")
    for at in np.flatnonzero(result.status != "ok"):
        messages[at] = result.message(int(at))
    return _complete(resolved, split, figures, result.output_tokens_per_s) | {
        "status": result.status.astype(object),
        "message": messages,
        "fits": (result.status != OUT_OF_MEMORY) & result.valid,
        "memory_bytes_per_device": np.where(result.valid, result.memory.total_bytes, np.nan),
        "bound_prefill_s": result.bound_ttft_s,
        "bound_decode_step_s": result.bound_tpot_s,
    }


def _served(
    block: Block,
    resolved: Resolved,
    split: Parallelism,
    numbers: Mapping[str, Array],
    table: Columns,
) -> Columns:
    traffic: dict[str, Any] = {name: numbers[name] for name in _TRAFFIC if name in numbers}
    result = serve_resolved(
        resolved,
        isl=table["isl"],
        osl=table["osl"],
        parallelism=replace(split, cp=1.0, micro_batches=0.0),
        concurrency=numbers["concurrency"] if block.load == "concurrency" else None,
        rate_per_s=numbers["rate"] if block.load == "rate" else None,
        **traffic,
    )
    closed = block.load == "concurrency"
    figures = served_columns(resolved, result, _LATENCIES, (), closed=closed)
    status = figures.pop("status")
    valid = status != InvalidParallelism.code
    messages = _text(status.size, "")
    for at, words in result.messages.items():
        messages[at] = words
    return _complete(resolved, split, figures, result.output_tokens_per_s) | {
        "status": status.astype(object),
        "message": messages,
        "fits": (result.capacity >= 1.0) & valid,
        "memory_bytes_per_device": np.where(valid, result.memory_bytes, np.nan),
        "bound_prefill_s": result.bound_prefill_s,
        "bound_decode_step_s": result.bound_decode_step_s,
    }


def _complete(resolved: Resolved, split: Parallelism, figures: Columns, rate: Array) -> Columns:
    """The figures with throughput a device, rent and energy."""
    size, system = rate.size, resolved.system
    devices = np.broadcast_to(np.asarray(split.devices, dtype=float), (size,))
    unknown = np.full(size, np.nan)
    cost = usd_per_million_tokens(system, devices, rate)
    energy = joules_per_token(system, devices, rate)
    missing = _text(size, figures.pop("not_validated"))
    price = unknown if cost is None else cost
    return {
        **figures,
        "not_validated": missing,
        "devices": devices,
        "output_tokens_per_s": rate,
        "output_tokens_per_s_per_device": rate / devices,
        **intervals.of_tokens(
            "usd_per_million_tokens", price, {**figures, "output_tokens_per_s": rate}
        ),
        "joules_per_token": unknown if energy is None else energy,
    }

"""Rows of a block, priced together: the columns of the points file as arrays."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.answers.column import ends
from app.planning.sweep_axes import NUMERIC, STRUCTURAL, Block
from app.question import comparison
from app.question.parameters import PARAMETERS
from app.question.question import SPLIT, STANDARD
from app.scenario import intervals
from app.scenario.gate import too_long
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.served_rows import columns as served_columns
from app.scenario.served_rows import deployed, mean_device, sentences, served
from app.scenario.summary import messages
from genz_core.capacity.memory import memory
from genz_core.errors import RidgelineError
from genz_core.models.model_kinds import model_kind, prompt_tokens
from genz_core.systems import System
from genz_core.types import Array, Workload
from genz_core.validity import check
from genz_core.workload import CONTEXT_TOO_LONG, OUT_OF_MEMORY, bounds

#: Number of rows that are priced at once, so that they stay in a processor's cache.
AT_ONCE, BOUNDS_AT_ONCE = 5_000, 2_500
_LATENCIES = ("prefill_s", "ttft_s", "tpot_s", "e2e_s")
_ECONOMY = (
    "devices", "output_tokens_per_s_per_device", "usd_per_million_tokens",
    "usd_per_million_tokens_low", "usd_per_million_tokens_high", "joules_per_token",
)  # fmt: skip
_FIGURES = (
    *_LATENCIES, "output_tokens_per_s", *_ECONOMY, "memory_bytes_per_device", "bound_prefill_s",
    "bound_decode_step_s", *(end for name in _LATENCIES for end in ends(name)),
)  # fmt: skip
#: Columns of whole numbers.
WHOLE = (*(name for name in NUMERIC if PARAMETERS[name].kind == "whole"), "devices")
#: Columns of a sweep's table, those of the points file first.
COLUMNS = (*STRUCTURAL, *NUMERIC, "status", "message", "fits", *_FIGURES, "not_validated")
_OF_ENGINE = {"engine": "name", "engine_version": "version"}
_BOUNDS = ("bound_prefill_s", "bound_decode_step_s")
BOUNDS_COLUMNS = (*STRUCTURAL, *NUMERIC, "status", "message", "devices", *_BOUNDS)


Columns = dict[str, Any]


def resolve(block: Block) -> Resolved | RidgelineError:
    """The objects behind a block's names, or the error why they cannot be priced.

    Raises:
        RidgelineError: an unknown name.
    """
    try:
        return deployed(block.query)
    except LookupError:
        raise
    except RidgelineError as error:
        return error


def price(
    block: Block, found: Resolved | RidgelineError, start: int, stop: int, bounds_only: bool
) -> Columns:
    """Rows `start` to `stop` of a block: {column of `COLUMNS`: [rows]}.

    A row that cannot run is kept, with the reason in status and message.
    bounds_only: only the least times, which is faster for a batch of a decoder.
    """
    parts = []
    step = BOUNDS_AT_ONCE if bounds_only else AT_ONCE
    for low in range(start, stop, step):
        numbers = block.columns(low, min(low + step, stop))
        size = min(low + step, stop) - low
        parts.append(_priced(block, found, numbers, size, bounds_only))
    texts = {name: _text(stop - start, _shown(block, found, name)) for name in STRUCTURAL}
    others = names_of(bounds_only)[len(texts) :]
    return texts | {name: np.concatenate([p[name] for p in parts]) for name in others}


def names_of(bounds_only: bool) -> tuple[str, ...]:
    """Columns of a table, or of one with the bounds only."""
    return BOUNDS_COLUMNS if bounds_only else COLUMNS


def _priced(
    block: Block,
    found: Resolved | RidgelineError,
    numbers: Mapping[str, Array],
    size: int,
    bounds_only: bool,
) -> Columns:
    """Columns of the rows of some numbers, without those of `STRUCTURAL`."""
    table: Columns = {name: _asked(block, name, numbers, size) for name in NUMERIC}
    nothing = np.full(size, np.nan)
    table |= dict.fromkeys(_FIGURES, nothing)
    table |= {"devices": nothing, "fits": np.zeros(size, dtype=bool)}
    table |= {"not_validated": _text(size, "")}
    try:
        if isinstance(found, RidgelineError):
            raise found
        if bounds_only and _are_known(found):
            return table | _least(found, numbers, size)
        priced = (_static if block.load == "batch" else _served)(found, numbers, size)
        return table | intervals.where_it_runs(priced, priced["status"])
    except RidgelineError as error:
        reason = {"status": error.code, "message": str(error)}
        return table | {name: _text(size, text) for name, text in reason.items()}


def _shown(block: Block, found: Resolved | RidgelineError, name: str) -> str:
    """The cell of a name: from the priced engine, otherwise as given; "" if no name is given."""
    if isinstance(found, Resolved) and name in _OF_ENGINE:
        return str(getattr(found.engine, _OF_ENGINE[name]))
    value = block.query.named(name)
    return value if isinstance(value, str) else str(getattr(value, "name", value or ""))


def _text(size: int, text: Any) -> np.ndarray:
    return np.full(size, text, dtype=object)


def _asked(block: Block, name: str, numbers: Mapping[str, Array], size: int) -> Array:
    """A numeric column as written in the file: the given value, its default, or nothing."""
    if name in numbers:
        return numbers[name]
    value = getattr(block.query.question, name)
    absent = value is None or (value == 0 and getattr(STANDARD, name) == 0)
    if absent or (name == "batch" and block.load != "batch"):
        return np.full(size, np.nan)
    return np.full(size, float(value))


def _are_known(resolved: Resolved) -> bool:
    """Whether a batch's least times and memory can be computed without pricing it."""
    q = resolved.scenario
    plain = q.kind == "batch" and not (q.offload or q.speculation)
    return plain and model_kind(resolved.model) == "decoder"


def _least(resolved: Resolved, numbers: Mapping[str, Array], size: int) -> Columns:
    """The bounds of a batch of mean lengths, and whether it can run."""
    q = resolved.scenario
    batch, isl, osl, ratio = (
        np.broadcast_to(np.asarray(numbers.get(name, getattr(q, name) or 1.0), float), (size,))
        for name in ("batch", "isl", "osl", "length_ratio")
    )
    prompt, answer = (
        np.maximum(np.round(tokens * (1.0 + ratio) / 2.0), 1.0) for tokens in (isl, osl)
    )
    degrees: dict[str, Any] = {n: values for n, values in numbers.items() if n in SPLIT}
    split = replace(q.parallelism, **degrees)
    load = Workload(batch, prompt_tokens(resolved.model, prompt), answer)
    checked = check(resolved.model, load, split)
    sound = (resolved.model, resolved.system, checked.workload, checked.parallelism)
    least, held = bounds(*sound, resolved.engine), memory(*sound, resolved.engine)
    good = checked.status == "ok"
    full = np.flatnonzero(good & ~held.fits)
    status = np.where(good & ~held.fits, OUT_OF_MEMORY, checked.status).astype(object)
    long = too_long(resolved.model, prompt_tokens(resolved.model, isl), osl, status)
    status[list(long)] = CONTEXT_TOO_LONG
    reasons = dict(zip(full.tolist(), held.reasons(full), strict=True))
    words = _text(size, "")
    for at, sentence in {**checked.complaints, **reasons, **long}.items():
        words[at] = sentence
    masked = (np.where(good, values, np.nan) for values in least)
    return {
        "status": status,
        "message": words,
        "devices": np.broadcast_to(np.asarray(split.devices, dtype=float), (size,)),
        **dict(zip(_BOUNDS, masked, strict=True)),
    }


def _static(resolved: Resolved, numbers: Mapping[str, Array], size: int) -> Columns:
    batch = resolved.scenario.batch
    result = estimate_resolved(resolved, **{"batch": np.full(size, float(batch)), **numbers})
    seconds = {
        "prefill_s": np.where(result.valid, result.prefill.total_s, np.nan),
        "ttft_s": result.ttft_s,
        "tpot_s": result.tpot_s,
        "e2e_s": result.e2e_s,
    }
    bound, of = intervals.bounds_of(result), comparison.of_batch(result)
    known = intervals.of_batch(result, of)
    figures = intervals.beside(seconds, known, bound)
    figures |= intervals.of_throughput(result.output_tokens_per_s, figures)
    devices = np.broadcast_to(np.asarray(result.devices, dtype=float), (size,))
    rate = result.output_tokens_per_s
    return _complete(resolved.system, devices, figures, rate) | {
        "status": result.status.astype(object),
        "message": messages(resolved, result, resolved.notes, of),
        "fits": result.fits,
        "memory_bytes_per_device": result.memory_bytes,
        "bound_prefill_s": result.bound_ttft_s,
        "bound_decode_step_s": result.bound_decode_step_s,
    }


def _served(resolved: Resolved, numbers: Mapping[str, Array], size: int) -> Columns:
    kind = resolved.scenario.kind
    load = np.full(size, float(getattr(resolved.scenario, kind)))
    result = served(resolved, {kind: load, **numbers})
    figures = served_columns(resolved, result, _LATENCIES, (), closed=kind == "concurrency")
    status = figures.pop("status")
    devices = np.broadcast_to(np.asarray(result.devices, dtype=float), (size,))
    rate, device = result.output_tokens_per_s, mean_device(resolved)
    return _complete(device, devices, figures, rate) | {
        "status": status.astype(object),
        "message": sentences(resolved, result, kind),
        "fits": result.capacity >= 1.0,
        "memory_bytes_per_device": result.memory_bytes,
        "bound_prefill_s": result.bound_prefill_s,
        "bound_decode_step_s": result.bound_decode_step_s,
    }


def _complete(system: System, devices: Array, figures: Columns, rate: Array) -> Columns:
    """The figures completed with throughput per device, rent and energy of a mean device."""
    size = rate.size
    unknown = np.full(size, np.nan)
    costs = intervals.token_costs(system, devices, {**figures, "output_tokens_per_s": rate})
    missing = _text(size, "")
    missing[:] = figures.pop("not_validated")
    return {
        **figures,
        "not_validated": missing,
        "devices": devices,
        "output_tokens_per_s": rate,
        "output_tokens_per_s_per_device": rate / devices,
        **{
            name: unknown if costs[name] is None else costs[name]
            for name in _ECONOMY
            if name in costs
        },
    }

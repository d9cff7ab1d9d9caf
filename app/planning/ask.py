"""A question by the keywords of `ridgeline.plan`, numbers or the text of options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.planning.demand import Demand
from app.planning.search import Question
from app.planning.space import KINDS, Space
from app.planning.targets import parse_targets
from app.scenario.drafting import Drafting
from app.scenario.load_options import adapters
from app.scenario.request_shape import FIELDS, RequestShape
from app.simulation import trace_file
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.types import System

Several = str | int | Sequence[Any]
_MOST_SYSTEMS = 64
_MOST_PLANS = 1000
_CHECKPOINT = ("", "checkpoint", "auto")


def question(model: Any, **given: Any) -> Question:
    """A question; keywords as of `ridgeline.plan`.

    model, systems: as found, no text of files.

    Raises:
        InvalidValue: a keyword whose value cannot be.
    """
    space = Space(
        systems=_systems(given["systems"]),
        engines=words(given["engine"]),
        weights=_formats(given["weights"]),
        kv=_formats(given["kv"]),
        devices=device_range(given["devices"]),
        tp=degrees("tp", given["tp"]),
        pp=degrees("pp", given["pp"]),
        dp=degrees("dp", given["dp"]),
        ep=degrees("ep", given["ep"]),
        max_num_seqs=degrees("batch", given["max_num_seqs"]),
        kinds=_kinds(given["kind"]),
        drafting=_drafting(given),
        adapters=adapters(int(given["lora_rank"]), int(given["lora_adapters"])),
        offload=words(given["offload"]),
        prices=prices(given["price"]),
        cross_systems=bool(given["cross_systems"]),
    )
    confidence = float(given["confidence"])
    if not 0.0 <= confidence < 1.0:
        raise InvalidValue(f"confidence = {confidence:g}: give a probability from 0 to below 1")
    top = int(given["top"])
    if not 1 <= top <= _MOST_PLANS:
        raise InvalidValue(f"top = {top}: give a number of plans from 1 to {_MOST_PLANS:,}")
    return Question(
        model,
        space,
        _demand(given),
        parse_targets(given["target"]),
        given["rank"],
        confidence,
        top,
        bool(given["simulate"]),
        bool(given["pays"]),
    )


def _demand(given: Mapping[str, Any]) -> Demand:
    rate, concurrency, trace = (given[name] for name in ("rate", "concurrency", "trace"))
    if sum(bool(value) for value in (rate, concurrency, trace)) != 1:
        raise InvalidValue("give a rate, a concurrency or a trace, one of them")
    shape = RequestShape(**{name: given[name] for name in FIELDS})
    if trace:
        if shape:
            raise InvalidValue("a trace has prompts of its own: leave out what requests share")
        read = trace_file.read(Path(trace)) if isinstance(trace, (str, Path)) else trace
        return Demand.of_trace(read)
    return Demand(
        concurrency=checked_size("concurrency", concurrency) if concurrency else 0,
        rate=float(rate or 0.0),
        isl=checked_size("isl", given["isl"]),
        osl=checked_size("osl", given["osl"]),
        length_ratio=float(given["length_ratio"]),
        shape=shape,
    )


def words(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names apart by commas, or several of them; () for none."""
    parts = given.split(",") if isinstance(given, str) else list(given)
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _systems(given: Any) -> tuple[Any, ...]:
    if isinstance(given, str):
        given = words(given)
    several = (given,) if isinstance(given, (System, Path, Mapping)) else tuple(given)
    if len(several) > _MOST_SYSTEMS:
        raise InvalidValue(f"{len(several)} systems: give at most {_MOST_SYSTEMS}")
    return several


def _formats(given: str | Sequence[str]) -> tuple[str, ...]:
    """Number formats, "" for the checkpoint's own."""
    named = given.split(",") if isinstance(given, str) else list(given)
    folded = [name.strip() for name in named] or [""]
    return tuple(dict.fromkeys("" if name in _CHECKPOINT else name for name in folded))


def _kinds(given: str | Sequence[str]) -> tuple[str, ...]:
    return words(given) or KINDS


def degrees(name: str, given: Several) -> tuple[int, ...]:
    """Whole numbers: one, several, or "1,2,4"; () for none.

    Raises:
        InvalidValue: one beyond the limits of that name.
    """
    if isinstance(given, int):
        given = (given,) if given else ()
    parts = words(given) if isinstance(given, str) else given
    return tuple(dict.fromkeys(checked_size(name, part) for part in parts))


def device_range(given: str | int | Sequence[int]) -> tuple[int, int]:
    """Least and most devices: 8, "8", "1:64" or a pair.

    Raises:
        InvalidValue: anything else.
    """
    ends: list[Any] = [given] if isinstance(given, int) else list(given)
    if isinstance(given, str):
        ends = given.split(":")
    try:
        numbers = [int(end) for end in ends]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 2:
        raise InvalidValue(f'devices {given!r}: give the least and the most, as "1:64", or one')
    return (numbers[0], numbers[-1])


def prices(given: str | Mapping[str, float]) -> dict[str, float]:
    """Rent of a device by system: "h200=3.5,b200=5", or a mapping.

    Raises:
        InvalidValue: anything else.
    """
    if not isinstance(given, str):
        return dict(given)
    found = {}
    for part in words(given):
        name, sign, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            sign = ""
        if not sign:
            raise InvalidValue(f'price {part!r}: give US dollars per hour, as "h200=3.5"')
    return found


def _drafting(given: Mapping[str, Any]) -> tuple[Drafting, ...]:
    if not given["speculation"]:
        return ()
    return tuple(
        Drafting(
            method,
            given["draft_tokens"],
            given["draft_model"] if method.replace("-", "_") == "draft_model" else "",
            given["acceptance"],
        )
        for method in words(given["speculation"])
    )

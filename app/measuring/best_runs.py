"""The best shipped measured run of a model and a device near a load: what has been reached."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import hardware_db
import model_registry
from genz_core.deployment import bulk_format
from genz_core.errors import RidgelineError
from hardware_db.tables import table
from model_registry.finding.lookup import resolve_name

#: Loads count as near up to this factor; a judgement.
_NEAR = 1.5
_WIDE = {"fp16": "bf16"}


@dataclass(frozen=True, slots=True)
class Best:
    """The shortest measured time [s], and its run."""

    seconds: float
    run: str


def best_served(
    figure: str, model: str, system: str, weights: str, devices: int,
    *, isl: float, osl: float, concurrency: float,
) -> Best | None:  # fmt: skip
    """The smallest mean TTFT or TPOT of runs near a load with at most as many devices; None without
    any.

    Args:
        figure: "ttft_s" or "tpot_s".  weights: format of most weights.
        concurrency: open requests of the whole deployment.
    """
    sizes = {"isl": isl, "osl": osl, "concurrency": concurrency}
    rows = (
        row
        for row in _of_model(model)
        if slug_of(row["system"]) == system
        and (row["weights"] or own_format(row["model"])) == weights
        and int(row["tp"] or 1) * int(row["dp"] or 1) <= devices
        and all(_near(float(row[name]), size) for name, size in sizes.items())
    )
    return _least(
        (float(row[f"measured_{figure}"] or "nan"), _words(row)) for row in rows
    )  # fmt: skip


def best_step(
    phase: str, model: str, system: str, weights: str, devices: int,
    *, batch: float, tokens: float,
) -> Best | None:  # fmt: skip
    """The shortest published time of a prefill or a decode step near a size; None without any.

    weights: format of most weights; the two of 16 bits are equally fast.
    tokens: of a prompt, or cached ones of each sequence.
    """
    rows = (
        row
        for row in table("measurements", "published")
        if row["phase"] == phase and shipped_name(row["model"]) == shipped_name(model)
        and _WIDE.get(row["weights"], row["weights"]) == _WIDE.get(weights, weights)
        and slug_of(row["system"]) == system and int(row["devices"] or 1) <= devices
        and int(float(row["batch"] or 1)) == batch and _near(_tokens(row), tokens)
    )  # fmt: skip
    return _least((float(row["measured_s"]), row["citation"].partition(" | ")[0]) for row in rows)


def _tokens(row: Mapping[str, str]) -> float:
    isl = float(row["isl"] or 0)
    return isl if row["phase"] == "prefill" else isl + float(row["osl"] or 0) / 2.0


def _words(row: Mapping[str, str]) -> str:
    split = ", ".join(f"{name} {row[name]}" for name in ("tp", "dp", "ep") if row[name] not in
                      ("", "1"))  # fmt: skip
    version = f"{row['engine']} {row['engine_version']}".strip()
    return f"{version}{', ' if split else ''}{split}, {row['measured_on']}"


def _least(found: Iterable[tuple[float, str]]) -> Best | None:
    known = [(seconds, run) for seconds, run in found if seconds > 0]
    return Best(*min(known)) if known else None


def _near(one: float, other: float) -> bool:
    return one > 0 < other and 1.0 / _NEAR <= one / other <= _NEAR


@lru_cache(maxsize=64)
def _of_model(model: str) -> tuple[Mapping[str, str], ...]:
    name = shipped_name(model)
    rows = table("measurements", "serving")
    return tuple(row for row in rows if shipped_name(row["model"]) == name)


@lru_cache(maxsize=128)
def slug_of(system: str) -> str:
    """The slug of a system by one of its names, "" for an unknown one."""
    try:
        return hardware_db.load(system).slug
    except RidgelineError:
        return ""


@lru_cache(maxsize=128)
def shipped_name(model: str) -> str:
    """The name of the shipped model that a name stands for; an unknown name is returned as it is.

    Chat models and quantised copies have the name of the model whose architecture they share.
    """
    try:
        return resolve_name(model).id
    except RidgelineError:
        return model


@lru_cache(maxsize=128)
def own_format(model: str) -> str:
    """The format of most weights of a model's checkpoint, "" for an unknown model."""
    try:
        return bulk_format(model_registry.load(model))
    except RidgelineError:
        return ""

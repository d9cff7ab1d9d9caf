"""Schema of a latency profile's YAML, and how profiles are combined and layered.

name: h100_sxm
family: hopper
systems: [h100_sxm]        # slugs this profile was measured on
note: ...
classes:
  gemm:
    bf16:
      parameters: {launch_s: 2.7e-06, ...}
      spread: {launch_s: 0.2, ...}          # only in the default profile
      data_set: ...
      points: 2400
      held_out: {points: 1500, mape: 0.064, p90: 0.14, bias: 0.01}
      date: 2026-11-21
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from genz_core.errors import InvalidValue, RidgelineError
from genz_core.latency.parameters import CLASSES, Parameters, describe
from genz_core.latency.profile import Fit, LatencyProfile, Tier

#: The safe loader, in C where libyaml is available, because profiles are read when a system is
#: loaded.
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ENTRY_KEYS = {"parameters", "spread", "data_set", "points", "held_out", "date"}
_SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class FittedProfile:
    """The constants in a profile file, {(class, format): parameters}, with the record of each fit.

    systems: slugs of the devices that were measured; empty for typical constants.
    """

    name: str
    family: str
    systems: tuple[str, ...]
    parameters: Mapping[tuple[str, str], Parameters]
    fits: Mapping[tuple[str, str], Fit]
    note: str = ""


def read(path: Path, tier: Tier) -> FittedProfile:
    """The profile in a YAML file.

    tier: of its fits.

    Raises:
        InvalidValue: it is not a profile; the message names the offending key.
    """
    return fitted_profile(plain_data(path), path.name, tier)


def head(path: Path) -> FittedProfile:
    """The profile in a shipped YAML file, without reading its constants and fits."""
    text = path.read_text(encoding="utf-8").partition("\nclasses:")[0]
    return _without_constants(yaml.load(text, Loader=_LOADER))


def plain_data(path: Path) -> Any:
    """The data in a shipped YAML file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)


def fitted_profile(data: Any, label: str, tier: Tier) -> FittedProfile:
    """The profile of a document.  label: its name in messages.  Otherwise as `read`."""
    try:
        return _fitted_profile(data, label, tier)
    except RidgelineError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"{label} is not a latency profile ({error!r})") from None


def _fitted_profile(data: Any, label: str, tier: Tier) -> FittedProfile:
    if not isinstance(data, dict) or not isinstance(data.get("classes"), dict):
        raise InvalidValue(f"{label} is not a latency profile: it has no mapping `classes`")
    if not data["classes"] or not isinstance(data.get("systems", []), list):
        raise InvalidValue(f"{label} is not a latency profile: give classes, and systems as a list")
    parameters: dict[tuple[str, str], Parameters] = {}
    fits: dict[tuple[str, str], Fit] = {}
    for operator, formats in data["classes"].items():
        if operator not in CLASSES:
            raise InvalidValue(
                f"{label}: unknown operator class {operator!r}; known: {', '.join(CLASSES)}"
            )
        for fmt, entry in formats.items():
            where = f"{label}: {operator}.{fmt}"
            parameters[operator, fmt] = _parameters(CLASSES[operator], entry, where)
            fits[operator, fmt] = _fit(entry, tier)
    return replace(_without_constants(data), parameters=parameters, fits=fits)


def _without_constants(data: Mapping[str, Any]) -> FittedProfile:
    family, note = (str(data.get(key, "")) for key in ("family", "note"))
    return FittedProfile(str(data["name"]), family, tuple(data.get("systems", ())), {}, {}, note)


def _parameters(kind: type[Parameters], entry: Mapping[str, Any], where: str) -> Parameters:
    """The constants of an entry.  where: its place in the file, for messages."""
    unknown = set(entry) - _ENTRY_KEYS
    if unknown:
        raise InvalidValue(f"{where} has unknown keys {sorted(unknown)}")
    values = entry["parameters"]
    names = {constant.name for constant in describe(kind)}
    if set(values) != names:
        raise InvalidValue(
            f"{where} must state exactly {sorted(names)}; "
            f"missing {sorted(names - set(values))}, unknown {sorted(set(values) - names)}"
        )
    return kind(**{name: float(value) for name, value in values.items()})


def _fit(entry: Mapping[str, Any], tier: Tier) -> Fit:
    """The record of an entry's fit."""
    held_out = entry.get("held_out") or {}
    return Fit(
        tier=tier,
        data_set=entry.get("data_set", ""),
        points=int(entry.get("points", 0)),
        held_out_points=int(held_out.get("points", 0)),
        held_out_mape=held_out.get("mape"),
        held_out_p90=held_out.get("p90"),
        held_out_bias=held_out.get("bias"),
        date=str(entry.get("date", "")),
        spread=dict(entry.get("spread", {})),
    )


def write(profile: FittedProfile, path: Path, heading: str) -> None:
    """Write a profile as YAML under a heading of comments; equal profiles give equal bytes."""
    classes: dict[str, dict[str, Any]] = {}
    for (operator, fmt), parameters in sorted(profile.parameters.items()):
        entry = _entry(parameters, profile.fits[operator, fmt])
        classes.setdefault(operator, {})[fmt] = entry
    data = {
        "name": profile.name,
        "family": profile.family,
        "systems": list(profile.systems),
        "note": profile.note,
        "classes": classes,
    }
    comment = "".join(f"# {line}".rstrip() + "\n" for line in heading.splitlines())
    text = yaml.safe_dump(data, sort_keys=False, width=100, default_flow_style=None)
    path.write_text(comment + text, encoding="utf-8")


def _entry(parameters: Parameters, fit: Fit) -> dict[str, Any]:
    """Constants of a class and format, and the record of their fit, as the YAML states them."""
    entry: dict[str, Any] = {
        "parameters": {
            constant.name: _round(getattr(parameters, constant.name))
            for constant in describe(type(parameters))
        }
    }
    if fit.spread:
        entry["spread"] = {name: _round(value, 3) for name, value in fit.spread.items()}
    entry["data_set"], entry["points"] = fit.data_set, fit.points
    if fit.held_out_mape is not None:
        entry["held_out"] = {
            "points": fit.held_out_points,
            "mape": _round(fit.held_out_mape, 3),
            "p90": _round(fit.held_out_p90 or 0.0, 3),
            "bias": _round(fit.held_out_bias or 0.0, 3),
        }
    entry["date"] = fit.date
    return entry


def _round(value: float, digits: int = _SIGNIFICANT_DIGITS) -> float:
    return float(f"{value:.{digits}g}")


@dataclass(slots=True)
class _Pool:
    """Parameter sets of one class and format from several profiles."""

    sets: list[Parameters] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)

    def fit(self, tier: Tier, spread: Mapping[str, float]) -> Fit:
        """The record of the combined set."""
        return Fit(
            tier=tier,
            data_set="; ".join(sorted({fit.data_set for fit in self.fits})),
            points=sum(fit.points for fit in self.fits),
            date=max(fit.date for fit in self.fits),
            spread=spread,
        )


def combine(profiles: Sequence[FittedProfile], name: str, tier: Tier) -> FittedProfile:
    """The typical profile of several devices: geometric means of their constants.

    The spread of each constant (standard deviation of its logarithm over the devices) is stored as
    the width of its prior in few-shot calibration.  name, tier: of the result.
    """
    pools: dict[tuple[str, str], _Pool] = {}
    for profile in profiles:
        for key, parameters in profile.parameters.items():
            pool = pools.setdefault(key, _Pool())
            pool.sets.append(parameters)
            pool.fits.append(profile.fits[key])
    combined = {key: _average(pool) for key, pool in pools.items()}
    fits = {key: pool.fit(tier, combined[key][1]) for key, pool in pools.items()}
    families = {profile.family for profile in profiles}
    return FittedProfile(
        name,
        families.pop() if len(families) == 1 else "",
        (),
        {key: parameters for key, (parameters, _) in combined.items()},
        fits,
    )


#: Least spread of a constant, for pools of similar devices.
_LEAST_SPREAD = 0.20


def _average(pool: _Pool) -> tuple[Parameters, dict[str, float]]:
    """Geometric means of a pool's constants, and the spread of each."""
    kind, means, spread = type(pool.sets[0]), {}, {}
    for constant in describe(kind):
        values = np.array([getattr(entry, constant.name) for entry in pool.sets])
        logs = np.log(np.maximum(values, max(constant.low, 1e-12)))
        mean, deviation = float(logs.mean()), float(logs.std())
        floor = constant.low if constant.low == 0.0 and math.exp(mean) < 1e-11 else None
        means[constant.name] = (
            floor if floor is not None else min(max(math.exp(mean), constant.low), constant.high)
        )
        spread[constant.name] = max(deviation, _LEAST_SPREAD)
    return kind(**means), spread


def layered(name: str, layers: Sequence[FittedProfile]) -> LatencyProfile:
    """A profile merged from layers: each class and format comes from the first layer that has it.

    Its tier is that of the first layer.
    """
    parameters: dict[str, dict[str, Parameters]] = {}
    fits: dict[str, Fit] = {}
    for layer in layers:
        for (operator, fmt), values in layer.parameters.items():
            if fmt not in parameters.setdefault(operator, {}):
                parameters[operator][fmt] = values
                fits[f"{operator}.{fmt}"] = layer.fits[operator, fmt]
    tier = next(iter(layers[0].fits.values())).tier
    return LatencyProfile(name, tier, parameters, fits)

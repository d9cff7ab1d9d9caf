"""Figures that cannot be: not a number, infinite, negative.  They are left out with a note."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from profilers.serving_results.fields import LARGEST
from profilers.serving_results.measurement import LATENCIES, Percentiles, ServingMeasurement

_STATISTICS = {
    "mean": "mean", "std": "standard deviation of", "minimum": "least", "maximum": "greatest",
}  # fmt: skip
_LENGTHS = ("isl", "osl")
#: Figures of the load that are above 0 where they are stated.
_LOAD = ("concurrency", "concurrency_mean", "duration_s")


def without_impossible(measurement: ServingMeasurement) -> ServingMeasurement:
    """The measurement without impossible figures, with a note that lists them; zeros of rates and
    of the load are unknown figures.
    """
    left_out: list[str] = []
    cleaned = measurement.with_latencies(
        {
            name: _possible(getattr(measurement, name), _head(name), " s", left_out)
            for name in LATENCIES
        }
    )
    sides: dict[str, Any] = {
        name: _possible(getattr(measurement.lengths, name), name.upper(), " tokens", left_out)
        for name in _LENGTHS
    }
    cleaned = replace(
        cleaned,
        lengths=replace(measurement.lengths, **sides),
        throughput=_above_zero(measurement.throughput, measurement.throughput.__slots__, left_out),
        load=_above_zero(measurement.load, _LOAD, left_out),
    )
    if not left_out:
        return cleaned
    note = f"figures that cannot be are left out: {', '.join(left_out)}"
    return replace(cleaned, notes=(*cleaned.notes, note))


def _head(latency: str) -> str:
    return latency.removesuffix("_s").upper()


def _possible(spread: Percentiles, name: str, unit: str, left_out: list[str]) -> Percentiles:
    """The distribution without impossible figures, whose names are appended to `left_out`."""
    wrong = [stated for stated in _stated(spread) if not 0.0 <= stated[2] < LARGEST]
    if not wrong:
        return spread
    left_out += [f"{words} {name} {value:g}{unit}" for _, words, value in wrong]
    fields: dict[str, Any] = {field: None for field, _, _ in wrong if isinstance(field, str)}
    percents = {field for field, _, _ in wrong}
    at = {percent: value for percent, value in spread.at.items() if percent not in percents}
    return replace(spread, **fields, at=at)


def _stated(spread: Percentiles) -> Iterator[tuple[str | float, str, float]]:
    """(field or percent, its name in words, value) of every figure that is stated."""
    for field, words in _STATISTICS.items():
        value = getattr(spread, field)
        if value is not None:
            yield field, words, value
    for percent, value in spread.at.items():
        yield percent, "median" if percent == 50.0 else f"p{percent:g}", value


def _above_zero(figures: Any, names: tuple[str, ...], left_out: list[str]) -> Any:
    """A copy of the rates or the load in which figures that are not above 0 are None."""
    stated = {name: getattr(figures, name) for name in names}
    wrong = [
        name for name, value in stated.items() if value is not None and not 0 < value < LARGEST
    ]
    left_out += [f"{name} {stated[name]:g}" for name in wrong if stated[name] != 0]
    changes: dict[str, Any] = dict.fromkeys(wrong)
    return replace(figures, **changes) if wrong else figures

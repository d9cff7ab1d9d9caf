"""Sourced numbers of the YAML of systems and engines: value, source and kind, in the key's unit.

The unit is part of a number's key, and a figure that is implausible in that unit is refused, which
catches bytes typed as GB and FLOP/s typed as TFLOP/s.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Kind = Literal["datasheet", "derived", "measured", "assumed"]

#: Source of a figure without a document: an assumption of Ridgeline, or of the file's author.
ASSUMPTION = "assumption"

GIGA, MEGA, MICRO, TERA = 1e9, 1e6, 1e-6, 1e12
GIBI, MEBI = 2.0**30, 2.0**20


class Form(BaseModel):
    """A part of a document: other keys than its fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Source(Form):
    """Document that figures are from.

    retrieved: day on which they were read.  seen_in: where they were read instead, if the document
    itself could not be opened.
    """

    title: str = Field(min_length=3)
    url: str | None = None
    retrieved: datetime.date | None = None
    seen_in: str | None = None


class Fact(Form):
    """A sourced number.  note: derivation, or reason for an assumption."""

    value: float = Field(ge=0, allow_inf_nan=False, strict=True)
    source: str
    kind: Kind
    note: str | None = None

    @model_validator(mode="after")
    def _says_how(self) -> Fact:
        if self.kind in ("assumed", "derived") and not self.note:
            raise ValueError(f"a figure of kind {self.kind} needs a note that says how")
        return self


class Price(Fact):
    """A price, with the day on which it was read."""

    date: datetime.date


def _within(low: float, high: float) -> AfterValidator:
    """Validator of facts whose value, in the unit of its key, lies within [low, high]."""

    def check(fact: Fact) -> Fact:
        if not low <= fact.value <= high:
            raise ValueError(f"{fact.value:g} is not between {low:g} and {high:g}; check the unit")
        return fact

    return AfterValidator(check)


Tflops = Annotated[Fact, _within(1e-3, 1e6)]
Gigabytes = Annotated[Fact, _within(0.1, 1e5)]
Megabytes = Annotated[Fact, _within(0.01, 1e5)]
GbPerS = Annotated[Fact, _within(0.01, 1e6)]
#: For a device's own memory, which may be SRAM across a whole wafer.
OwnGbPerS = Annotated[Fact, _within(0.01, 1e8)]
Microseconds = Annotated[Fact, _within(1e-3, 1e4)]
Count = Annotated[Fact, _within(0, 1e6)]
Megahertz = Annotated[Fact, _within(100, 1e4)]
Watts = Annotated[Fact, _within(0.5, 1e5)]
Share = Annotated[Fact, _within(0.01, 1.0)]
Factor = Annotated[Fact, _within(1.0, 2.0)]


def in_si(fact: Fact | None, unit: float) -> float | None:
    """Value of a figure in SI units, for the SI value of its key's unit; none for no figure."""
    return None if fact is None else fact.value * unit


_UNITS: Mapping[str, str] = {
    "gb_per_s": "GB/s",
    "usd_per_hour": "US$/h",
    "gib": "GiB",
    "gb": "GB",
    "mib": "MiB",
    "mb": "MB",
    "us": "µs",
    "mhz": "MHz",
    "w": "W",
    "usd": "US$",
}


def unit_of(path: str) -> str:
    """Display unit of a figure from its path, e.g. "GB/s"; "" for a count."""
    head, _, last = path.rpartition(".")
    if head == "peak_dense_tflops":
        return "TOP/s" if last.startswith("int") else "TFLOP/s"
    return next((unit for end, unit in _UNITS.items() if f"_{last}".endswith(f"_{end}")), "")

"""Limits of every size that can be entered: one table for the command line, forms, links and files.

A number beyond its limit is a typing error or an attack, never a deployment: it is refused with a
message before anything is priced, built or measured with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from genz_core.errors import InvalidValue


def brief(value: object) -> str:
    """A value as quoted in an error, at most 60 characters: numbers plain, also those that are
    typed as text, other texts in quotes.
    """
    text = f"{value:.15g}" if isinstance(value, float) else repr(value)
    if isinstance(value, str):
        with suppress(ValueError):
            float(value)
            text = value.strip()
    return text if len(text) <= 60 else f"{text[:60]}…"


def short(value: float, places: int = 4) -> str:
    """A value with `places` digits, no trailing zeros, and an exponent only below 0.0001."""
    return f"{float(f'{value:.{places}g}'):,.15g}"


@dataclass(frozen=True, slots=True)
class Limit:
    """Whole numbers from `least` to `most`.  words: the counted thing, for the message."""

    least: int
    most: int
    words: str

    def sentence(self, name: str, typed: object) -> str:
        """The error message: the given value, and the allowed range."""
        return (
            f"{name} = {brief(typed)}: give a whole number from {self.least:,} to {self.most:,} "
            f"({self.words})"
        )


#: Limits by field of a scenario or run file, by option, or by page.
LIMITS: Mapping[str, Limit] = {
    "batch": Limit(1, 100_000_000, "sequences in a batch"),
    "concurrency": Limit(1, 100_000_000, "open requests"),
    "isl": Limit(1, 100_000_000, "prompt tokens of a sequence"),
    "osl": Limit(1, 100_000_000, "output tokens of a sequence"),
    "cached_tokens": Limit(0, 100_000_000, "tokens in the cache of a query"),
    "input_tokens": Limit(1, 100_000_000, "new tokens of a query"),
    "tp": Limit(1, 65_536, "ranks of tensor parallelism"),
    "pp": Limit(1, 65_536, "pipeline stages"),
    "dp": Limit(1, 65_536, "ranks of attention data parallelism"),
    "ep": Limit(1, 65_536, "ranks of expert parallelism"),
    "cp": Limit(1, 65_536, "ranks of context parallelism"),
    "moe_tp": Limit(1, 65_536, "ranks that share an expert"),
    "draft_tokens": Limit(1, 64, "tokens that are drafted in a step"),
    "mtp_tokens": Limit(0, 64, "tokens that the model's own module drafts in a step; 0: none"),
    "stream_interval": Limit(1, 1_000_000, "tokens that are sent together"),
    "recv_interval": Limit(1, 1_000_000, "decode steps between two checks for new requests"),
    "batch_wait": Limit(0, 1_000_000, "decode steps that a prompt waits for others"),
    "max_num_seqs": Limit(1, 1_000_000, "sequences of a step and rank"),
    "max_num_batched_tokens": Limit(1, 100_000_000, "tokens of a step and rank"),
    "prefill_workers": Limit(1, 1_024, "prefill workers"),
    "layers": Limit(0, 10_000, "layers that a run keeps; 0: all"),
    "warmup": Limit(0, 1_000, "runs that do not count"),
    "repeats": Limit(1, 1_000, "runs that count"),
    "rounds": Limit(1, 1_000, "measurements of every point"),
    "threads": Limit(0, 4_096, "CPU threads; 0: all that are free"),
    "ranks": Limit(0, 64, "processes of this machine that share a model; 0: this one alone"),
    "kernels": Limit(0, 1_000, "kernels of a report"),
    "launches": Limit(0, 1_000_000_000, "launches of a kernel"),
    "steps": Limit(1, 1_000_000_000, "steps that a report adds up"),
    "worst": Limit(0, 10_000, "points that are listed"),
    "axis": Limit(1, 10_000, "values of one axis"),
    "cells": Limit(1, 2_000_000, "combinations of a sweep"),
    "rows": Limit(1, 200_000, "rows of a points file; split a longer one"),
    "new_tokens": Limit(1, 1_000_000, "tokens of an answer"),
    "prompts": Limit(0, 1_000_000, "prompts of an epoch; 0: all"),
    "epochs": Limit(1, 10_000, "times through the prompts"),
}


#: Limits of durations in seconds, by option or field.
MOST_SECONDS = 604_800


def checked_duration(name: str, seconds: float) -> float:
    """A duration above 0 s and up to a week.

    Raises:
        InvalidValue: any other duration.
    """
    if not 0.0 < seconds <= MOST_SECONDS:
        raise InvalidValue(f"{name} = {seconds:g}: give seconds above 0, up to {MOST_SECONDS:,}")
    return seconds


def checked_size(name: str, value: object, label: str = "") -> int:
    """A number, or its text, as a whole number within its limits.

    Args:
        name: a key of `LIMITS`.
        label: name in the message, if it is not `name`.

    Raises:
        InvalidValue: it is not a whole number, or is outside the limits of that name.
    """
    limit = LIMITS[name]
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (limit.least <= number <= limit.most and number == math.floor(number)):
        raise InvalidValue(limit.sentence(label or name, value))
    return int(number)

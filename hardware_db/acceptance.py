"""Measured acceptance of drafted tokens: by model and method, or the mean of a method.

The table `measurements/speculative_acceptance.csv` holds mean tokens of a step by the number of
drafted ones.  They depend on the text that is generated: coding prompts, but for DeepSeek-V3 and
R1.  A row's `same_module` names the checkpoints that draft with the module that was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Method
from hardware_db.tables import table

Thinking = Literal["on", "off"]
#: Number formats at the end of a checkpoint's name, which hardly change what it generates.
_FORMAT = re.compile(r"-(bf16|fp8|fp4|nvfp4|mxfp4|int4|awq|gptq)$")


def measured_acceptance(
    model: str, method: Method, draft_tokens: int, thinking: Thinking | None = None
) -> Acceptance:
    """Acceptance of a model's drafts, with its source in words.

    Args:
        model: its name; one that was not measured gets the mean of those that were.
        method: "mtp" or "eagle"; other methods differ too much for a mean to be useful.
        thinking: which runs to use, None for all.

    Raises:
        InvalidValue: a method or a number of drafted tokens that was not measured.
    """
    runs = {key: lengths for key, lengths in _runs().items() if key[1] == method}
    if not runs:
        known = " and ".join(sorted({key[1] for key in _runs()} & {"mtp", "eagle"}))
        raise InvalidValue(
            f"no acceptance rate of {method} drafts is known (measured: {known}); give one rate, "
            "or one for each position"
        )
    own = {key: lengths for key, lengths in runs.items() if _bare(model) in _drafting_alike(key[0])}
    chosen = own or runs
    chosen = {key: v for key, v in chosen.items() if thinking in (None, key[2])} or chosen
    longest = max(len(lengths) for lengths in chosen.values())
    if not 1 <= draft_tokens <= longest:
        raise InvalidValue(
            f"{draft_tokens} drafted tokens: acceptance was measured with 1 to {longest}; give one "
            "rate, or one for each position"
        )
    lengths = 1.0 + np.cumsum(_mean_gains(list(chosen.values()))[:draft_tokens])
    source = _source(method, chosen, known=bool(own))
    return Acceptance.of_lengths([float(length) for length in lengths], source)


def _mean_gains(runs: Sequence[Sequence[float]]) -> list[float]:
    """Tokens that each further drafted one adds: means over the runs that drafted as many."""
    gains = [np.diff([1.0, *lengths]) for lengths in runs]
    longest = max(len(gain) for gain in gains)
    return [float(np.mean([g[at] for g in gains if len(g) > at])) for at in range(longest)]


def _source(method: Method, runs: Mapping[tuple[str, ...], Sequence[float]], *, known: bool) -> str:
    models = ", ".join(sorted({key[0] for key in runs}))
    citations = "; ".join(sorted(set().union(*(_citations()[key] for key in runs))))
    if known:
        return f"measured: {models} with {method} ({citations})"
    return f"assumed: mean of {models} with {method} ({citations})"


def _bare(name: str) -> str:
    """A model's name without owner and number format."""
    return _FORMAT.sub("", name.rpartition("/")[2].casefold())


@cache
def _drafting_alike(measured: str) -> frozenset[str]:
    """Names of the checkpoints that draft with the module of `measured`, itself included."""
    rows = table("measurements", "speculative_acceptance")
    names = [row["same_module"].split() for row in rows if _bare(row["model"]) == measured]
    return frozenset({measured}.union(*names))


@cache
def _citations() -> Mapping[tuple[str, ...], frozenset[str]]:
    """Who published each run, without place and revision."""
    publishers: dict[tuple[str, ...], set[str]] = {}
    for row in table("measurements", "speculative_acceptance"):
        words = re.split(r" \(| \||:golden| section", row["citation"])[0]
        publishers.setdefault(_key(row), set()).add(words)
    return {key: frozenset(names) for key, names in publishers.items()}


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    return _bare(row["model"]), row["method"], row["thinking"], row["recipe"]


@cache
def _runs() -> Mapping[tuple[str, ...], tuple[float, ...]]:
    """{(model, method, thinking, recipe): mean tokens of a step with 1, 2, ... drafted tokens}."""
    runs: dict[tuple[str, ...], dict[int, float]] = {}
    for row in table("measurements", "speculative_acceptance"):
        runs.setdefault(_key(row), {})[int(row["draft_tokens"])] = float(row["tokens_per_step"])
    return {
        key: tuple(lengths[at] for at in range(1, len(lengths) + 1))
        for key, lengths in runs.items()
    }

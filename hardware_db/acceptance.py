"""Measured acceptance of drafted tokens: by model and method, or the mean of a method.

The table `measurements/speculative_acceptance.csv` holds mean tokens of a step by the number of
drafted ones.  They depend on the text that is generated; all were measured on coding prompts.
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
_FORMAT = re.compile(r"-(bf16|fp8|nvfp4|mxfp4|int4|awq|gptq)$")


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
            f"acceptance of {method} drafts is not known (measured: {known}); state one rate, or "
            "a share for each position"
        )
    longest = min(len(lengths) for lengths in runs.values())
    if not 1 <= draft_tokens <= longest:
        raise InvalidValue(
            f"{draft_tokens} drafted tokens: acceptance was measured with 1 to {longest}; state "
            "one rate, or a share for each position"
        )
    own = {key: lengths for key, lengths in runs.items() if key[0] == _bare(model)}
    chosen = own or runs
    chosen = {key: v for key, v in chosen.items() if thinking in (None, key[2])} or chosen
    mean = np.mean([lengths[:draft_tokens] for lengths in chosen.values()], axis=0)
    return Acceptance.of_lengths([float(length) for length in mean], _source(model, method, chosen))


def _source(model: str, method: Method, runs: Mapping[tuple[str, ...], Sequence[float]]) -> str:
    measured = sorted({key[0] for key in runs})
    citation = "SemiAnalysisAI/InferenceX, 2026-08, coding prompts"
    if measured == [_bare(model)]:
        return f"measured: {measured[0]} with {method}, {citation}"
    return f"assumed: mean of {', '.join(measured)} with {method} ({citation})"


def _bare(name: str) -> str:
    """A model's name without owner and number format."""
    return _FORMAT.sub("", name.rpartition("/")[2].casefold())


@cache
def _runs() -> Mapping[tuple[str, ...], tuple[float, ...]]:
    """{(model, method, thinking, recipe): mean tokens of a step with 1, 2, ... drafted tokens}."""
    runs: dict[tuple[str, ...], dict[int, float]] = {}
    for row in table("measurements", "speculative_acceptance"):
        key = (_bare(row["model"]), row["method"], row["thinking"], row["recipe"])
        runs.setdefault(key, {})[int(row["draft_tokens"])] = float(row["tokens_per_step"])
    return {
        key: tuple(lengths[at] for at in range(1, len(lengths) + 1))
        for key, lengths in runs.items()
    }

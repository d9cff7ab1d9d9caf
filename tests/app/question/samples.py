"""Values of parameters for tests: an allowed one that is not the default, and an invalid one."""

from __future__ import annotations

import math
from typing import Any

from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS

MODEL = "meta-llama/Llama-3.1-8B"
_TEXTS: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B", "system": "h200", "engine": "sglang", "engine_version": "0.9.0",
    "placement": "tp pp", "draft_model": "Qwen/Qwen3-0.6B", "acceptance": "0.7",
    "prefill_system": "h200", "trace": "requests.csv", "lengths": "lengths.csv",
    "image_size": "512x512", "price": "h200=3.5", "devices": "2:16",
    "rank": "tpot_s",
}  # fmt: skip
_LISTS: dict[str, Any] = {
    "target": ("tpot < 20ms", "ttft_p95 < 1s"), "day": ("0.5",) * 23 + ("1",),
    "pools": ("aggregated",),
}  # fmt: skip


def another(one: Parameter) -> Any:
    """An allowed value of a parameter that is not its default."""
    if one.kind == "truth":
        return not one.default
    if one.kind == "list":
        return _LISTS[one.name]
    if one.choices:
        return next(choice for choice in one.choices if choice not in ("", one.default))
    if not one.numeric:
        return _TEXTS.get(one.name, "fp8")
    least = one.least if math.isfinite(one.least) else 0.0
    step = 1.0 if one.kind == "whole" else min(1.0, (one.most - least) / 4.0)
    value = least + step * (2 if one.default == least + step else 1)
    return int(value) if one.kind == "whole" else value


def beyond(one: Parameter) -> str:
    """A text that is not a value of a parameter."""
    if one.kind == "truth":
        return "perhaps"
    if one.numeric:
        return f"{one.most * 10:.15g}"
    return "none of these"


NUMBERS = [one for one in PARAMETERS.values() if one.numeric]
REFUSED = [one for one in PARAMETERS.values() if one.numeric or one.choices or one.kind == "truth"]

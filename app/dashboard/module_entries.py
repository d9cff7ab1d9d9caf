"""Entries of the module database for page Library: found, evaluated, on the roofline."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from app.charts.figure import Figure
from genz_core.types import System
from model_registry.modules.entry import ModuleEntry
from model_registry.modules.store import stored_names

#: Initial sizes of an entry, by symbol; others start at 1,024.
USUAL: Mapping[str, int] = {"batch": 1, "new_tokens": 1, "context": 1024, "kernel_size": 4}
_POWER = re.compile(r"\*\*(\d+)")
_SYMBOL = re.compile(r"\{(\w+)\}")


def names() -> list[tuple[str, str]]:
    """(class, model whose sizes it has or "") of every entry."""
    return stored_names()


def label(name: tuple[str, str]) -> str:
    """The bare name of a class, with the model whose sizes it has."""
    bare = name[0].rpartition(".")[2]
    return f"{bare} · {name[1]}" if name[1] else bare


def latex(text: str) -> str:
    """A formula of an entry as LaTeX: "2*{new_tokens}**2" as a product with powers."""
    raised = _POWER.sub(r"^{\1}", text)
    named = _SYMBOL.sub(lambda m: r"\mathit{" + m[1].replace("_", r"\_") + "}", raised)
    return named.replace("*", r" \cdot ")


def at_its_bound(figure: Figure) -> None:
    """Describe a roofline's point, in place, as having neither an operator class nor a
    prediction.
    """
    figure.update_layout(showlegend=False)
    for trace in figure.data:
        if trace.get("customdata"):
            trace["hovertemplate"] = (
                "one call at its bound<br>%{x:.4g} FLOP/byte, %{y:.4s}FLOP/s<extra></extra>"
            )


def on_roofline(
    entry: ModuleEntry, figures: Mapping[str, float], system: System, fmt: str
) -> list[dict[str, Any]]:
    """A point of `app.charts.roofline` for a module as one fused operator at its bound.

    figures: of `ModuleEntry.evaluate`.  fmt: arithmetic type.  Empty where it does no arithmetic,
    or has no formula of its bytes.
    """
    if not {"flops", "read_bytes", "write_bytes"} <= set(figures):
        return []
    flops, moved = figures["flops"], figures["read_bytes"] + figures["write_bytes"]
    if not (flops > 0.0 and moved > 0.0):
        return []
    compute_s, memory_s = flops / system.peak(fmt), moved / system.memory_bytes_per_s
    least = max(compute_s, memory_s)
    return [
        {
            "id": entry.module, "name": entry.module.rpartition(".")[2], "phase": "decode",
            "class": "gemm", "runs": 1.0, "flops": flops, "bytes": moved,
            "flops_per_byte": flops / moved, "compute": fmt, "bound_s": least,
            "predicted_s": least, "run_s": least, "low_s": math.nan, "high_s": math.nan,
            "share": 0.2, "flops_per_s": flops / least,
            "bound": "compute" if compute_s > memory_s else "memory",
        }
    ]  # fmt: skip

"""Operators of a run under the torch profiler: time, FLOPs and calls by phase."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from profilers.operators.aten_classes import kind_of
from profilers.operators.kernel_classes import ENGINE_CLASS
from profilers.schema import OPERATOR_COLUMNS, OWN_RUN, table

_PHASES = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class ProfilerOptions:
    """What torch's profiler records.

    trace_path: file for the trace (Chrome's JSON, compressed where it ends in .gz), "" for none.
    activities: "cpu", "cuda", "xpu"; () for those of the device.  memory: allocations.
    stack: source lines.  about: metadata of the run, written into the trace.
    """

    trace_path: str = ""
    activities: tuple[str, ...] = ()
    memory: bool = False
    stack: bool = False
    about: Mapping[str, str | int] = field(default_factory=dict)


def operator_table(
    run: Callable[[], object], device: str, options: ProfilerOptions = ProfilerOptions()
) -> pd.DataFrame:
    """Profile `run`, whose work lies in ranges called "prefill" and "decode".

    Times are self times: of the GPU, or of the CPU where there is none, without operators called
    inside.
    """
    from torch.profiler import ProfilerActivity, profile

    names = options.activities or (("cpu", "cuda") if device == "cuda" else ("cpu",))
    with profile(
        activities=[getattr(ProfilerActivity, name.upper()) for name in names],
        record_shapes=True,
        with_flops=True,
        profile_memory=options.memory,
        with_stack=options.stack,
    ) as profiler:
        run()
        if options.about:
            profiler.add_metadata_json(OWN_RUN, json.dumps(dict(options.about)))
    if options.trace_path:
        profiler.export_chrome_trace(options.trace_path)
    return _rows(profiler.events(), on_device=device == "cuda" and "cuda" in names)


def scaled_to_all_layers(many: pd.DataFrame, few: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Extrapolate operator tables of two cut models to the whole: x + factor (x - x of few).

    Extrapolates runs, seconds and FLOPs of each operator, the longest first; empty if a table is
    empty.

    Args:
        many, few: tables of the model with more and with fewer layers.
        factor: layers that `many` lacks over the difference of both.
    """
    if not len(few):
        return few
    fewer = many[["phase", "name"]].merge(few, "left", ["phase", "name"])
    more, less = (
        table[["count", "time_s"]].assign(flops=table["flops"] * table["count"])
        for table in (many, fewer)
    )
    grown = np.maximum(more, more + factor * (more - less.fillna(0)))
    count = grown["count"].round().astype("int64")
    whole = many.assign(count=count, time_s=grown["time_s"], flops=grown["flops"] / count)
    return whole.sort_values("time_s", ascending=False, kind="stable", ignore_index=True)


def _rows(events: Any, on_device: bool) -> pd.DataFrame:
    spans = [
        (event.name, event.time_range.start, event.time_range.end)
        for event in events
        if event.name in _PHASES
    ]
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for event in events:
        seconds = _own_seconds(event, on_device)
        if seconds <= 0.0 or event.name in _PHASES:
            continue
        phase = next(
            (name for name, low, high in spans if low <= event.time_range.start <= high), None
        )
        if phase is None:
            continue
        entry = sums[phase, event.name]
        entry[0] += 1.0
        entry[1] += seconds
        entry[2] += float(event.flops or 0.0)
    ordered = sorted(sums.items(), key=lambda item: -item[1][1])
    names = [name for (_, name), _ in ordered]
    kinds = [kind_of(name) for name in names]
    counts = [entry[0] for _, entry in ordered]
    return table(
        OPERATOR_COLUMNS,
        {
            "phase": [phase for (phase, _), _ in ordered],
            "name": names,
            "kind": kinds,
            "class": [ENGINE_CLASS.get(kind) for kind in kinds],
            "count": [int(count) for count in counts],
            "flops": [
                e[2] / c if e[2] else float("nan")
                for (_, e), c in zip(ordered, counts, strict=True)
            ],
            "time_s": [entry[1] for _, entry in ordered],
        },
        0,
    )


def _own_seconds(event: Any, on_device: bool) -> float:
    micro = event.self_device_time_total if on_device else event.self_cpu_time_total
    return float(micro) * 1e-6

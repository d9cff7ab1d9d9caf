"""The reports of `nsys stats`, each read from its table.

A table holds kernels, copies, ranges or host calls, as `TableContents`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.readers.columns import MAX_NAME_CHARS, nullable_integers
from profilers.readers.nsys_columns import View
from profilers.schema import (
    HOST_COLUMNS,
    RANGE_COLUMNS,
    DeviceInfo,
    copy_table,
    kernel_table,
    table,
)

_COPY = re.compile(r"^\[?CUDA (memcpy|memset)\s*([\w -]*)\]?$", re.IGNORECASE)
_COPY_KINDS = {
    "device-to-device": "DtoD",
    "host-to-device": "HtoD",
    "device-to-host": "DtoH",
    "host-to-host": "HtoH",
    "peer-to-peer": "PtoP",
}
_DEVICE = re.compile(r"^(.*?)\s*\((\d{1,6})\)$")


@dataclass(slots=True)
class TableContents:
    """Kernels, copies, ranges and host calls of a table; None for those it does not hold."""

    kernels: pd.DataFrame | None = None
    copies: pd.DataFrame | None = None
    ranges: pd.DataFrame | None = None
    host: pd.DataFrame | None = None
    devices: tuple[DeviceInfo, ...] = ()
    note: str = ""


def _clipped(names: Sequence[str]) -> list[str]:
    return [name[:MAX_NAME_CHARS] for name in names]


def _extent(cells: Sequence[str]) -> list[str | None]:
    """ "16,32,7" of "  16   32    7"."""
    return [",".join(cell.split()) or None for cell in cells]


def _summary(
    names: Sequence[str], counts: NDArray[Any], seconds: NDArray[Any]
) -> dict[str, object]:
    titles = _clipped(names)
    return {
        "tool": "nsys",
        "name": titles,
        "count": counts,
        "duration_s": seconds,
    }


def kern_sum(view: View) -> TableContents:
    """cuda_gpu_kern_sum and its variant by grid and block; formerly gpukernsum."""
    columns = _summary(view.text("name"), view.counts("instances"), view.numbers("total time"))
    if "gridxyz" in view:
        columns |= {"grid": _extent(view.text("gridxyz")), "block": _extent(view.text("blockxyz"))}
    return TableContents(kernels=kernel_table(columns, view.rows))


def gpu_sum(view: View) -> TableContents:
    """cuda_gpu_sum and cuda_api_gpu_sum: kernels, copies and calls in one table."""
    category = np.array([cell.strip().upper() for cell in view.text("category")], dtype=object)
    names = np.array(view.text("operation"), dtype=object)
    counts, seconds = view.counts("instances"), view.numbers("total time")
    kernel, call = category == "CUDA_KERNEL", category == "CUDA_API"
    copy = ~kernel & ~call
    return TableContents(
        kernels=kernel_table(
            _summary(names[kernel].tolist(), counts[kernel], seconds[kernel]), int(kernel.sum())
        ),
        copies=_copy_table(names[copy].tolist(), counts[copy], seconds[copy]),
        host=_host_table(names[call].tolist(), counts[call], seconds[call]) if call.any() else None,
    )


def mem_time_sum(view: View) -> TableContents:
    """cuda_gpu_mem_time_sum: copies by kind with their time."""
    names = view.text("operation")
    return TableContents(
        copies=_copy_table(names, view.counts("count"), view.numbers("total time"))
    )


def mem_size_sum(view: View) -> TableContents:
    """cuda_gpu_mem_size_sum: copies by kind with their bytes."""
    copies = _copy_table(view.text("operation"), view.counts("count"), np.full(view.rows, np.nan))
    copies["bytes"] = view.numbers("total")
    return TableContents(copies=copies)


def _copy_table(names: list[str], counts: NDArray[Any], seconds: NDArray[Any]) -> pd.DataFrame:
    kinds = [_copy_kind(name) for name in names]
    return copy_table({"kind": kinds, "count": counts, "duration_s": seconds})


def _copy_kind(name: str) -> str:
    """ "DtoD" of "[CUDA memcpy Device-to-Device]"."""
    match = _COPY.match(name.strip())
    if not match:
        return "copy"
    direction = match[2].strip()
    if match[1].lower() == "memset":
        return "memset"
    return _COPY_KINDS.get(direction.lower(), direction[:16] or "copy")


def api_sum(view: View) -> TableContents:
    """cuda_api_sum, osrt_sum and others that count calls."""
    calls, seconds = view.counts("num calls"), view.numbers("total time")
    return TableContents(host=_host_table(view.text("name"), calls, seconds))


def api_trace(view: View) -> TableContents:
    """cuda_api_trace: every call."""
    calls = np.ones(view.rows, dtype=np.int64)
    return TableContents(host=_host_table(view.text("name"), calls, view.numbers("duration")))


def _host_table(names: list[str], counts: NDArray[Any], seconds: NDArray[Any]) -> pd.DataFrame:
    plain = [re.sub(r"_v\d+$", "", name) for name in _clipped(names)]
    host = table(HOST_COLUMNS, {"name": plain, "count": counts, "time_s": seconds})
    return host.groupby("name", observed=True, as_index=False, sort=False).sum()


def gpu_trace(view: View) -> TableContents:
    """cuda_gpu_trace: every kernel and copy with its start."""
    names = _clipped(view.text("name"))
    copy = np.array([_COPY.match(name.strip()) is not None for name in names], dtype=bool)
    start = view.numbers("start")
    origin = float(np.nanmin(start)) if np.isfinite(start).any() else 0.0
    devices, device = _named_devices(view.text("device"))
    shared = {
        "device": device,
        "stream": view.ordinals("strm"),
        "start_s": start - origin,
        "duration_s": view.numbers("duration"),
    }
    kept, copied = np.flatnonzero(~copy), np.flatnonzero(copy)
    kernels = {
        "tool": "nsys",
        "name": [names[i] for i in kept],
        "grid": _axes(view, "grd", kept),
        "block": _axes(view, "blk", kept),
        **_some(shared, kept),
    }
    copies = {
        "kind": [_copy_kind(names[i]) for i in copied],
        "bytes": view.numbers("bytes")[copied],
        **_some(shared, copied),
    }
    return TableContents(
        kernels=kernel_table(kernels, len(kept)),
        copies=copy_table(copies),
        devices=devices,
    )


def _some(columns: dict[str, NDArray[Any]], rows: NDArray[Any]) -> dict[str, object]:
    """Selected rows of columns, integers as nullable ones."""
    some = {name: values[rows] for name, values in columns.items()}
    return {name: nullable_integers(v) if v.dtype.kind == "i" else v for name, v in some.items()}


def _named_devices(cells: list[str]) -> tuple[tuple[DeviceInfo, ...], NDArray[Any]]:
    """Devices named in cells such as "NVIDIA A100 (0)", and the index of each row's device, -1 for
    none.
    """
    indices: dict[str, int] = {}
    devices = []
    for cell in dict.fromkeys(cells):
        if match := _DEVICE.match(cell.strip()):
            indices[cell] = int(match[2])
            devices.append(DeviceInfo(index=int(match[2]), name=match[1][:200]))
    return tuple(devices), np.array([indices.get(cell, -1) for cell in cells], dtype=np.int64)


def _axes(view: View, prefix: str, rows: NDArray[Any]) -> list[str | None]:
    axes = [view.ordinals(prefix + axis)[rows].tolist() for axis in "xyz"]
    triples = zip(*axes, strict=True)
    return [f"{x},{y},{z}" if min(x, y, z) >= 0 else None for x, y, z in triples]


def kern_exec_trace(view: View) -> TableContents:
    """cuda_kern_exec_trace: every kernel with the call that launched it."""
    start = view.numbers("kernel start")
    calls = view.numbers("api start")
    finite = np.concatenate([start, calls])[np.isfinite(np.concatenate([start, calls]))]
    origin = float(finite.min()) if len(finite) else 0.0
    names = _clipped(view.text("kernel name"))
    columns = {
        "tool": "nsys",
        "device": nullable_integers(view.ordinals("devid")),
        "name": names,
        "start_s": start - origin,
        "duration_s": view.numbers("kernel dur"),
        "launch_s": calls - origin,
        "grid": _extent(view.text("gridxyz")),
        "block": _extent(view.text("blockxyz")),
    }
    return TableContents(kernels=kernel_table(columns, view.rows))


def kern_exec_sum(view: View) -> TableContents:
    """cuda_kern_exec_sum: mean durations, rounded to a tenth of a nanosecond."""
    counts = view.counts("count")
    columns = _summary(view.text("kernel name"), counts, counts * view.numbers("kavg"))
    columns["device"] = nullable_integers(view.ordinals("devid"))
    return TableContents(kernels=kernel_table(columns, view.rows))


def nvtx_kern_sum(view: View) -> TableContents:
    """nvtx_kern_sum: kernels by range; kernels of a nested range also count in each range around
    it.
    """
    columns = _summary(
        view.text("kernel name"), view.counts("kern inst"), view.numbers("total time")
    )
    paths = [cell.strip().removeprefix(":")[:2000] or None for cell in view.text("nvtx range")]
    columns |= {"nvtx_path": paths, "operator": paths}
    columns["attributed_by"] = [path and "nvtx_range" for path in paths]
    note = "nvtx_kern_sum lists a kernel under every range around it: sums count it several times"
    return TableContents(kernels=kernel_table(columns, view.rows), note=note)


def range_sum(view: View) -> TableContents:
    """nvtx_sum, nvtx_pushpop_sum, nvtx_startend_sum: ranges by name."""
    columns = {
        "name": _clipped(view.text("range")),
        "count": view.counts("instances"),
        "duration_s": view.numbers("total time"),
    }
    return TableContents(ranges=table(RANGE_COLUMNS, columns))


def projection_sum(view: View) -> TableContents:
    """nvtx_gpu_proj_sum: ranges by name, with the duration of their GPU work."""
    columns = {
        "name": _clipped(view.text("range")),
        "count": view.counts("range instances"),
        "duration_s": view.numbers("total proj time"),
    }
    return TableContents(ranges=table(RANGE_COLUMNS, columns))


def range_trace(view: View) -> TableContents:
    """nvtx_pushpop_trace: every range on the host."""
    return TableContents(ranges=_traced_ranges(view, "start", "duration"))


def projection_trace(view: View) -> TableContents:
    """nvtx_gpu_proj_trace: every range as projected on the GPU."""
    return TableContents(ranges=_traced_ranges(view, "projected start", "projected duration"))


def _traced_ranges(view: View, start: str, duration: str) -> pd.DataFrame:
    starts = view.numbers(start)
    origin = float(np.nanmin(starts)) if np.isfinite(starts).any() else 0.0
    columns = {
        "name": _clipped(view.text("name")),
        "start_s": starts - origin,
        "duration_s": view.numbers(duration),
    }
    return table(RANGE_COLUMNS, columns)

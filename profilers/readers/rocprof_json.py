"""Kernels of rocprofv3's own JSON (`--output-format json`), which holds one document per process.

"rocprofiler-sdk-tool" lists, for each process, its agents, the symbols of its kernels, and buffered
records; a dispatch refers to its agent, queue and kernel by handles.  Times are nanoseconds on the
machine's clock.  Nothing else is kept (command line, environment).
Source: ROCm/rocprofiler-sdk, source/lib/output/generateJSON.cpp and the fields of
`rocprofiler_buffer_tracing_kernel_dispatch_record_t`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from genz_core.errors import ReportError
from profilers.readers.columns import MAX_NAME_CHARS, label_of, nullable_integers
from profilers.readers.compressed import text_bytes
from profilers.schema import (
    DeviceInfo,
    Report,
    kernel_table,
)

FORMAT = "rocprof-json"
_MAX_BYTES = 256 << 20
_GPU = 2
_NAMES = ("demangled_kernel_name", "formatted_kernel_name", "kernel_name")
_NS = 1e-9


def read(path: Path) -> Report:
    """Read the kernels of a file.

    Raises:
        ReportError: damaged, cut off, too large, or without a dispatch.
    """
    try:
        document = json.loads(text_bytes(path, _MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise ReportError(f"the JSON is damaged or cut off ({str(error)[:80]})") from None
    processes = document.get("rocprofiler-sdk-tool") if isinstance(document, dict) else None
    listed = processes if isinstance(processes, list) else [processes]
    devices: dict[Any, DeviceInfo] = {}
    rows = []
    for at, process in enumerate(one for one in listed if isinstance(one, dict)):
        agents = _agents(process)
        devices |= {info.index: info for info in agents.values()}
        rows += list(_dispatches(process, at, agents))
    if not rows:
        raise ReportError("the JSON of rocprofv3 lists no kernels; trace with --kernel-trace")
    used = {row[1] for row in rows}
    return Report(
        format=FORMAT,
        tool="rocprof",
        tool_version=None,
        label=label_of(path),
        kernels=kernel_table(_columns(rows), len(rows)),
        devices=tuple(info for index, info in devices.items() if index in used),
    )


_Row = tuple[int, int, int, str, int, int, str | None, str | None]


def _columns(rows: list[_Row]) -> dict[str, Any]:
    process, device, queue, names, starts, ends, grid, block = zip(*rows, strict=True)
    begin, end = (np.array(times, dtype=np.int64) for times in (starts, ends))
    return {
        "tool": "rocprof",
        "process": nullable_integers(process),
        "device": nullable_integers(device),
        "stream": nullable_integers(queue),
        "name": names,
        "start_s": (begin - begin.min()) * _NS,
        "duration_s": (end - begin) * _NS,
        "grid": grid,
        "block": block,
    }


def _dispatches(process: dict[str, Any], at: int, agents: dict[Any, DeviceInfo]) -> Iterator[_Row]:
    """One row per dispatch.

    Raises:
        ReportError: a record without kernel or times, or that ends before it starts.
    """
    symbols = {one.get("kernel_id"): _name(one) for one in _listed(process, "kernel_symbols")}
    records = process.get("buffer_records")
    for record in _listed(records if isinstance(records, dict) else {}, "kernel_dispatch"):
        try:
            told = record["dispatch_info"]
            start, end = int(record["start_timestamp"]), int(record["end_timestamp"])
            name = symbols[told["kernel_id"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ReportError(f"a dispatch of the JSON is damaged ({error})") from None
        if end < start:
            raise ReportError("a dispatch of the JSON ends before it starts; it is damaged")
        agent = agents.get(_handle(told.get("agent_id")))
        index = agent.index if agent is not None and agent.index is not None else -1
        grid, block = (_extent(told.get(f"{of}_size")) for of in ("grid", "workgroup"))
        groups = None
        if grid and block:  # the tool counts threads of the whole grid
            groups = ",".join(
                str(-(-whole // max(size, 1))) for whole, size in zip(grid, block, strict=True)
            )
        shown = ",".join(map(str, block)) if block else None
        yield at, index, _handle(told.get("queue_id")), name, start, end, groups, shown


def _agents(process: dict[str, Any]) -> dict[Any, DeviceInfo]:
    """The GPUs of a process by their handles."""
    found = {}
    for agent in _listed(process, "agents"):
        node = agent.get("node_id")
        if agent.get("type") != _GPU or not isinstance(node, int):
            continue
        name = str(agent.get("product_name") or agent.get("name") or "")[:200]
        units = agent.get("cu_count")
        found[_handle(agent.get("id"))] = DeviceInfo(
            index=node, name=name, units=units if isinstance(units, int) else None
        )
    return found


def _listed(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    values = document.get(name)
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _name(symbol: dict[str, Any]) -> str:
    text = next((str(symbol[name]) for name in _NAMES if symbol.get(name)), "unnamed")
    return text.removesuffix(".kd")[:MAX_NAME_CHARS]


def _handle(value: Any) -> int:
    """The number of a handle, -1 where there is none."""
    number = value.get("handle") if isinstance(value, dict) else None
    return number if isinstance(number, int) and 0 <= number < 2**62 else -1


def _extent(value: Any) -> tuple[int, int, int] | None:
    try:
        return int(value["x"]), int(value["y"]), int(value["z"])
    except (KeyError, TypeError, ValueError):
        return None

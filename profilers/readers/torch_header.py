"""The header of a torch trace: versions, the devices, and what Ridgeline wrote of its own run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profilers.schema import OWN_RUN, DeviceInfo

#: Header fields that are shown; others may name hosts, users and paths.
FACTS = (
    "schemaVersion",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "hip_driver_version",
    "cupti_version",
    "roctracer_version",
)
#: Facts that Ridgeline writes into the traces of its own runs, with their types.
_OWN = {"device": str, "model": str, "engine": str, "dtype": str, "batch": int, "isl": int,
        "osl": int}  # fmt: skip


def facts_of(header: Mapping[str, Any]) -> dict[str, str | int | float]:
    """The facts of a header that are shown: of `FACTS`, of a distributed run, of an own run."""
    facts = {k: header[k] for k in FACTS if isinstance(header.get(k), (int, float, str))}
    return facts | _distributed(header.get("distributedInfo")) | _own_run(header.get(OWN_RUN))


def _own_run(told: Any) -> dict[str, str | int | float]:
    """The facts that a run of Ridgeline wrote into the trace, as "run_batch" and so on."""
    known = told if isinstance(told, dict) else {}
    return {
        f"run_{name}": known[name][:200] if kind is str else known[name]
        for name, kind in _OWN.items()
        if isinstance(known.get(name), kind) and (kind is str or known[name] > 0)
    }


def _distributed(info: Any) -> dict[str, str | float | int]:
    """World size, rank and backend of a distributed run."""
    wanted = ("backend", "rank", "world_size", "nccl_version")
    fields = info if isinstance(info, dict) else {}
    return {key: fields[key] for key in wanted if isinstance(fields.get(key), (int, str))}


def devices_of(header: Mapping[str, Any], used: Sequence[Any]) -> tuple[DeviceInfo, ...]:
    """The devices that ran kernels, named by `deviceProperties`; all of these where none ran.

    used: numbers of the devices that ran kernels.

    ROCm numbers devices differently for kernels and for properties; with a single device there is
    no ambiguity.
    """
    known_devices = {
        p.get("id"): p for p in header.get("deviceProperties") or [] if isinstance(p, dict)
    }
    used = used or list(known_devices)
    only = next(iter(known_devices.values())) if len(known_devices) == 1 else {}
    return tuple(
        _device(index, known_devices.get(index) or (only if len(used) == 1 else {}))
        for index in used
    )


def _device(index: Any, properties: dict[str, Any]) -> DeviceInfo:
    major, minor = properties.get("computeMajor"), properties.get("computeMinor")
    units, memory = properties.get("numSms"), properties.get("totalGlobalMem")
    return DeviceInfo(
        index=index if isinstance(index, int) else None,
        name=str(properties.get("name", ""))[:200],
        units=units if isinstance(units, int) else None,
        memory_bytes=float(memory) if isinstance(memory, int) else None,
        compute_capability=f"{major}.{minor}" if isinstance(major, int) else None,
    )

"""The processor, memory and GPUs of this machine, as the operating system and NVML state them."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML describes it."""

    index: int
    name: str
    memory_bytes: int
    driver: str


@dataclass(frozen=True, slots=True)
class Cpu:
    """The processor.  cores: those that this process may use."""

    name: str
    cores: int
    clock_hz: float | None
    l3_bytes: int | None
    memory_bytes: int


def gpus() -> list[Gpu]:
    """The GPUs that NVML lists; none without a driver or NVML."""
    import importlib.util

    if importlib.util.find_spec("pynvml") is None:
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        return [_gpu(pynvml, index, driver) for index in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int, driver: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
    return Gpu(index, str(nvml.nvmlDeviceGetName(handle)), int(memory), driver)


def cpu() -> Cpu:
    """The processor of this machine, as the operating system describes it."""
    fields = _cpuinfo()
    megahertz = fields.get("cpu MHz")
    return Cpu(
        name=fields.get("model name") or platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        clock_hz=float(megahertz) * 1e6 if megahertz else None,
        l3_bytes=_l3_bytes(),
        memory_bytes=_memory_bytes(),
    )


# ------------------------------------------------------------------------------- the system


def _cpuinfo() -> dict[str, str]:
    """The first processor's fields of /proc/cpuinfo; empty elsewhere."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _l3_bytes() -> int | None:
    """Size of the largest cache of processor 0, from sysfs."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        factor = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KMG")) * factor)
    return max(sizes, default=None)


def _memory_bytes() -> int:
    """Physical memory, or the limit that the control group sets where that is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text(encoding="ascii").strip()).isdigit():
        return min(total, int(text))
    return total


def available_bytes() -> float | None:
    """Memory that can be allocated without swapping; None where the system does not state it."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else float(kib) * 1024.0

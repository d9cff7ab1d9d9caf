"""Power, clocks, memory and temperature of a GPU during a run, sampled by NVML."""

from __future__ import annotations

import importlib.util
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Samples of a GPU during a run; a series is empty where the GPU does not report it."""

    power_w: tuple[float, ...] = ()
    sm_clock_hz: tuple[float, ...] = ()
    memory_clock_hz: tuple[float, ...] = ()
    memory_bytes: tuple[float, ...] = ()
    temperature_c: tuple[float, ...] = ()
    interval_s: float = _INTERVAL_S

    def summary(self) -> dict[str, float]:
        """Mean and maximum of each series with samples."""
        figures: dict[str, float] = {}
        for name in ("power_w", "sm_clock_hz", "memory_clock_hz", "memory_bytes", "temperature_c"):
            series = getattr(self, name)
            if series:
                figures[f"{name}_mean"] = statistics.fmean(series)
                figures[f"{name}_max"] = max(series)
        return figures


@contextmanager
def watch(device: Any) -> Iterator[Callable[[], DeviceUse | None]]:
    """Sample the GPU of a torch device in a thread while the block runs.

    Yields a function that returns the samples after the block; None where NVML has no such GPU.
    """
    sampler = _Sampler.for_device(device)
    if sampler is None:
        yield lambda: None
        return
    thread = threading.Thread(target=sampler.run, name="nvml", daemon=True)
    thread.start()
    try:
        yield sampler.use
    finally:
        sampler.stop.set()
        thread.join(timeout=2.0)
        sampler.close()


@dataclass(slots=True)
class _Sampler:  # needs a GPU
    nvml: Any
    handle: Any
    stop: threading.Event = field(default_factory=threading.Event)
    series: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def for_device(cls, device: Any) -> _Sampler | None:
        """The sampler of a torch device; None where NVML sees no such GPU."""
        if device.type != "cuda" or importlib.util.find_spec("pynvml") is None:
            return None
        import pynvml
        import torch

        try:
            pynvml.nvmlInit()
            identity = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(identity.encode()))
        except (pynvml.NVMLError, AttributeError):
            return None

    def run(self) -> None:
        while not self.stop.is_set():
            self.sample()
            self.stop.wait(_INTERVAL_S)

    def sample(self) -> None:
        """Append a reading of each figure that the GPU reports."""
        nvml, handle = self.nvml, self.handle
        readings: dict[str, Callable[[], float]] = {
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "sm_clock_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6,
            "memory_clock_hz": lambda: (
                nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * 1e6
            ),
            "memory_bytes": lambda: float(nvml.nvmlDeviceGetMemoryInfo(handle).used),
            "temperature_c": lambda: float(
                nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
        }
        for name, read in readings.items():
            try:
                self.series.setdefault(name, []).append(read())
            except nvml.NVMLError:
                continue

    def use(self) -> DeviceUse:
        series = {name: tuple(values) for name, values in self.series.items()}
        return DeviceUse(**series, interval_s=_INTERVAL_S)  # type: ignore[arg-type]

    def close(self) -> None:
        try:
            self.nvml.nvmlShutdown()
        except self.nvml.NVMLError:
            return

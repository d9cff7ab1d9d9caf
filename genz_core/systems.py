"""Accelerators and the links between them, as datasheets state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from genz_core.common.short_repr import clipped, listed
from genz_core.devices.memory_levels import MemoryLevel
from genz_core.devices.topology_kinds import SWITCH, Topology
from genz_core.errors import MissingSpec

if TYPE_CHECKING:
    from genz_core.latency.profile import LatencyProfile


@dataclass(frozen=True, slots=True)
class Link:
    """A tier of interconnect.

    bytes_per_s: per device and direction, all its links together.  latency_s: per message.
    domain: devices reached without leaving the tier (8 in an HGX node, 72 in NVL72; 0 for no
    limit).  in_network: its switches reduce (NVLink SHARP and similar).
    topology: how its devices are wired.  reached: share of the rate that remains after the
    protocol's overhead, where it is stated; otherwise None.
    """

    name: str
    bytes_per_s: float
    latency_s: float
    domain: int
    in_network: bool = False
    topology: Topology = SWITCH
    reached: float | None = None


@dataclass(frozen=True, slots=True)
class System:
    """An accelerator and its links to others, from a datasheet; SI units.

    peak_flops_per_s: dense, by arithmetic type (fp64 fp32 tf32 bf16 fp16 fp8 int8 fp4 int4).
    compute_units: streaming multiprocessors, compute units or cores.
    peak_factor: what-if factor that the peaks contain: of each unit's rate, not of their number.
    boost_factor: highest clock over the clock of the stated peaks, 1 where unknown; bounds use it,
    expectations do not.
    second_memory: a slower memory that the device can read directly.
    links: scale-up first, scale-out last.  family: chips that share fitted efficiencies ("hopper").
    device_of: slug of the system whose device this one has, beside other links ("h100-sxm5-80gb"
    for an H800); "" where no other system has the same device.
    assumptions: figures of kind `assumed`, in words.  latency: fitted constants of its operators;
    None for the engine's defaults.  notes: how an ambiguous or partial name was understood; ignored
    when systems are compared.
    """

    slug: str
    name: str
    vendor: str
    kind: Literal["gpu", "cpu", "tpu", "npu", "igpu"]
    family: str
    peak_flops_per_s: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    second_memory: MemoryLevel | None = None
    l2_bytes: float | None = None
    l2_bytes_per_s: float | None = None
    compute_units: int | None = None
    peak_factor: float = 1.0
    clock_hz: float | None = None
    boost_factor: float = 1.0
    tdp_w: float | None = None
    links: tuple[Link, ...] = ()
    host_bytes_per_s: float | None = None
    host_memory_bytes: float | None = None
    host_memory_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    price_usd_per_hour: float | None = None
    assumptions: tuple[str, ...] = ()
    latency: LatencyProfile | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)
    device_of: str = ""

    def __repr__(self) -> str:
        peaks = listed((f"{name} {rate:.4g}" for name, rate in self.peak_flops_per_s.items()), 200)
        links = listed((f"{link.name} {link.bytes_per_s:.4g}" for link in self.links), 150)
        return (
            f"System({self.slug!r}, {clipped(self.name)!r}, {self.kind}, family {self.family!r}:\n"
            f"  peak_flops_per_s {peaks}\n"
            f"  memory_bytes {self.memory_bytes:.4g}, memory_bytes_per_s "
            f"{self.memory_bytes_per_s:.4g}, compute_units {self.compute_units}\n"
            f"  links {links or 'none'})"
        )

    @property
    def device_slug(self) -> str:
        """Slug under which the device itself was measured: its own, or that of `device_of`."""
        return self.device_of or self.slug

    def peak(self, compute: str) -> float:
        """Dense peak for an arithmetic type [FLOP/s].

        Raises:
            MissingSpec: the datasheet states none (for example fp8 on an A100).
        """
        try:
            return self.peak_flops_per_s[compute]
        except KeyError:
            stated = ", ".join(self.peak_flops_per_s)
            raise MissingSpec(
                f"{self.name} has no known dense {compute} peak (it has {stated}); choose another "
                "compute format, or add the figure to its YAML"
            ) from None

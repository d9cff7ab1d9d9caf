"""Schema of a system's YAML, and the conversion of its units to SI.

Every number has `value`, `source` (a key of the file's `sources`) and `kind`; see
`hardware_db.sourced_facts`.  Peaks are dense; a link's figure is per device and per direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from genz_core.devices.memory_levels import Held, MemoryLevel
from genz_core.devices.topology_kinds import SWITCH, Topology
from genz_core.errors import InvalidValue
from genz_core.latency.device import Device
from genz_core.systems import Link, System
from hardware_db.schema_errors import sentence
from hardware_db.sourced_facts import (
    GIBI,
    GIGA,
    MEBI,
    MEGA,
    MICRO,
    TERA,
    Count,
    Fact,
    Factor,
    Form,
    GbPerS,
    Gigabytes,
    Kind,
    Megabytes,
    Megahertz,
    Microseconds,
    OwnGbPerS,
    Price,
    Share,
    Source,
    Tflops,
    Watts,
    in_si,
)  # fmt: skip

Arithmetic = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4"]


class TopologyForm(Form):
    """How the devices of a tier are connected, with one source for all fields; see `Topology`."""

    form: Literal["switch", "rails", "mesh", "ring", "torus", "dragonfly", "pcie"]
    shape: tuple[int, ...] = ()
    closes_at: int = Field(default=0, ge=0)
    pod: int = Field(default=0, ge=0)
    oversubscription: float = Field(default=1.0, ge=1.0, le=100.0)
    nics: float = Field(default=0.0, ge=0.0, le=64.0)
    source: str
    kind: Kind
    note: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> TopologyForm:
        if (self.form == "torus") != bool(self.shape) or not all(d > 0 for d in self.shape):
            raise ValueError("only a torus has a shape, and it needs one: devices by dimension")
        if (self.form == "dragonfly" or self.oversubscription > 1.0) and not self.pod:
            raise ValueError("give pod: the devices of a dragonfly's group or below one switch")
        if self.kind in ("assumed", "derived") and not self.note:
            raise ValueError(f"a topology of kind {self.kind} needs a note that says how")
        return self

    def topology(self) -> Topology:
        """The topology in the engine's types."""
        return Topology(
            self.form, self.shape, self.closes_at, self.pod, self.oversubscription, self.nics
        )


class LinkForm(Form):
    """A tier of interconnect.  domain: devices reached without leaving it, 0 for no limit.

    topology: a switch if not stated.  reached: share of the rate that remains after the protocol's
    overhead.
    """

    name: str
    gb_per_s: GbPerS
    latency_us: Microseconds
    domain: Count
    in_network: bool = False
    topology: TopologyForm | None = None
    reached: Share | None = None

    @model_validator(mode="after")
    def _whole_domain(self) -> LinkForm:
        shape = () if self.topology is None else self.topology.shape
        if shape and math.prod(shape) != self.domain.value:
            raise ValueError(
                f"topology.shape {shape} has {math.prod(shape)} devices, "
                f"domain {self.domain.value:g}; make them agree"
            )
        return self


class Links(Form):
    """Tiers of interconnect, nearest first: scale-up, the rest of the node, the fabric."""

    scale_up: LinkForm | None = None
    node: LinkForm | None = None
    scale_out: LinkForm | None = None


class Host(Form):
    """Link to host memory, per direction, and a device's share of the reference node.

    memory_gib, memory_gb_per_s and disk_gb_per_s are per device; a device that shares the
    host's memory has none.
    """

    name: str = ""
    gb_per_s: GbPerS | None = None
    memory_gib: Gigabytes | None = None
    memory_gb_per_s: GbPerS | None = None
    disk_gb_per_s: GbPerS | None = None


class SecondMemoryForm(Form):
    """A slower memory that the device can read directly.

    See `genz_core.devices.memory_levels.MemoryLevel`.

    memory_gib, gb_per_s: a device's share, and the rate at which it can be read: the smaller of the
    memory's and its link's.  holds: "weights", "cache" or both.  reached: share of that rate.
    """

    name: str = Field(min_length=2, max_length=60)
    memory_gib: Gigabytes
    gb_per_s: GbPerS
    holds: tuple[Held, ...] = Field(default=("weights", "cache"), min_length=1)
    reached: Share | None = None

    def level(self) -> MemoryLevel:
        """The memory in the engine's types."""
        size, rate = self.memory_gib.value * GIBI, self.gb_per_s.value * GIGA
        return MemoryLevel(self.name, size, rate, self.holds, in_si(self.reached, 1.0))


class Prices(Form):
    """Price of the device at launch, and hourly rents, with one key per market.

    usd_per_hour: what the author of the file pays; it takes precedence over any market.
    """

    launch_usd: Price | None = None
    usd_per_hour: Price | None = None
    on_demand_usd_per_hour: Price | None = None
    reserved_usd_per_hour: Price | None = None
    marketplace_usd_per_hour: Price | None = None

    def rents(self) -> dict[str, Price]:
        """{market: price of an hour}, starting with the one that counts: "own", "on_demand" and so
        on.
        """
        markets = {
            "own": self.usd_per_hour,
            "on_demand": self.on_demand_usd_per_hour,
            "reserved": self.reserved_usd_per_hour,
            "marketplace": self.marketplace_usd_per_hour,
        }
        return {market: price for market, price in markets.items() if price is not None}


class Instance(Form):
    """An instance type of a cloud.  devices: number of devices.  usd_per_hour: of the whole
    instance.
    """

    name: str = Field(min_length=2)
    cloud: str
    devices: int = Field(ge=1)
    source: str
    usd_per_hour: Price | None = None


class SystemRecord(Form):
    """A system as its YAML states it: every figure with its source and kind.

    boost_factor: highest clock, stated or measured, over the clock of the peaks; 1 if absent.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")
    name: str = Field(min_length=2, max_length=120)
    vendor: str
    kind: Literal["gpu", "cpu", "tpu", "npu", "igpu"]
    family: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    #: The system whose device this one has, beside other links or another host; found from what the
    #: document includes.
    device_of: str = ""
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: dict[str, Source]
    peak_dense_tflops: dict[Arithmetic, Tflops] = Field(min_length=1)
    memory_type: str | None = None
    memory_gb: Gigabytes | None = None
    memory_gib: Gigabytes | None = None
    memory_gb_per_s: OwnGbPerS
    second_memory: SecondMemoryForm | None = None
    l2_mb: Megabytes | None = None
    l2_mib: Megabytes | None = None
    l2_gb_per_s: GbPerS | None = None
    units: Count | None = None
    clock_mhz: Megahertz | None = None
    boost_factor: Factor | None = None
    tdp_w: Watts | None = None
    links: Links = Links()
    host: Host = Host()
    price: Prices = Prices()
    instances: tuple[Instance, ...] = ()

    @model_validator(mode="after")
    def _one_size_each(self) -> SystemRecord:
        if (self.memory_gb is None) == (self.memory_gib is None):
            raise ValueError("give either memory_gb (1e9 bytes) or memory_gib (2**30 bytes)")
        if self.l2_mb is not None and self.l2_mib is not None:
            raise ValueError("give l2_mb or l2_mib, not both")
        second, first = self.second_memory, self.memory_gb_per_s.value
        if second is not None and second.gb_per_s.value > first:
            raise ValueError(
                f"second_memory.gb_per_s ({second.gb_per_s.value:g}) is above memory_gb_per_s "
                f"({first:g}): the first memory is the faster one"
            )
        return self

    @model_validator(mode="after")
    def _sources_exist(self) -> SystemRecord:
        for path, fact in self.figures():
            if fact.source not in self.sources:
                names = ", ".join(self.sources) or "none"
                raise ValueError(f"{path}: source {fact.source!r} is not in sources ({names})")
        for _, tier in self.tiers():
            if tier.topology is not None and tier.topology.source not in self.sources:
                raise ValueError(
                    f"{tier.name}: source {tier.topology.source!r} of its topology is not in "
                    f"sources ({', '.join(self.sources)})"
                )
        return self

    @model_validator(mode="after")
    def _formats_in_order(self) -> SystemRecord:
        peaks: dict[str, float] = {k: fact.value for k, fact in self.peak_dense_tflops.items()}
        for wide, narrow in (("bf16", "fp8"), ("fp8", "fp4"), ("bf16", "fp4")):
            if peaks.get(narrow, float("inf")) < 0.99 * peaks.get(wide, 0.0):
                raise ValueError(
                    f"peak_dense_tflops: {narrow} ({peaks[narrow]:g}) is below {wide} "
                    f"({peaks[wide]:g}); leave out formats that the hardware only emulates"
                )
        return self

    def figures(self) -> Iterator[tuple[str, Fact]]:
        """Every number with its path in the file ("links.scale_up.gb_per_s"), in order."""
        yield from _figures("", {key: getattr(self, key) for key in type(self).model_fields})

    def tiers(self) -> list[tuple[str, LinkForm]]:
        """The tiers of interconnect with their keys ("scale_up"), nearest first."""
        names = ("scale_up", "node", "scale_out")
        stated = ((name, getattr(self.links, name)) for name in names)
        return [(name, tier) for name, tier in stated if tier is not None]

    def system(self) -> System:
        """The system in the engine's types, SI units; without latency constants."""
        stated = System(
            slug=self.id,
            name=self.name,
            vendor=self.vendor,
            kind=self.kind,
            family=self.family,
            device_of=self.device_of,
            peak_flops_per_s={k: f.value * TERA for k, f in self.peak_dense_tflops.items()},
            memory_bytes=in_si(self.memory_gb, GIGA) or in_si(self.memory_gib, GIBI) or 0.0,
            memory_bytes_per_s=self.memory_gb_per_s.value * GIGA,
            second_memory=None if self.second_memory is None else self.second_memory.level(),
            l2_bytes=in_si(self.l2_mb, MEGA) or in_si(self.l2_mib, MEBI),
            l2_bytes_per_s=in_si(self.l2_gb_per_s, GIGA),
            compute_units=None if self.units is None else int(self.units.value),
            clock_hz=in_si(self.clock_mhz, MEGA),
            boost_factor=in_si(self.boost_factor, 1.0) or 1.0,
            tdp_w=in_si(self.tdp_w, 1.0),
            links=tuple(_link(tier) for _, tier in self.tiers()),
            host_bytes_per_s=in_si(self.host.gb_per_s, GIGA),
            host_memory_bytes=in_si(self.host.memory_gib, GIBI),
            host_memory_bytes_per_s=in_si(self.host.memory_gb_per_s, GIGA),
            disk_bytes_per_s=in_si(self.host.disk_gb_per_s, GIGA),
            price_usd_per_hour=in_si(next(iter(self.price.rents().values()), None), 1.0),
            assumptions=tuple(_assumptions(self)),
        )
        return replace(stated, assumptions=(*stated.assumptions, *Device.of(stated).assumed))


def system_record(data: Mapping[str, Any], label: str = "the system") -> SystemRecord:
    """The validated record of a document.  label: its name in messages.

    Raises:
        InvalidValue: one sentence that names the key, what is wrong and what is expected.
    """
    try:
        return SystemRecord.model_validate(dict(data))
    except ValidationError as error:
        raise InvalidValue(sentence(error, label, SystemRecord)) from None


def _link(tier: LinkForm) -> Link:
    return Link(
        name=tier.name,
        bytes_per_s=tier.gb_per_s.value * GIGA,
        latency_s=tier.latency_us.value * MICRO,
        domain=int(tier.domain.value),
        in_network=tier.in_network,
        topology=SWITCH if tier.topology is None else tier.topology.topology(),
        reached=in_si(tier.reached, 1.0),
    )


def _figures(path: str, node: object) -> Iterator[tuple[str, Fact]]:
    """Facts below a node with their paths, depth first."""
    if isinstance(node, Fact):
        yield path, node
        return
    if isinstance(node, BaseModel):
        node = {key: getattr(node, key) for key in type(node).model_fields}
    if isinstance(node, tuple):
        node = {child.name: child for child in node if isinstance(child, Instance)}
    if isinstance(node, Mapping):
        for key, child in node.items():
            yield from _figures(f"{path}.{key}" if path else str(key), child)


def _assumptions(record: SystemRecord) -> Iterator[str]:
    for path, fact in record.figures():
        if fact.kind == "assumed":
            yield f"{path} {fact.value:g}: {fact.note}"

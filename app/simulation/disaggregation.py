"""A pool of prefill workers as it is asked: a system, degrees, and the way of the cache."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from app.scenario.scenario import Resolved, SystemSource, basis, combined, find_system
from app.wording import quantities
from genz_core.deployment import Deployment, bulk_format
from genz_core.errors import InvalidParallelism, InvalidValue, MissingSpec
from genz_core.limits import checked_size
from genz_core.serving.disaggregation import (
    Balance,
    Disaggregation,
    ServingPool,
    Transfer,
    balance,
)
from genz_core.serving.options import Options
from genz_core.serving.simulation import Requests
from genz_core.speculative import Speculation
from genz_core.types import Link, System
from model_registry import in_formats

_BYTES_PER_GBIT = 1e9 / 8
_DEGREES = ("tp", "pp", "dp", "ep")
_ASKED = ("prefill_system", "prefill_workers")
_MOST = {"transfer_gbps": 1e6, "transfer_latency_us": 1e9}


@dataclass(frozen=True, slots=True)
class PrefillPool:
    """Workers that read the prompts, by the keywords of `ridgeline.simulate`; none by default.

    prefill_system: theirs, "" for that of the decode workers.  prefill_workers: their number; 0
    is one where a system is named, else no pool.  prefill_tp, _pp, _dp, _ep: degrees of one.
    prefill_weights: their weight format, "" for that of the decode workers.
    transfer_gbps: of a device's link in one direction [Gbit/s], 0 for the link that the systems
    state.  transfer_latency_us: of each prompt on top; None for that link's, none beside
    transfer_gbps.  layer_wise: each layer's cache is sent while later layers are computed.

    Raises:
        InvalidValue: a number outside of its range, or a field without a pool.
    """

    prefill_system: SystemSource | System = ""
    prefill_workers: int = 0
    prefill_tp: int = 1
    prefill_pp: int = 1
    prefill_dp: int = 1
    prefill_ep: int = 1
    prefill_weights: str = ""
    transfer_gbps: float = 0.0
    transfer_latency_us: float | None = None
    layer_wise: bool = False

    def __post_init__(self) -> None:
        if not self:
            self._refuse_fields()
            return
        checked_size("prefill_workers", self.prefill_workers or 1)
        for name in _DEGREES:
            checked_size(name, getattr(self, f"prefill_{name}"), f"prefill_{name}")
        for name, most in _MOST.items():
            value = getattr(self, name) or 0.0
            if not 0.0 <= value <= most:
                raise InvalidValue(f"{name} = {value:g}: give a number from 0 to {most:,.0f}")

    def __bool__(self) -> bool:
        return bool(self.prefill_system or self.prefill_workers)

    def beside(self, decode: Resolved, workers: int) -> Prefill | None:
        """The pool that reads for `workers` decode workers, None where none was asked.

        Raises:
            RidgelineError: an unknown system or format, degrees that do not divide the model, or
                no stated link between the pools.
        """
        if not self:
            return None
        degrees = {name: getattr(self, f"prefill_{name}") for name in _DEGREES}
        scenario = replace(decode.scenario, **degrees, cp=1, moe_tp=None)
        resolved = self._resolved(replace(decode, scenario=scenario))
        if complaint := resolved.model.invalid(scenario.parallelism):
            raise InvalidParallelism(f"prefill pool: {complaint}")
        own = self.prefill_workers or 1
        s = decode.scenario
        devices = workers * s.tp * s.pp * s.dp + own * scenario.tp * scenario.pp * scenario.dp
        transfer, way = self._way(resolved.system, decode.system, devices)
        return Prefill(resolved, own, transfer, way)

    def _resolved(self, decode: Resolved) -> Resolved:
        """Model, system and engine of the pool; the cache is in the format of the decode workers.

        decode: its own, with the pool's degrees.
        """
        if not (self.prefill_system or self.prefill_weights):
            return decode
        model, system = decode.model, decode.system
        if self.prefill_weights:
            model = in_formats(model, weights=self.prefill_weights, kv=model.precision.kv)
        if self.prefill_system:
            system = find_system(self.prefill_system)
        return combined(decode.scenario, model, system, engine=decode.profile)

    def _way(self, prefill: System, decode: System, devices: int) -> tuple[Transfer, str]:
        """The way of the cache, and its name in words."""
        latency_us = self.transfer_latency_us
        if self.transfer_gbps:
            rate, name = self.transfer_gbps * _BYTES_PER_GBIT, "a fabric as stated"
            latency_s = 0.0
        else:
            link = stated_link(prefill, decode, devices)
            rate, name, latency_s = link.bytes_per_s, link.name, link.latency_s
        if latency_us is not None:
            latency_s = latency_us * 1e-6
        transfer = Transfer(rate, latency_s, self.layer_wise)
        pace = ", layer by layer" if self.layer_wise else ""
        return transfer, (
            f"{name} ({quantities.bandwidth(rate)} a device, {quantities.seconds(latency_s)}{pace})"
        )

    def _refuse_fields(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in _ASKED and value != entry.default:
                raise InvalidValue(
                    f"{entry.name} = {value} without a prefill pool: name its system, or give "
                    "prefill_workers"
                )


#: Keywords of `PrefillPool`.
PREFILL = tuple(entry.name for entry in fields(PrefillPool))


def stated_link(prefill: System, decode: System, devices: int) -> Link:
    """The link that both systems state between `devices` of both pools.

    Pools of one system use the nearest tier that reaches all of them, others the slower of their
    outermost links.

    Raises:
        MissingSpec: a system states no link that reaches so far.
    """
    if (prefill.slug, prefill.links) == (decode.slug, decode.links):
        return _reaching(prefill, devices)
    outermost = (_reaching(prefill, 0), _reaching(decode, 0))
    return min(outermost, key=lambda link: link.bytes_per_s)


def _reaching(system: System, devices: int) -> Link:
    """The nearest tier of a system that reaches so many devices, 0 for those of other systems."""
    for link in system.links:
        if not link.domain or link.domain >= devices > 0:
            return link
    stated = ", ".join(f"{link.name} among {link.domain}" for link in system.links) or "none"
    wanted = f"both pools, {devices} devices" if devices else "another system"
    raise MissingSpec(
        f"{system.name} states no link that reaches {wanted} (its links: {stated}); give "
        "transfer_gbps"
    )


@dataclass(frozen=True, slots=True)
class Prefill:
    """A pool of prefill workers, found and deployed.

    resolved: theirs, with the degrees of one.  way: of the cache, in words.
    """

    resolved: Resolved
    workers: int
    transfer: Transfer
    way: str

    @property
    def devices(self) -> int:
        """Devices of all workers."""
        s = self.resolved.scenario
        return self.workers * s.tp * s.pp * s.dp

    @property
    def notes(self) -> list[str]:
        """What reads the prompts, on what constants, and the way of the cache, in words."""
        resolved = self.resolved
        each, weights = self.devices // self.workers, bulk_format(resolved.model)
        return [
            f"prompts are read by {self.workers} x {each} {resolved.system.name} ({weights}); "
            f"their cache travels over {self.way}",
            f"prefill pool: {basis(resolved)}",
        ]

    def disaggregation(self, options: Options) -> Disaggregation:
        """As the engine takes it.  options: of the decode workers, with this pool's step_scale.

        Sequences and tokens of the cache that an operator sets are those of the decode workers.
        """
        own = replace(options, max_num_seqs=0, kv_tokens=0.0)
        return Disaggregation(_pool(self.resolved, self.workers, own), self.transfer)

    def document(self) -> dict[str, Any]:
        """What was asked, as `ridgeline simulate --json` prints it."""
        s = self.resolved.scenario
        return {
            "system": self.resolved.system.slug,
            "workers": self.workers,
            **{name: getattr(s, name) for name in _DEGREES},
            "weights": bulk_format(self.resolved.model),
            "transfer_bytes_per_s": self.transfer.bytes_per_s,
            "transfer_latency_s": self.transfer.latency_s,
            "layer_wise": self.transfer.layer_wise,
        }


def matched(
    disaggregation: Disaggregation,
    decode: Resolved,
    workers: int,
    options: Options,
    requests: Requests,
    speculation: Speculation | None = None,
) -> Balance | None:
    """The balance of both pools for requests of the mean lengths; None where nothing is decoded.

    decode: of `workers` decode workers, with their options.
    """
    isl, osl = float(requests.input_tokens.mean()), float(requests.output_tokens.mean())
    if osl <= 1.0:
        return None
    pool = _pool(decode, workers, options)
    if speculation:
        pool = pool.drafting(speculation)
        prefill = disaggregation.prefill.drafting(speculation)
        disaggregation = replace(disaggregation, prefill=prefill)
    return balance(disaggregation, pool, isl, osl)


def balance_sentence(found: Balance) -> str:
    """How many prefill workers match a decode worker, and which pool decides."""
    return (
        f"{found.prefill_per_decode:.3g} prefill workers keep one decode worker full; with "
        f"{found.prefill_workers} and {found.decode_workers} the {found.slower} pool decides: at "
        f"most {found.requests_per_s:.3g} requests/s (closed form)"
    )


def _pool(resolved: Resolved, workers: int, options: Options) -> ServingPool:
    deployed = Deployment(resolved.model, resolved.system, resolved.engine)
    return ServingPool(deployed, resolved.scenario.parallelism, workers, options)

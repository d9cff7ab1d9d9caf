"""The prefill pool of a question: a system, degrees, and the transfer of the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.question.question import Question
from app.question.validity import has_pool
from app.scenario.known_systems import SystemSource, find_system
from app.scenario.scenario import Resolved, basis, combined, moved
from app.wording import quantities
from genz_core.deployment import Deployment, bulk_format
from genz_core.errors import InvalidParallelism, MissingSpec
from genz_core.models.speculative import Speculation
from genz_core.serving import ServingEstimate, Traffic
from genz_core.serving.disaggregation import (
    Balance,
    Disaggregation,
    ServingPool,
    Transfer,
    balance,
)
from genz_core.serving.options import Options
from genz_core.systems import Link, System
from genz_core.types import Num, Parallelism
from model_registry import in_formats

if TYPE_CHECKING:
    from genz_core.serving.simulation import Requests

_BYTES_PER_GBIT = 1e9 / 8
_DEGREES = ("tp", "pp", "dp", "ep")


def beside(decode: Resolved, prefill_system: SystemSource | System = "") -> Prefill | None:
    """The prefill pool of a question, None if it has none.

    decode: the question with its resolved decode workers.  prefill_system: replaces the question's
    name.

    Raises:
        RidgelineError: an unknown system or format, degrees that do not divide the model, or no
            stated link between the pools.
    """
    question = decode.scenario
    if not has_pool(question):
        return None
    degrees = {name: getattr(question, f"prefill_{name}") for name in _DEGREES}
    degrees |= _of_experts(question)
    scenario = replace(question, **degrees, cp=1)
    resolved = _resolved(replace(decode, scenario=scenario), prefill_system)
    if complaint := resolved.model.invalid(scenario.parallelism):
        raise InvalidParallelism(f"prefill pool: {complaint}")
    workers = question.prefill_workers or 1
    return Prefill(resolved, workers, *_way(question, resolved.system, decode.system))


def _of_experts(question: Question) -> dict[str, Any]:
    """Degrees of the experts of a prefill worker; only decode workers have copies of busy experts.

    Raises:
        InvalidParallelism: the degrees do not split the experts over its devices.
    """
    ranks = question.prefill_tp * question.prefill_dp
    ep, moe_tp = question.prefill_ep, question.prefill_moe_tp
    if moe_tp is not None and ep == 1 and ranks % moe_tp == 0:
        ep = ranks // moe_tp
    if moe_tp is not None and ep * moe_tp != ranks:
        raise InvalidParallelism(
            f"prefill pool: prefill_moe_tp x prefill_ep = {moe_tp} x {ep} must equal prefill_tp x "
            f"prefill_dp = {ranks}; leave prefill_moe_tp out"
        )
    return {"ep": ep, "moe_tp": None, "redundant_experts": 0}


def _devices(question: Question) -> int:
    """Devices of one deployment."""
    return question.tp * question.pp * question.dp


def devices_of(question: Question) -> tuple[int, int]:
    """Devices of a question: (in the prefill pool, 0 without one; all others)."""
    read = question.prefill_tp * question.prefill_pp * question.prefill_dp
    readers = (question.prefill_workers or 1) * read if has_pool(question) else 0
    return readers, question.replicas * _devices(question)


def _resolved(decode: Resolved, prefill_system: SystemSource | System) -> Resolved:
    """Model, system and engine of the pool; the cache has the format of the decode workers.

    decode: the decode workers, with the pool's degrees.
    """
    question, model, system = decode.scenario, decode.model, decode.system
    named = prefill_system or question.prefill_system
    if not (named or question.prefill_weights):
        return decode
    if question.prefill_weights:
        model = in_formats(model, weights=question.prefill_weights, kv=model.precision.kv)
    if named:
        system = find_system(named)
    return combined(question, model, system, engine=decode.profile)


def with_systems(resolved: Resolved, change: Callable[[System], System]) -> Resolved:
    """A deployment with its system, and that of its prefill pool, changed; see `moved`.

    Raises:
        RidgelineError: an unknown system, or what `change` raises.
    """
    changed = moved(resolved, change(resolved.system))
    named = resolved.prefill_system or resolved.scenario.prefill_system
    return replace(changed, prefill_system=change(find_system(named))) if named else changed


def transfer_of(
    question: Question, prefill: System, decode: System, devices: NDArray[np.int_]
) -> Transfer:
    """The transfer of the cache between pools of this many devices in all, a number or [loads].

    Raises:
        MissingSpec: as `stated_link`.
    """
    if question.transfer_gbps:
        rate: Num = question.transfer_gbps * _BYTES_PER_GBIT
        latency_s: Num = 0.0
    else:
        numbers, of = np.unique(devices, return_inverse=True)
        links = [stated_link(prefill, decode, int(number)) for number in numbers]
        rate, latency_s = (
            np.array([getattr(link, name) for link in links])[of.reshape(devices.shape)][()]
            for name in ("bytes_per_s", "latency_s")
        )
    if question.transfer_latency_us is not None:
        latency_s = question.transfer_latency_us * 1e-6
    # engines transfer the first token with the cache: the decode worker delivers it to the user
    return Transfer(rate, latency_s, question.layer_wise, shown_by="decode")


def _way(question: Question, prefill: System, decode: System) -> tuple[Transfer, str]:
    """The transfer of the cache, and its description."""
    devices = sum(devices_of(question))
    transfer = transfer_of(question, prefill, decode, np.array(devices))
    name = "the stated link"
    if not question.transfer_gbps:
        name = stated_link(prefill, decode, devices).name
    rate, latency_s = float(transfer.bytes_per_s), float(transfer.latency_s)
    pace = ", layer by layer" if question.layer_wise else ""
    return transfer, (
        f"{name} ({quantities.bandwidth(rate)} a device, {quantities.seconds(latency_s)}{pace})"
    )


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
    """The nearest tier of a system that connects this many devices, 0 for devices of another
    system.
    """
    for link in system.links:
        if not link.domain or link.domain >= devices > 0:
            return link
    stated = ", ".join(f"{link.name} among {link.domain}" for link in system.links) or "none"
    wanted = f"both pools, {devices} devices" if devices else "another system"
    raise MissingSpec(
        f"{system.name} has no known link that reaches {wanted} (its links: {stated}); give "
        "transfer_gbps"
    )


@dataclass(frozen=True, slots=True)
class Prefill:
    """A resolved pool of prefill workers.

    resolved: the pool, with the degrees of one worker.  way: description of the cache transfer.
    """

    resolved: Resolved
    workers: int
    transfer: Transfer
    way: str

    @property
    def devices(self) -> int:
        """Devices of all workers."""
        return self.workers * _devices(self.resolved.scenario)

    @property
    def notes(self) -> list[str]:
        """Notes on the prefill workers, the constants used for them, and the transfer of the
        cache.
        """
        resolved = self.resolved
        each, weights = self.devices // self.workers, bulk_format(resolved.model)
        return [
            f"prefill on {self.workers} x {each} {resolved.system.name} ({weights}); the KV cache "
            f"is sent over {self.way}",
            f"prefill pool: {basis(resolved)}",
        ]

    def disaggregation(self, options: Options) -> Disaggregation:
        """The pool in the engine's types.  options: of the decode workers, with this pool's
        step_scale.

        Limits on sequences and cache tokens that an operator sets apply only to the decode workers.
        """
        own = replace(options, max_num_seqs=0, kv_tokens=0.0)
        return Disaggregation(_pool(self.resolved, self.workers, own), self.transfer)

    def document(self) -> dict[str, Any]:
        """The pool's parameters, as `ridgeline simulate --json` prints them."""
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


def served(
    decode: Resolved, prefill: Prefill, load: Traffic, degrees: Parallelism
) -> ServingEstimate:
    """Serve a load with both pools in closed form, [loads]; a load that cannot be served has a
    reason code.

    decode: the question's replicas.  degrees: of one, numbers or arrays [loads].

    Raises:
        InvalidValue: as `genz_core.serving.series.serve_pools`.
    """
    from genz_core.serving.series import serve_pools

    question = decode.scenario
    site = Deployment(decode.model, decode.system, decode.engine)
    pool = ServingPool(site, degrees, question.replicas)
    devices = prefill.devices + question.replicas * np.asarray(degrees.devices, dtype=int)
    own = transfer_of(question, prefill.resolved.system, decode.system, devices)
    disaggregation = replace(prefill.disaggregation(Options()), transfer=own)
    return serve_pools(disaggregation, pool, load, on_error="status")


def matched(
    disaggregation: Disaggregation,
    decode: Resolved,
    options: Options,
    requests: Requests,
    speculation: Speculation | None = None,
) -> Balance | None:
    """The balance of both pools for requests of the mean lengths; None if nothing is decoded.

    decode: the question's replicas, with their options.
    """
    isl, osl = float(requests.input_tokens.mean()), float(requests.output_tokens.mean())
    if osl <= 1.0:
        return None
    pool = _pool(decode, decode.scenario.replicas, options)
    if speculation:
        pool = pool.drafting(speculation)
        prefill = disaggregation.prefill.drafting(speculation)
        disaggregation = replace(disaggregation, prefill=prefill)
    return balance(disaggregation, pool, isl, osl)


def balance_sentence(found: Balance) -> str:
    """How many prefill workers match a decode worker, and which pool limits the rate."""
    return (
        f"{found.prefill_per_decode:.3g} prefill workers match one decode worker; with "
        f"{found.prefill_workers} and {found.decode_workers} the {found.slower} pool is the "
        f"bottleneck: at most {quantities.request_rate(found.requests_per_s, 3)} (closed form)"
    )


def _pool(resolved: Resolved, workers: int, options: Options) -> ServingPool:
    deployed = Deployment(resolved.model, resolved.system, resolved.engine)
    return ServingPool(deployed, resolved.scenario.parallelism, workers, options)

"""A simulation of a scenario: the offered load drawn, served, and kept with what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

import numpy as np

from app.scenario.drafting import Drafting, drafted
from app.scenario.scenario import Resolved, basis
from app.scenario.served_rows import serve_resolved
from app.scenario.setup import Setup, resolve_setup
from app.simulation.disaggregation import Prefill, PrefillPool, balance_sentence, matched
from app.simulation.offered_load import OfferedLoad
from app.simulation.trace_file import Trace
from genz_core.deployment import recipe_key
from genz_core.errors import InvalidValue, UnknownName
from genz_core.model_kinds import check_one_by_one
from genz_core.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.serving.disaggregation import Balance
from genz_core.serving.simulation import SCHEDULERS, Options, Simulation, simulate
from genz_core.speculative import Speculation
from hardware_db import recipes
from hardware_db.recipes import StepScale

Routing = Literal["round_robin", "least_loaded", "prefix"]
ROUTERS: tuple[str, ...] = get_args(Routing)
#: Latencies that may have a target.
TARGETS = ("ttft_s", "tpot_s", "e2e_s")
#: What every simulated latency is, for documents and captions.
UNVALIDATED = "simulated latencies carry no interval: no measured percentiles have validated them"
_ALIKE = 0.005  # a correction that is not worth a word
_WAVES = (
    "a closed loop of equal lengths is served in waves, and TTFT is that of a wave: draw lengths "
    "with length_ratio 0.8, as public benchmarks do"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is simulated beside the scenario.

    options: of the engine.  replicas: equal deployments behind the router; with a prefill pool
    they decode.
    targets: most seconds of ttft_s, tpot_s and e2e_s, for goodput.
    step_scale: measured over priced time of a step; None for what was kept for this deployment.
    drafting: speculative decoding.  prefill: a pool that reads the prompts.
    """

    load: OfferedLoad
    options: Options = field(default_factory=Options)
    replicas: int = 1
    router: str = "least_loaded"
    targets: Mapping[str, float] = field(default_factory=dict)
    step_scale: float | None = None
    drafting: Drafting = field(default_factory=Drafting)
    prefill: PrefillPool = field(default_factory=PrefillPool)

    def __post_init__(self) -> None:
        named = self.router.replace("-", "_")
        if named not in ROUTERS:
            raise InvalidValue(f"router = {self.router!r}: choose {', '.join(ROUTERS)}")
        object.__setattr__(self, "router", named)
        if not 1 <= self.replicas <= 1024:
            raise InvalidValue(f"replicas = {self.replicas}: give a number from 1 to 1024")
        kept = {name: seconds for name, seconds in self.targets.items() if seconds}
        for name, seconds in kept.items():
            if name not in TARGETS or not seconds > 0:
                raise InvalidValue(f"target {name} = {seconds:g}: give seconds above 0")
        object.__setattr__(self, "targets", kept)
        _check_options(self.options)


@dataclass(frozen=True, slots=True)
class Run:
    """What a simulation came to.

    step_scale: that was applied; kept_scale: the user's calibration it came from, if any.
    ttft_correction: that was applied to simulated first tokens, see `measured_corrections`.
    speculation, prefill: what drafts and who reads the prompts, if anything does.
    prefill_scale: the user's calibration of these.  balance: of both pools.
    """

    resolved: Resolved
    settings: Settings
    drawn: Trace
    simulation: Simulation
    step_scale: float = 1.0
    kept_scale: StepScale | None = None
    speculation: Speculation | None = None
    prefill: Prefill | None = None
    prefill_scale: StepScale | None = None
    balance: Balance | None = None
    ttft_correction: float = 1.0

    @property
    def notes(self) -> list[str]:
        """What was assumed and done on the way, in words."""
        notes = [*self.drawn.notes, *self.refusals, *self.resolved.notes, basis(self.resolved)]
        if self.settings.load.in_waves:
            notes.insert(0, _WAVES)
        if self.kept_scale:
            notes.append(self.kept_scale.sentence)
        if abs(self.ttft_correction - 1.0) > _ALIKE:
            notes.append(
                f"measured runs near this load: simulated first tokens x {self.ttft_correction:.3g}"
            )
        return [*notes, *self._pools, UNVALIDATED]

    @property
    def _pools(self) -> list[str]:
        """What drafts, who reads the prompts, and how the pools match."""
        draft = self.speculation.draft if self.speculation else None
        drafting = [str(self.speculation), *(draft.notes if draft else ())]
        return [
            *(drafting if self.speculation else ()),
            *(self.prefill.notes if self.prefill else ()),
            *([f"prefill pool: {self.prefill_scale.sentence}"] if self.prefill_scale else ()),
            *([balance_sentence(self.balance)] if self.balance else ()),
        ]

    @property
    def refusals(self) -> list[str]:
        """A sentence on the requests that were refused, if any were."""
        refused = self.simulation.refused
        if not refused.any():
            return []
        requests = self.simulation.requests
        largest = (requests.input_tokens + requests.output_tokens)[refused].max()
        return [
            f"{int(refused.sum()):,} of {len(refused):,} requests do not fit the KV cache even "
            f"alone and were refused; the largest has {largest:,.0f} tokens"
        ]


def run(
    resolved: Resolved,
    settings: Settings,
    progress: Progress = silent,
    cancelled: Cancel = never,
    drawn: Trace | None = None,
) -> Run:
    """Draw the offered load and serve it.

    drawn: the requests, where the caller has them already.

    Raises:
        RidgelineError: as `OfferedLoad.drawn`, `Drafting.of`, `PrefillPool.beside` and
            `genz_core.serving.simulation.simulate`.
        Cancelled: `cancelled` said so before every request had ended.
    """
    check_one_by_one(resolved.model)
    speculation = settings.drafting.of(resolved.model)
    prefill = settings.prefill.beside(resolved, settings.replicas)
    drawn = drawn or settings.load.drawn(cancelled)
    options, correction, kept = _scaled(resolved, settings, drawn)
    disaggregation = balance = theirs = None
    if prefill:
        of_prompts, _, theirs = _scaled(prefill.resolved, settings, drawn)
        correction = 1.0  # no run with a pool of its own was measured
        disaggregation = prefill.disaggregation(of_prompts)
    simulation = simulate(
        resolved.model,
        resolved.system,
        drawn.requests,
        resolved.scenario.parallelism,
        resolved.engine,
        concurrency=settings.load.concurrency,
        options=options,
        replicas=settings.replicas,
        routing=cast(Routing, settings.router),
        speculation=speculation,
        disaggregation=disaggregation,
        seed=settings.load.seed,
        progress=lambda ended, of: progress(ended / of, f"{ended:,} of {of:,} requests"),
        cancelled=cancelled,
    )
    ended = int((simulation.ended | simulation.refused).sum())
    if ended < len(drawn.requests):
        raise Cancelled(f"{ended:,} of {len(drawn.requests):,} requests")
    if disaggregation:
        balance = matched(
            disaggregation, resolved, settings.replicas, options, drawn.requests, speculation
        )
    scale = cast(float, options.step_scale)
    return Run(
        resolved, settings, drawn, simulation.with_first_tokens(correction), scale, kept,
        speculation, prefill, theirs, balance, correction,
    )  # fmt: skip


def _scaled(
    resolved: Resolved, settings: Settings, drawn: Trace
) -> tuple[Options, float, StepScale | None]:
    """The options with the scale of a deployment's steps, the correction of its first tokens, and
    the user's calibration of the steps, which says nothing else of first tokens."""
    kept = None if settings.step_scale else kept_scale(resolved)
    if settings.step_scale or kept:
        scale, correction = settings.step_scale or (kept.scale if kept else 1.0), 1.0
    else:
        scale, correction = measured_corrections(resolved, settings, drawn)
    return replace(settings.options, step_scale=scale), correction, kept


def measured_corrections(
    resolved: Resolved, settings: Settings, drawn: Trace
) -> tuple[float, float]:
    """What measured runs near this load say of its steps and first tokens, as in the closed form.

    Measured over priced time of a step, and the factor on a TTFT whose steps have that scale.
    """
    recipe = resolved.engine.recipe
    if resolved.engine.neighbours is None:
        return recipe.tpot_scale, recipe.ttft_scale / recipe.tpot_scale
    requests, users = drawn.requests, settings.load.concurrency
    span = float(np.ptp(requests.arrival_s)) if len(requests) > 1 else 0.0
    open_loop = not users and span > 0
    alone = max((users or len(requests)) // settings.replicas, 1)
    lengths = (round(float(np.mean(x))) for x in (requests.input_tokens, requests.output_tokens))
    isl, osl = (max(length, 1) for length in lengths)
    served = serve_resolved(
        drafted(resolved, settings.drafting),
        concurrency=None if open_loop else alone,
        rate_per_s=len(requests) / span / settings.replicas if open_loop else None,
        isl=isl,
        osl=osl,
    )
    return float(served.tpot_scale[0]), float(served.ttft_correction[0])


def run_setup(
    asked: tuple[Setup, Settings], progress: Progress, cancelled: Cancel
) -> tuple[Setup, Run]:
    """As `run`, of a setup; returned with it, so that a page knows which it was."""
    setup, settings = asked
    return setup, run(resolve_setup(setup), settings, progress, cancelled)


def kept_scale(resolved: Resolved) -> StepScale | None:
    """The user's scale of the step of a deployment, if one was kept."""
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    return recipes.step_scale(key, resolved.scenario.parallelism)


def _check_options(options: Options) -> None:
    """Refuse options outside of their range.

    Raises:
        InvalidValue: the option and its value.
        UnknownName: a scheduler that there is none of.
    """
    least_most = {
        "max_num_seqs": (0, 10**6),
        "max_num_batched_tokens": (0, 10**8),
        "kv_tokens": (0, 10**12),
        "recv_interval": (1, 10**6),
        "memory_fraction": (0, 1),
    }
    for name, (least, most) in least_most.items():
        value = getattr(options, name)
        if not least <= value <= most:
            raise InvalidValue(f"{name} = {value:g}: give a number from {least:,} to {most:,}")
    if options.scheduler and options.scheduler not in SCHEDULERS:
        raise UnknownName("scheduler", options.scheduler, SCHEDULERS, ", ".join(SCHEDULERS))

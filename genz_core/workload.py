"""The estimate of a workload: its steps, its memory, and the figures derived from them.

ttft_s   prefill of the batch, to the first token
tpot_s   mean decode step over the output
e2e_s    ttft + tpot * (osl - 1)

An encoder only has the first; a diffusion model's steps are passes over prompt and answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from genz_core.alone.program import Alone
from genz_core.alone.program_choice import priced as priced_alone
from genz_core.capacity.memory import Memory, memory
from genz_core.capacity.offload import Offload, What, offload, second_memory
from genz_core.capacity.placement import placed
from genz_core.common.short_repr import clipped, counts, spans
from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.errors import ContextTooLong, InvalidParallelism, OutOfMemory
from genz_core.graphs import Model
from genz_core.measured_runs import SIZES
from genz_core.models.diffusion import denoising
from genz_core.models.model_kinds import generates
from genz_core.models.speculative import steps_per_token
from genz_core.phases import both_steps, outputs_of, prompts_of
from genz_core.schedule import (
    least_s,
)
from genz_core.steps.step_correction import StepCorrection, least_scale, step_correction
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
from genz_core.types import Array, Num, Parallelism, Workload
from genz_core.validity import OnError, check, columns, raise_for_status

OUT_OF_MEMORY = OutOfMemory.code
CONTEXT_TOO_LONG = ContextTooLong.code
#: Reason codes of configurations that keep their times, because they would run with enough memory.
WITH_TIMES = (OUT_OF_MEMORY, CONTEXT_TOO_LONG)
#: Modules that encode a prompt before the decoder.
ENCODERS = ("encoder.", "vision.")


@dataclass(frozen=True)
class Estimate:
    """A workload priced on a system; every figure is an array [configs].

    prefill: the step that processes the prompts.  decode: the mean step over the output.
    status: "ok" or a reason code per configuration; times and memory of invalid ones are NaN,
    except for codes in `WITH_TIMES`.
    correction: correction of the steps by measured runs, which the times include.
    complaints: {configuration: sentence} for reasons other than memory.
    offload: bytes moved off the device.  notes: assumptions, in words.
    """

    model: Model
    system: System
    engine: EngineProfile
    workload: Workload
    parallelism: Parallelism
    prefill: StepEstimate
    decode: StepEstimate
    correction: StepCorrection
    memory: Memory
    status: NDArray[np.str_]
    complaints: Mapping[int, str]
    offload: Offload | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def valid(self) -> NDArray[np.bool_]:
        """Whether each configuration has times: it can run, or only lacks memory."""
        timed: NDArray[np.bool_] = self.status == "ok"
        if timed.all():
            return timed
        for code in WITH_TIMES:
            timed |= self.status == code
        return timed

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether each configuration fits on its devices, after offload."""
        if self.offload is None:
            return self.memory.fits
        return self.offload.fits & self.valid

    @property
    def offloaded_bytes(self) -> Array:
        """Bytes of the fullest device that are in another memory, [configs]."""
        if self.offload is None:
            return np.zeros(self.status.shape)
        return self._masked(self.offload.host_bytes + self.offload.disk_bytes)

    @property
    def memory_bytes(self) -> Array:
        """Bytes on the fullest device, without those that are offloaded, [configs]."""
        return self.memory.total_bytes - self.offloaded_bytes

    def message(self, config: int = 0) -> str:
        """The sentence that explains a configuration's reason code; "" where it is "ok"."""
        if self.status[config] == OUT_OF_MEMORY:
            return self.memory.reason(config)
        return self.complaints.get(config, "")

    @property
    def messages(self) -> dict[int, str]:
        """`message` of every configuration that has one."""
        full = np.flatnonzero(self.status == OUT_OF_MEMORY)
        reasons = zip(full.tolist(), self.memory.reasons(full), strict=True)
        return {**self.complaints, **dict(reasons)}

    def raise_for_status(self, ignore: Collection[str] = ()) -> None:
        """Raise the error of the first configuration that cannot run.

        ignore: reason codes that raise nothing, such as `OUT_OF_MEMORY` where times are wanted
        anyway.

        Raises:
            InvalidParallelism, OutOfMemory: see `estimate`.
        """
        raise_for_status(self.status, self.message, ignore)

    @cached_property
    def ttft_s(self) -> Array:
        """Prefill of the batch, to the first token [s], without a server."""
        return self._masked(self.prefill.total_s * self._first_passes)

    @cached_property
    def tpot_s(self) -> Array:
        """Mean time per output token after the first [s]: that of a decode step, less with accepted
        draft tokens; NaN where there is none, for one output token and for an encoder.
        """
        return self._after_first(self._per_token(self.decode.total_s))

    @cached_property
    def e2e_s(self) -> Array:
        """Time of the whole batch, ttft + tpot * (osl - 1) [s]; for an encoder, its single pass."""
        return self._until_last(self.ttft_s, self.tpot_s)

    @property
    def output_tokens_per_s(self) -> Array:
        """Output tokens per second of the whole deployment, batch * osl tokens in e2e seconds; NaN
        for an encoder.
        """
        tokens = np.asarray(self.workload.batch) * self.workload.osl / self.e2e_s
        return tokens if generates(self.model) else np.full_like(tokens, np.nan)

    @property
    def sequences_per_s(self) -> Array:
        """Sequences per second of the whole deployment, batch sequences in e2e seconds."""
        return np.asarray(self.workload.batch, dtype=float) / self.e2e_s

    @property
    def encoder_s(self) -> Array:
        """Encoder time within TTFT, for models with an encoder [s]; otherwise 0."""
        rows = np.array([op.module.startswith(ENCODERS) for op in self.prefill.outline.ops])
        return self._masked(self.prefill.operators_s[rows].sum(0))

    @property
    def devices(self) -> Num:
        """Devices of the whole deployment."""
        return self.parallelism.devices

    @property
    def bound_ttft_s(self) -> Array:
        """Least time of the prefill [s]."""
        return self._masked(self.prefill.bound_total_s * self._first_passes)

    @property
    def bound_decode_step_s(self) -> Array:
        """Least time of the mean decode step [s], also where none runs; NaN for an encoder."""
        return self._per_token(self.decode.bound_total_s)

    @property
    def bound_tpot_s(self) -> Array:
        """Least mean time per output token after the first [s]; NaN where there is none."""
        return self._after_first(self.bound_decode_step_s)

    @property
    def bound_e2e_s(self) -> Array:
        """Least time of the whole batch [s]."""
        return self._until_last(self.bound_ttft_s, self.bound_tpot_s)

    def __repr__(self) -> str:
        figures = (
            ("ttft_s", self.ttft_s),
            ("tpot_s", self.tpot_s),
            ("output_tokens_per_s", self.output_tokens_per_s),
            ("memory_bytes", self.memory_bytes),
        )
        return (
            f"Estimate({clipped(self.model.name)} on {clipped(self.system.name)} "
            f"under {clipped(self.engine.name)}:\n"
            f"  {len(self.status):,} configurations, {counts(self.status.tolist())}\n"
            f"  {spans(figures)})"
        )

    @property
    def _first_passes(self) -> Array:
        refined, osl = denoising(self.model), np.asarray(self.workload.osl, dtype=float)
        return np.ones_like(osl) if refined is None else refined.passes(osl)[0]

    @property
    def _gaps(self) -> Array:
        """Gaps between the output tokens of a sequence."""
        return np.asarray(self.workload.osl) - 1.0

    def _per_token(self, step_s: Array) -> Array:
        each = step_s * steps_per_token(self.model, self.workload.osl)
        return self._masked(each) if generates(self.model) else np.full_like(each, np.nan)

    def _after_first(self, token_s: Array) -> Array:
        return np.where(self._gaps > 0.0, token_s, np.nan)

    def _until_last(self, first_s: Array, token_s: Array) -> Array:
        return first_s + np.where(self._gaps > 0.0, token_s * self._gaps, 0.0)

    def _masked(self, values: Array) -> Array:
        """The values, NaN for configurations that have no times."""
        return np.where(self.valid, values, np.nan)


def estimate(
    model: Model,
    system: System,
    workload: Workload | None = None,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
    spill: What | None = None,
    *,
    on_error: OnError = "raise",
) -> Estimate:
    """Estimate of a static batch: prefill, decode, memory and figures derived from them.

    Args:
        workload, parallelism: numbers, or arrays [configs].
        engine: the generic one by default.
        spill: move what does not fit to host memory or disk, "weights",
            "kv" or "experts", or weights and cache to the system's second memory, "levels", at
            its cost.
        on_error: "raise" the error of the first configuration that cannot run, or give each a
            reason code in its "status"; one that does not fit then keeps its times.

    Raises:
        InvalidValue: a size below one, or one that is not a whole number.
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: a configuration that does not fit.
    """
    workload, parallelism = workload or Workload(), parallelism or Parallelism()
    if not generates(model):
        workload = replace(workload, osl=1)
    deployed = deploy(model, system, engine)
    model, engine = deployed.model, deployed.engine
    if spill is None and (alone := priced_alone(deployed, workload, parallelism, both_steps)):
        status = np.where(alone.memory.fits, "ok", OUT_OF_MEMORY)
        return _answered(deployed, workload, parallelism, alone, status, {}, None, on_error)
    checked = check(model, workload, parallelism)
    load, split = checked.workload, checked.parallelism
    second = spill == "levels" and second_memory(system) is not None
    weighed = memory(model, system, load, split, engine, second=second)
    spilled = second and np.any(weighed.second_bytes > 0)
    over = placed(deployed.executed, weighed, load, split, engine) if spilled else None
    first, later = both_steps(replace(deployed, placement=over), load, split)
    moved = offload(weighed, system, spill, later) if spill else None
    if moved is not None and over is not None:
        moved = replace(moved, cache_bytes=over.far_kv_bytes)
    fits = weighed.fits if moved is None else moved.fits
    sizes, read = _among_runs(load, split)
    least = least_scale(later.total_s, later.bound_total_s)
    learned = step_correction(engine, model, system, sizes, least, read)
    status = np.where((checked.status == "ok") & ~fits, OUT_OF_MEMORY, checked.status)
    steps = Alone(
        learned.of_step(_with_offload(first, moved), reads=True),
        learned.of_step(_with_offload(later, moved)),
        learned,
        weighed,
    )
    complaints = checked.complaints
    return _answered(deployed, workload, parallelism, steps, status, complaints, moved, on_error)


def _answered(
    deployed: Deployment,
    workload: Workload,
    parallelism: Parallelism,
    steps: Alone,
    status: NDArray[np.str_],
    complaints: Mapping[int, str],
    moved: Offload | None,
    on_error: OnError,
) -> Estimate:
    """The estimate, or the error of its first configuration that cannot run."""
    priced = Estimate(
        model=deployed.model,
        system=deployed.system,
        engine=deployed.engine,
        workload=workload,
        parallelism=parallelism,
        prefill=steps.prefill,
        decode=steps.decode,
        correction=steps.correction,
        memory=steps.memory.where(status != InvalidParallelism.code),
        offload=moved,
        status=status,
        complaints=complaints,
        notes=(*deployed.model.notes, *deployed.notes, *steps.correction.notes),
    )
    if on_error == "raise":
        priced.raise_for_status()
    return priced


def bounds(
    model: Model,
    system: System,
    workload: Workload,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> tuple[Array, Array]:
    """Least time of prefill and of the mean decode step [s], [configs] each.

    These are the bounds of `estimate` without its expected times, computed about twenty times as
    fast.

    Args:
        workload, parallelism: numbers or arrays [configs] that can run, see `estimate`.
        engine: decides the form of the model; the generic one by default.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    deployed, split = deploy(model, system, engine), parallelism or Parallelism()
    prompts, outputs = prompts_of(model, workload, split), outputs_of(model, workload, split)
    return least_s(deployed, prompts), least_s(deployed, outputs)


def _among_runs(load: Workload, split: Parallelism) -> tuple[Array, Array]:
    """Sizes for the comparison with measured runs, and the uncached tokens of a prompt."""
    numbers = columns(load, split)
    names = {"concurrency": "batch"}
    sizes = np.stack([numbers[names.get(name, name)] for name in SIZES], axis=-1)
    return sizes, np.maximum(numbers["isl"] - numbers["cached"], 1.0)


def _with_offload(step: StepEstimate, moved: Offload | None) -> StepEstimate:
    """Add the time of offload to the step's host time."""
    if moved is None:
        return step
    seconds = moved.seconds(step)
    return replace(step, host_s=step.host_s + seconds, moved_s=seconds)

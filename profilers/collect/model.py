"""Run a model with Hugging Face transformers and time its prefill and its decode steps.

The model is built from its config with random weights of the real shapes (times do not depend
on the values); it may be cut to a few layers and its times scaled back to all.  Prefill and each
decode step are timed separately, with the device synchronised at every clock reading.  Running out
of memory is a result, not a crash; a cancelled run keeps the repeats that were complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from genz_core.common.progress import Cancel, Cancelled, Progress, never, part, silent
from genz_core.errors import MeasurementError
from genz_core.types import Workload
from profilers.collect.clock import Clock
from profilers.collect.measured_model import (
    RunSettings,
    build,
    check_settings,
    device_facts,
    first_line,
    free_memory,
    is_out_of_memory,
    layer_count,
    libraries,
    pick_device,
    vocabulary,
)
from profilers.collect.nvtx_ranges import module_ranges, phase_range
from profilers.collect.operator_clock import (
    PhaseMark,
    fitted_to_steps,
    operator_rows,
    timed_operators,
)
from profilers.collect.power import DeviceUse, watch
from profilers.operators.aten_classes import kind_of
from profilers.schema import OPERATOR_COLUMNS, Measurement, PhaseTiming, table

__all__ = ["Cancelled", "ModelRun", "RunSettings", "one_request", "run_model", "run_scaled"]

PHASES = ("prefill", "decode")
#: Requests whose operators are timed one by one, run between the repeats that time whole steps.
_OPERATOR_ROUNDS = 3
#: A note is given when operators were scaled by more than this.
_SAID_BELOW = 0.98
#: Names of ranges during warm-up, chosen so that Nsight counts them in no phase.
_WARM_UP = ("warm-up", "warm-up")


@dataclass(frozen=True, slots=True)
class ModelRun:
    """A finished run.

    cancelled: it was stopped, and the measurement holds the repeats before that.
    use: power, clocks, memory and temperature of the GPU during the run, None where NVML sees none.
    """

    measurement: Measurement
    settings: RunSettings
    parameters: int
    out_of_memory: bool = False
    cancelled: bool = False
    use: DeviceUse | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def run_model(
    settings: RunSettings, progress: Progress = silent, cancelled: Cancel = never
) -> ModelRun:
    """Build, warm up and time a model.

    Raises:
        MeasurementError: torch or transformers is missing, the config cannot be built, the
            device is not present, or a setting has no meaning.
        Cancelled: `cancelled` returned True before the first repeat was complete.
    """
    check_settings(settings)
    libraries()
    device = pick_device(settings.device)
    progress(0.0, "building the model")
    parameters = 0
    try:
        model, layers = build(settings, device)
        parameters = sum(p.numel() for p in model.parameters())
        with watch(device) as use, module_ranges(model, settings.nvtx_modules):
            timed = _timed(model, settings, device, part(progress, 0.1, 0.9), cancelled)
        operators = timed.operators
        if settings.profile and not timed.cancelled and _needs_profiler(settings, device):
            progress(0.9, "profiling operators")
            traced = _profiled(model, settings, device)
            operators = traced if operators is None else operators
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise MeasurementError(f"the model does not run: {first_line(error)}") from None
        return _out_of_memory(settings, parameters, device)
    progress(1.0, "done")
    timed = replace(timed, operators=operators)
    return _finished(settings, device, timed, (parameters, layers), use())


def _finished(
    settings: RunSettings,
    device: Any,
    timed: _Timed,
    size: tuple[int, int],
    use: DeviceUse | None,
) -> ModelRun:
    torch, transformers = libraries()
    parameters, layers = size
    notes = [f"cut to {settings.layers} of {layers} layers"] if settings.layers else []
    if timed.cancelled:
        notes.append(f"cancelled after {timed.rounds} of {settings.repeats} repeats")
    operators, more = _within_steps(timed.operators, timed.phases, settings.osl)
    notes += more
    facts: dict[str, str | int | float] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": str(device),
        "dtype": settings.dtype,
        "attention": settings.attention,
        "threads": torch.get_num_threads(),
        "clock": timed.clock,
        "layers": settings.layers or layers,
        "parameters": parameters,
    }
    measured = Measurement(
        source="live",
        operators=operators,
        phases=timed.phases,
        system=device_facts(device),
        model=settings.name,
        engine="hf-compile" if settings.compile else "hf",
        workload=Workload(settings.batch, settings.isl, settings.osl),
        facts=facts,
        notes=tuple(notes),
    )
    return ModelRun(measured, settings, parameters, cancelled=timed.cancelled, use=use, facts=facts)


def run_scaled(
    settings: RunSettings, progress: Progress = silent, cancelled: Cancel = never
) -> ModelRun:
    """Run a model cut to `settings.layers` layers, and half of them, and scale to all of them.

    T(L) = T(n) + (L - n) (T(n) - T(n/2)) / (n - n/2), of steps and of each operator in them: the
    ends of the model are counted once.
    """
    from profilers.collect.torch_operators import scaled_to_all_layers

    whole = layer_count(settings)
    many = settings.layers
    few = many // 2
    if not 0 < few < many <= whole:
        raise MeasurementError(
            f"cut to {many} of {whole} layers: give an even number from 2 to {whole}"
        )
    large = run_model(settings, part(progress, 0.0, 0.6), cancelled)
    if large.out_of_memory:
        return large
    small = run_model(
        replace(settings, layers=few, trace_path=""), part(progress, 0.6, 1.0), cancelled
    )
    if small.out_of_memory:
        return small
    factor = (whole - many) / (many - few)
    phases = {
        name: PhaseTiming(
            name,
            tuple(
                max(t, t + factor * (t - small.measurement.phases[name].median_s))
                for t in timing.samples_s
            ),
            timing.basis,
        )
        for name, timing in large.measurement.phases.items()
    }
    note = f"measured with {many} and {few} of {whole} layers and scaled to all"
    operators = scaled_to_all_layers(
        large.measurement.operators, small.measurement.operators, factor
    )
    operators, more = _within_steps(operators, phases, settings.osl)
    facts = {**large.measurement.facts, "layers": whole, "layers_measured": many}
    measured = replace(
        large.measurement, operators=operators, phases=phases, facts=facts, notes=(note, *more)
    )
    return replace(large, measurement=measured)


# ------------------------------------------------------------------------------- timing


@dataclass(frozen=True, slots=True)
class _Timed:
    """operators: of one request, timed on the clock of the steps; None where that clock cannot time
    them.
    """

    phases: dict[str, PhaseTiming]
    rounds: int
    cancelled: bool
    clock: str
    operators: Any = None


def _timed(
    model: Any, settings: RunSettings, device: Any, progress: Progress, cancelled: Cancel
) -> _Timed:
    """Timings of both phases over the repeats that were complete."""
    clock = Clock.for_device(device)
    prefills: list[float] = []
    decodes: list[float] = []
    sums: list[Any] = []
    by_clock = settings.profile and _times_operators(settings, device)
    stopped = False
    rounds = settings.warmup + settings.repeats
    for number in range(rounds):
        stopped = cancelled()
        if stopped and not prefills:
            raise Cancelled(f"round {number + 1} of {rounds}")
        if stopped:
            break
        kept = number >= settings.warmup
        progress(number / rounds, f"{'run' if kept else 'warm-up'} {number + 1} of {rounds}")
        first, steps = one_request(model, settings, clock, PHASES if kept else _WARM_UP)
        if kept:
            prefills.append(first)
            decodes.extend(steps)
            if by_clock and len(sums) < _OPERATOR_ROUNDS:
                sums.append(timed_operators(partial(_marked, model, settings, clock), clock))
    basis = clock.basis
    phases = {"prefill": PhaseTiming("prefill", tuple(prefills), basis)}
    if decodes:
        phases["decode"] = PhaseTiming("decode", tuple(decodes), basis)
    operators = operator_rows(sums, kind_of) if sums else None
    return _Timed(phases, len(prefills), stopped, basis, operators)


def _marked(model: Any, settings: RunSettings, clock: Clock, mark: PhaseMark) -> None:
    """Run a request whose operators are timed inside the phases that `mark` opens."""
    one_request(model, settings, clock, mark=mark)


def _times_operators(settings: RunSettings, device: Any) -> bool:
    """Whether operators are called one by one on the processor, so that its clock can time them."""
    return device.type == "cpu" and not settings.compile


def _needs_profiler(settings: RunSettings, device: Any) -> bool:
    """Whether torch's profiler runs: for a trace, or where no clock here sees the operators."""
    return bool(settings.trace_path) or not _times_operators(settings, device)


def _within_steps(
    operators: Any, phases: Mapping[str, PhaseTiming], osl: int
) -> tuple[Any, list[str]]:
    """Operators scaled to take no longer than their steps, and what was scaled."""
    if operators is None:
        return table(OPERATOR_COLUMNS, {}, 0), []
    fitted, factors = fitted_to_steps(operators, phases, {"prefill": 1, "decode": osl - 1})
    notes = [
        f"operators of {phase} took {1 / factor:.3g} times the median step in the requests that "
        "timed them, and are scaled to it"
        for phase, factor in factors.items()
        if factor < _SAID_BELOW
    ]
    return fitted, notes


def one_request(
    model: Any,
    settings: RunSettings,
    clock: Clock,
    names: tuple[str, str] = PHASES,
    mark: PhaseMark | None = None,
) -> tuple[float, list[float]]:
    """Run a batch from prompt to last token: seconds of the prefill and of each decode step.

    names: names of the ranges around the prefill and each step, as a profiler shows them.
    mark: opens such a range, instead of `phase_range`.
    """
    import torch

    mark = mark or phase_range
    shape = (settings.batch, settings.isl)
    tokens = torch.randint(0, vocabulary(model), shape, device=clock.device)
    with torch.inference_mode(), mark(names[0]):
        start = clock.now()
        out = model(tokens, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
        prefill = clock.now() - start
    cache, steps = out.past_key_values, []
    for _ in range(settings.osl - 1):
        with torch.inference_mode(), mark(names[1]):
            start = clock.now()
            out = model(token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            steps.append(clock.now() - start)
        cache = out.past_key_values
    return prefill, steps


def _profiled(model: Any, settings: RunSettings, device: Any) -> Any:
    """A table of `OPERATOR_COLUMNS` from a request under the torch profiler."""
    from profilers.collect.torch_operators import ProfilerOptions, operator_table

    clock = Clock.for_device(device)
    options = ProfilerOptions(
        settings.trace_path, settings.activities, settings.memory, settings.stack,
        _about(settings, device),
    )  # fmt: skip
    return operator_table(lambda: one_request(model, settings, clock), device.type, options)


def _about(settings: RunSettings, device: Any) -> dict[str, str | int]:
    """Metadata written into a trace about its run; no folder of this machine."""
    sizes = {"batch": settings.batch, "isl": settings.isl, "osl": settings.osl}
    return {
        "device": device_facts(device).name,
        "model": Path(settings.name).name if Path(settings.name).is_absolute() else settings.name,
        "engine": "hf-compile" if settings.compile else "hf",
        "dtype": settings.dtype,
        **sizes,
    }


def _out_of_memory(settings: RunSettings, parameters: int, device: Any) -> ModelRun:
    """A run without timings, and a note on the size at which memory ran out."""
    free_memory(device)
    note = f"ran out of memory at batch {settings.batch}, isl {settings.isl}, osl {settings.osl}"
    empty = Measurement(
        source="live",
        operators=table(OPERATOR_COLUMNS, {}, 0),
        system=device_facts(device),
        model=settings.name,
        workload=Workload(settings.batch, settings.isl, settings.osl),
        notes=(note,),
    )
    return ModelRun(empty, settings, parameters, out_of_memory=True)

"""Time prefill and decode steps of a model at many sizes, interleaved.

A decode step is timed with a cache filled with constants, not by a prefill: times do not depend on
values, and the prefill of a long context would cost seconds.  Every point runs once a round, over
several rounds, so that a disturbance of the machine affects one round of many points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import MeasurementError
from profilers.collect.clock import Clock
from profilers.collect.measured_model import (
    RunSettings,
    build,
    check_settings,
    first_line,
    free_memory,
    is_out_of_memory,
    pick_device,
    refuse_overcommit,
    text_config,
    vocabulary,
)
from profilers.steps import VISIT, MeasuredStep, StepPoint


@dataclass(frozen=True, slots=True)
class StepRun:
    """Measured steps of a model.  parameters: of the model.  clock: "wall" or "cpu".

    cancelled: it was stopped; steps without samples did not run.
    """

    steps: tuple[MeasuredStep, ...]
    parameters: int
    clock: str
    threads: int
    cancelled: bool = False


def measure_steps(
    settings: RunSettings,
    points: Sequence[StepPoint],
    rounds: int = 3,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> StepRun:
    """Time every point `rounds` times; `settings` gives model, type, device and attention.

    A point that runs out of memory is not tried again, nor is any point with at least its batch and
    length.

    Raises:
        MeasurementError: the model cannot be built or does not run.
        Cancelled: `cancelled` returned True before any point was complete.
    """
    import torch

    check_settings(replace(settings, batch=1, isl=1))
    device = pick_device(settings.device)
    progress(0.0, "building the model")
    model, _ = build(settings, device)
    rota = _Rota(tuple(points), Clock.for_device(device))
    stopped = rota.warm_up(model, progress, cancelled)
    for number in range(rounds):
        stopped = stopped or rota.round(model, number, rounds, progress, cancelled)
    if stopped and not any(rota.samples):
        raise Cancelled("the first point")
    progress(1.0, "done")
    parameters = sum(entry.numel() for entry in model.parameters())
    basis, threads = rota.clock.basis, torch.get_num_threads()
    return StepRun(rota.measured(), parameters, basis, threads, stopped)


@dataclass(slots=True)
class _Rota:
    """Points with their samples, and those that ran out of memory or are skipped."""

    points: tuple[StepPoint, ...]
    clock: Clock
    samples: list[list[float]] = field(init=False)
    failed: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.samples = [[] for _ in self.points]

    def warm_up(self, model: Any, progress: Progress, cancelled: Cancel) -> bool:
        """Run the smallest point of each phase untimed; True where the run was stopped."""
        for phase in dict.fromkeys(point.phase for point in self.points):
            if cancelled():
                return True
            alike = [point for point in self.points if point.phase == phase]
            progress(0.0, f"warming up {phase}")
            _visit(model, min(alike, key=lambda p: p.batch * p.length), self.clock)
        return False

    def round(
        self, model: Any, number: int, rounds: int, progress: Progress, cancelled: Cancel
    ) -> bool:
        """Time every point that is not out of memory; True where the run was stopped."""
        for at, point in enumerate(self.points):
            if cancelled():
                return True
            if at in self.failed or at in self.skipped:
                continue
            share = (number + at / len(self.points)) / rounds
            progress(share, f"{point}, round {number + 1}")
            times = _visit(model, point, self.clock)
            if times is None:
                self.give_up(at)
            else:
                self.samples[at].extend(times)
        return False

    def give_up(self, at: int) -> None:
        """Mark a point as out of memory and skip all that are at least as large."""
        self.failed.add(at)
        lost = self.points[at]
        for other, point in enumerate(self.points):
            larger = point.batch >= lost.batch and point.length >= lost.length
            if point.phase == lost.phase and larger and other not in self.failed:
                self.skipped.add(other)

    def measured(self) -> tuple[MeasuredStep, ...]:
        return tuple(
            MeasuredStep(
                point,
                tuple(self.samples[at]) if at not in self.failed | self.skipped else (),
                at in self.failed,
                at in self.skipped,
            )
            for at, point in enumerate(self.points)
        )


def _visit(model: Any, point: StepPoint, clock: Clock) -> list[float] | None:
    """Seconds of each step of a visit to a point; None where memory ran out, or would."""
    import torch

    run = _prefill if point.phase == "prefill" else _decode
    try:
        if clock.device.type == "cpu":
            refuse_overcommit(step_bytes(model, point))
        with torch.inference_mode():
            return run(model, point, clock)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise MeasurementError(f"the model does not run: {first_line(error)}") from None
    free_memory(clock.device)
    return None


def step_bytes(model: Any, point: StepPoint) -> float:
    """Lower bound of a step's memory beside the weights: its cache (twice in decode) and the
    activations of a layer [B]."""
    config = text_config(model.config)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width = 2.0 * heads * dim * config.num_hidden_layers * model.dtype.itemsize
    new = point.length if point.phase == "prefill" else 1
    inner = float(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    rows = point.batch * new * (8.0 * config.hidden_size + 3.0 * inner) * model.dtype.itemsize
    return point.batch * point.length * width * (2.0 if point.phase == "decode" else 1.0) + rows


def _prefill(model: Any, point: StepPoint, clock: Clock) -> list[float]:
    import torch

    shape = (point.batch, point.length)
    tokens = torch.randint(0, vocabulary(model), shape, device=clock.device)
    start = clock.now()
    model(tokens, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(-1)
    return [clock.now() - start]


def _decode(model: Any, point: StepPoint, clock: Clock) -> list[float]:
    """Seconds of the decode steps of a visit, after a step to warm up."""
    import torch

    cache = filled_cache(model, point.batch, point.length - 1, clock.device)
    token = torch.zeros(point.batch, 1, dtype=torch.long, device=clock.device)
    times = []
    for _ in range(VISIT + 1):
        start = clock.now()
        out = model(token, past_key_values=cache, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        times.append(clock.now() - start)
    return times[1:]


def filled_cache(model: Any, batch: int, context: int, device: Any) -> Any:
    """A cache with `context` tokens per sequence: of constants where all layers are plain
    attention, else filled by a prefill."""
    import torch
    import transformers

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = transformers.DynamicCache(config=config)
    kinds = {type(layer).__name__ for layer in cache.layers}
    latent = getattr(config, "kv_lora_rank", None)
    if latent or kinds - {"DynamicLayer"}:
        tokens = torch.zeros(batch, context, dtype=torch.long, device=device)
        return model(tokens, use_cache=True, logits_to_keep=1).past_key_values
    kept = torch.full((batch, heads, context, dim), 0.01, dtype=model.dtype, device=device)
    for layer in range(config.num_hidden_layers):
        cache.update(kept.clone(), kept.clone(), layer)
    return cache

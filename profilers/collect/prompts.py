"""Run a model over prompts of different lengths: TTFT and TPOT of each."""

from __future__ import annotations

import statistics
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
    libraries,
    pick_device,
)
from profilers.collect.model import one_request
from profilers.collect.nvtx_ranges import phase_range
from profilers.prompt_sizes import PromptSizes


@dataclass(slots=True)
class MeasuredPrompt:
    """A prompt with its times in each repeat [s].

    ttft_s: from the prompt to the first token.  tpot_s: mean of the decode steps.
    """

    prompt: PromptSizes
    ttft_s: list[float] = field(default_factory=list)
    tpot_s: list[float] = field(default_factory=list)
    out_of_memory: bool = False

    @property
    def status(self) -> str:
        """ "ok", "out_of_memory" or "not_run"."""
        if self.out_of_memory:
            return "out_of_memory"
        return "ok" if self.ttft_s else "not_run"

    @property
    def median_ttft_s(self) -> float:
        return statistics.median(self.ttft_s) if self.ttft_s else float("nan")

    @property
    def median_tpot_s(self) -> float:
        return statistics.median(self.tpot_s) if self.tpot_s else float("nan")


@dataclass(frozen=True, slots=True)
class PromptRun:
    """Measured prompts.  parameters, layers: of the model.  clock: of the times."""

    prompts: tuple[MeasuredPrompt, ...]
    parameters: int
    layers: int
    threads: int
    clock: str
    cancelled: bool


def measure_prompts(
    settings: RunSettings,
    prompts: Sequence[PromptSizes],
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> PromptRun:
    """Run each prompt by itself, all prompts in each repeat; one that needs too much memory is
    reported.

    settings: isl and osl are ignored.

    Raises:
        MeasurementError: the model does not build or run.
        Cancelled: `cancelled` returned True before any prompt was complete.
    """
    check_settings(settings)
    torch, _ = libraries()
    device = pick_device(settings.device)
    progress(0.0, "building the model")
    model, layers = _built(settings, device)
    clock, found = Clock.for_device(device), [MeasuredPrompt(prompt) for prompt in prompts]
    plan = [(-1, found[0])] * settings.warmup
    plan += [(number, one) for number in range(settings.repeats) for one in found]
    stopped = False
    for at, (number, one) in enumerate(plan):
        if stopped := cancelled():
            break
        progress(0.05 + 0.95 * at / len(plan), f"prompt {one.prompt.id}, {one.prompt.isl} tokens")
        if not one.out_of_memory:
            _measure(model, replace(settings, batch=1), clock, one, number >= 0)
    if stopped and not any(one.ttft_s for one in found):
        raise Cancelled("the first prompt")
    progress(1.0, "done")
    parameters = sum(p.numel() for p in model.parameters())
    threads = torch.get_num_threads()
    return PromptRun(tuple(found), parameters, layers, threads, clock.basis, stopped)


def _built(settings: RunSettings, device: Any) -> tuple[Any, int]:
    try:
        return build(settings, device)
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise MeasurementError("memory runs out while the model is built") from None
        raise MeasurementError(f"the model does not run: {first_line(error)}") from None


def _measure(
    model: Any, settings: RunSettings, clock: Clock, one: MeasuredPrompt, counts: bool
) -> None:
    """Run a prompt once.  counts: False for a warm-up."""
    sized = replace(settings, isl=one.prompt.isl, osl=one.prompt.osl)
    try:
        with phase_range(f"prompt {one.prompt.id[:60]}"):
            first, steps = one_request(model, sized, clock)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise MeasurementError(f"prompt {one.prompt.id}: {first_line(error)}") from None
        one.out_of_memory = True
        free_memory(clock.device)
        return
    if counts:
        one.ttft_s.append(first)
        if steps:
            one.tpot_s.append(statistics.fmean(steps))

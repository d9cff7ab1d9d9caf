"""The figures of an estimate as columns: one table for the command line, programs and pages."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.answers.column import ends
from app.answers.table import Table, later
from app.question import comparison
from app.question.evidence import Evidence
from app.scenario import intervals, operator_intervals
from app.scenario.captured_steps import beyond_graphs
from app.scenario.encoder_figures import of_kind
from app.scenario.gate import meaningless_in_rows
from app.scenario.inputs import sound_seconds
from app.scenario.scenario import Resolved
from app.scenario.server_limits import above_a_server
from app.wording import quantities
from genz_core import Estimate
from genz_core.common.memo import ByIdentity
from genz_core.models.model_kinds import generates, model_kind, prompt_tokens
from genz_core.serving import ServingEstimate
from genz_core.steps.step_estimate import StepEstimate


def facts(resolved: Resolved, result: Estimate) -> Table:
    """The figures of all configurations, one row each, in SI units, as in `ridgeline estimate
    --json`.
    """
    shape = result.status.shape
    sequences = result.sequences_per_s
    tokens = result.output_tokens_per_s
    if not generates(result.model):  # for an encoder, the input tokens are billed
        tokens = sequences * np.asarray(result.workload.isl, dtype=float)
    devices = np.broadcast_to(np.asarray(result.devices, dtype=float), shape)
    memory, load = result.memory, result.workload
    latencies = {name: getattr(result, name) for name in ("ttft_s", "tpot_s", "e2e_s")}
    of = cache(partial(comparison.of_batch, result))

    @cache
    def trusted() -> dict[str, Any]:
        """The figures with the ends of their intervals."""
        known = intervals.of_batch(result, of())
        timed = intervals.beside(latencies, known, intervals.bounds_of(result))
        served = {"output_tokens_per_s": tokens, **intervals.of_throughput(tokens, timed)}
        costs = intervals.token_costs(result.system, devices, served)
        return intervals.where_it_runs(timed | served | costs, result.status)

    def with_ends(figures: Mapping[str, Any]) -> dict[str, Any]:
        """Figures, each followed by the ends of its interval, which are computed on first
        access.
        """
        found: dict[str, Any] = {}
        for name, value in figures.items():
            found |= {name: value, **later(ends(name), trusted)}
        return found

    figures = {
        "model": resolved.model.name,
        "kind": model_kind(result.model),
        "system": result.system.slug,
        "engine": result.engine.name,
        "devices": devices.astype(int),
        **{name: np.asarray(getattr(load, name)).astype(int) for name in ("batch", "isl", "osl")},
        "status": result.status,
        "message": lambda: messages(resolved, result, resolved.notes, of()),
        **with_ends(latencies),
        **later(["not_validated"], trusted),
        **with_ends({"output_tokens_per_s": tokens}),
        "output_tokens_per_s_per_device": tokens / devices,
        "profile": profile_words(result),
        "bound_ttft_s": result.bound_ttft_s,
        "bound_tpot_s": result.bound_tpot_s,
        **later(intervals.COST_COLUMNS, trusted),
        "fits": result.fits,
        "memory_bytes_per_device": result.memory_bytes,
        "weights_bytes": memory.weights_bytes,
        "kv_bytes": memory.kv_bytes,
        "activations_bytes": memory.activations_bytes,
        "reserve_bytes": memory.reserve_bytes,
        "offloaded_bytes": result.offloaded_bytes,
        "usable_bytes": float(memory.usable_bytes),
    }
    named = of_kind(result.model, figures, sequences) | _encoded(resolved, result)
    return Table(named, len(result.status))


def messages(
    resolved: Resolved, result: Estimate | ServingEstimate, notes: Sequence[str], of: Evidence
) -> NDArray[np.object_]:
    """The sentences of every row, [rows].

    They state why it cannot run, which parameters have no meaning for the model, what was never
    measured, and the notes.

    of: what of the rows was measured.
    """
    said = "; ".join(filter(None, (intervals.unmeasured_kind(resolved.system), *notes)))
    size = len(result.status)
    found, reasons = of.messages(size), dict(result.messages)
    limits = [beyond_graphs(resolved, result)]
    if isinstance(result, Estimate):
        limits.append(above_a_server(result))
    for at, limit in chain.from_iterable(found.items() for found in limits):
        reasons[at] = "; ".join(filter(None, (reasons.get(at, ""), limit)))
    unread = meaningless_in_rows(resolved, result.parallelism, size)
    joined = cache(lambda *texts: "; ".join(filter(None, texts)))  # few rows differ
    for at in reasons if unread is None and not said else range(size):
        unused = "" if unread is None else unread[at]
        found[at] = joined(reasons.get(at, ""), unused, found[at], said)
    return found


def _encoded(resolved: Resolved, result: Estimate) -> dict[str, Any]:
    """Notes on the tokens of images and sound, and on the encoder's share of the first token's
    time.
    """
    scenario, seconds = resolved.scenario, result.encoder_s
    if not np.any(seconds > 0.0):
        return {}
    figures: dict[str, Any] = {"encoder_s": seconds}
    if heard := sound_seconds(result.model, scenario):
        rate = np.asarray(result.workload.batch, dtype=float) * heard / result.e2e_s
        figures |= {"audio_seconds": heard, "audio_seconds_per_s": rate}
    if scenario.images:
        whole = np.asarray(result.workload.isl).astype(int)
        each = int(prompt_tokens(result.model, 0)) // scenario.images
        figures |= {"isl": whole - each * scenario.images, "images": scenario.images}
        figures |= {"image_tokens": each, "prompt_tokens": whole}
    return figures


def profile_words(result: Estimate) -> str:
    """A phrase on which latency profile applied."""
    profile = result.system.latency
    return f"{profile.tier}: {profile.note}" if profile else "default: the engine's constants"


def operator_rows(step: StepEstimate, config: int = 0) -> list[dict[str, Any]]:
    """One row for each operator with work in this step, with its interval."""
    table = operator_intervals.operator_table(step, config)
    names = list(table)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*table.values(), strict=True)]
    return [row for row in rows if float(row["predicted_s"]) > 0.0]


def step_sum(estimate: Estimate, phase: str) -> str:
    """What the time of the first configuration's "prefill" or "decode" is the sum of: "113 ms of
    operators + 4.5 ms of the host = 118 ms".

    The operators of a pipeline are those of one micro-batch, which waits for the others.
    """
    step = step_of(estimate, phase)
    parts, piped = int(step.micro_batches[0]), np.max(estimate.parallelism.pp) > 1
    one = f" of one of {parts} micro-batches" if piped and parts > 1 else ""
    terms = {
        f"of operators{one}": step.operators_s.sum(0), "of the host": step.host_s,
        "of waits in the pipeline": step.pipeline_s, "by measured runs": step.learned_s,
    }  # fmt: skip
    said = ""
    for words, seconds in terms.items():
        value = float(np.broadcast_to(seconds, (step.configs,))[0])
        if abs(value) >= _WORTH_A_TERM * float(step.total_s[0]):
            sign = "" if not said else " - " if value < 0 else " + "
            said += f"{sign}{quantities.seconds(abs(value))} {words}"
    return f"{said} = {quantities.seconds(float(step.total_s[0]))}"


def step_of(estimate: Estimate, phase: str) -> StepEstimate:
    """The step of "prefill" or "decode"."""
    return estimate.prefill if phase == "prefill" else estimate.decode


#: Least share of a step's time that a term of its sum is named for.
_WORTH_A_TERM = 1e-3
#: The parts of an operator's time that make up its bound.
_LEAST = ("compute", "memory", "communication")


def beyond_bound(estimate: Estimate, phase: str) -> dict[str, float]:
    """Seconds of a step's prediction beyond its bound, by cause; {} for a mixed step.

    They sum to predicted minus bound; time that the schedule adds to the operators' bounds counts
    as pipeline wait.
    """
    if phase not in ("prefill", "decode"):
        return {}
    step = step_of(estimate, phase)
    parts = parts_of(step)
    least = [parts.pop(name) for name in _LEAST if name in parts]
    beyond = sum(least) - float(step.bound_total_s[0])
    return {**parts, "pipeline": parts.get("pipeline", 0.0) + beyond}


def parts_of(step: StepEstimate, config: int = 0) -> dict[str, float]:
    """Seconds of a step by part, including host, offload if any, and pipeline; they sum to its
    total.

    The correction by measured runs scales all time beyond the operators' bounds equally.
    """
    return dict(_PARTS.get(lambda: _parts_of(step, config), step, values=config))


_PARTS: ByIdentity[dict[str, float]] = ByIdentity(4)


def _parts_of(step: StepEstimate, config: int) -> dict[str, float]:
    parts = {name: float(part[:, config].sum()) for name, part in step.parts().items()}
    moved = 0.0 if step.moved_s is None else float(step.moved_s[config])
    parts |= {"host": float(step.host_s[config]) - moved}
    parts |= {"offload": moved} if moved else {}
    parts |= {"pipeline": float(step.pipeline_s[config])}
    factor = step.learned_factor(config)
    parts = {name: s if name in _LEAST else factor * s for name, s in parts.items()}
    noise = 1e-9 * sum(parts.values())
    return {name: value if value > noise else 0.0 for name, value in parts.items()}

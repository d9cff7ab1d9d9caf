"""How a number is made: one operator from its shape to its expected time, with the values put in.

The equation is the one in the latency model's own docstring, the constants are those of the
profile that prices it, and the result is read from the estimate: nothing is computed twice.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.scenario import intervals
from app.scenario.intervals import Latency
from app.wording import quantities
from genz_core import Estimate
from genz_core.latency import Pricer
from genz_core.latency.attention import decode_attention_s, prefill_attention_s
from genz_core.latency.collectives import collective_s
from genz_core.latency.gemm import gemm_s
from genz_core.latency.moe import moe_s
from genz_core.latency.parameters import GemmParameters, Parameters, describe
from genz_core.latency.pointwise import pointwise_s
from genz_core.latency.profile import Fit
from genz_core.latency.roofline import arithmetic_of
from genz_core.latency.scan import scan_s
from genz_core.precision import bytes_of
from genz_core.step import StepEstimate
from genz_core.types import Op
from hardware_db import Interval

_MODELS: Mapping[str, Callable[..., Any]] = {
    "gemm": gemm_s,
    "prefill_attention": prefill_attention_s,
    "decode_attention": decode_attention_s,
    "mla_prefill": prefill_attention_s,
    "mla_decode": decode_attention_s,
    "moe": moe_s,
    "scan": scan_s,
    "pointwise": pointwise_s,
    "collective": collective_s,
}
_TIERS = {
    "measured": "fitted on measurements of this device",
    "sibling": "fitted on devices of its family",
    "default": "typical constants; no device of its family was measured",
}
_LEAST_STEP_S, _DEAR_SPLIT_S = 1e-9, 1e-4  # ends of their ranges: no K loop, no split of K


@dataclass(frozen=True, slots=True)
class Worked:
    """One operator of one configuration, per run, in SI units.

    model: class of its latency model and format of its constants, as a profile keys them.
    terms: seconds of the parts of a matrix product, empty for other operators.
    interval: 80 % interval from held-out residuals, None where there are none.
    """

    op: Op
    dims: Mapping[str, float]
    model: tuple[str, str]
    parameters: Parameters
    fit: Fit
    flops: float
    bytes: float
    message_bytes: float
    peak_flops_per_s: float
    memory_bytes_per_s: float
    compute_s: float
    memory_s: float
    communication_s: float
    expected_s: float
    floor_s: float
    runs: float
    terms: Mapping[str, float]
    interval: Interval | None

    @property
    def expected(self) -> Latency:
        """The expected time of one run with its interval."""
        return Latency.of(self.expected_s, self.interval, self.bound_s)

    @property
    def bound_s(self) -> float:
        return max(self.compute_s, self.memory_s, self.communication_s)

    @property
    def equation(self) -> str:
        """The latency model's equation, from its docstring."""
        return equation(_MODELS[self.model[0]])


def worked(step: StepEstimate, row: int, config: int = 0) -> Worked:
    """Take apart the operator in row `row` of a priced step."""
    op = step.graph.ops[row]
    pricer = Pricer(step.system, step.engine)
    configs = step.expected_s.shape[1]
    dims = intervals.dims_of(step, op, config)
    model = intervals.latency_model(op, dims, pricer)
    parameters = pricer.profile.constants(*model)
    fit = pricer.profile.fit(*model)
    expected = float(step.expected_s[row, config])
    interval = intervals.of_operator(pricer, op, dims)
    return Worked(
        op=op,
        dims=dims,
        model=model,
        parameters=parameters,
        fit=fit,
        flops=float(step.flops[row, config]),
        bytes=float(step.bytes[row, config]),
        message_bytes=intervals.value_at(op.message_bytes, config, configs),
        peak_flops_per_s=step.system.peak(arithmetic_of(op, step.system)),
        memory_bytes_per_s=step.system.memory_bytes_per_s,
        compute_s=float(step.compute_s[row, config]),
        memory_s=float(step.memory_s[row, config]),
        communication_s=float(step.communication_s[row, config]),
        expected_s=expected,
        floor_s=step.engine.kernel_floor_s,
        runs=float(step.runs[row]),
        terms=_product_terms(pricer, op, dims) if model[0] == "gemm" else {},
        interval=interval,
    )


def equation(model: Callable[..., Any]) -> str:
    """The equation in a latency model's docstring: the block after "::", or its line "T = ..."."""
    words = inspect.cleandoc(model.__doc__ or "")
    _, found, rest = words.partition("::\n")
    if not found:
        return next((line for line in words.splitlines() if line.startswith("T = ")), "")
    lines: list[str] = []
    for line in rest.splitlines():
        if line.strip() and not line.startswith(" "):
            break
        lines.append(line)
    return inspect.cleandoc("\n".join(lines)).strip()


def _product_terms(pricer: Pricer, op: Op, dims: Mapping[str, float]) -> dict[str, float]:
    """Seconds of a matrix product's parts, K unsplit: the model with the rest turned off."""
    compute = arithmetic_of(op, pricer.system)
    p: GemmParameters = pricer.profile.gemm(op.weights, compute)
    device = pricer.device_for(op)
    if compute in ("fp8", "fp4", "int8") and bytes_of(op.activations) > 1.0:
        return {}  # quantising the input on the fly is a term of its own: the total says it all
    weight, activation = bytes_of(op.weights), bytes_of(op.activations)
    only_compute = replace(p, k_step_s=_LEAST_STEP_S, split_s=_DEAR_SPLIT_S)
    alone = gemm_s(
        dims["m"], dims["n"], dims["k"],
        weight_bytes=weight, activation_bytes=activation,
        peak_flops_per_s=pricer.peak(op),
        device=replace(device, memory_bytes_per_s=math.inf),
        parameters=only_compute, floor_s=0.0,
        least_rows=8 if weight < 1.5 or pricer.engine.thin_products else 64,
    )  # fmt: skip
    moved = dims["m"] * dims["k"] * activation + dims["n"] * dims["k"] * weight
    moved += dims["m"] * dims["n"] * 2.0
    steps = dims["k"] * max(weight, activation) / 128.0
    return {
        "compute": math.sqrt(max(float(alone) ** 2 - (steps * _LEAST_STEP_S) ** 2, 0.0)),
        "memory": moved / (device.memory_bytes_per_s * p.memory_efficiency),
        "k_loop": steps * p.k_step_s,
    }


# ------------------------------------------------------------------------------- in words


def markdown(work: Worked, step_name: str) -> str:
    """The whole way of one operator's number, values put in, as Markdown."""
    parts = [_counts(work), _bound(work), _expected(work, step_name), _origin(work)]
    return "\n\n".join(parts)


def _counts(work: Worked) -> str:
    shape = ", ".join(f"{name} = {value:,.6g}" for name, value in work.dims.items() if value)
    lines = [f"**1. Shape** {shape or '–'} (one device, one run)"]
    if {"m", "n", "k"} <= set(work.dims):
        m, n, k = (work.dims[name] for name in "mnk")
        lines.append(
            f"**2. Count** FLOPs = 2 m n k = 2 × {m:,.0f} × {n:,.0f} × {k:,.0f} = "
            f"{quantities.flops(work.flops)}; bytes = inputs + weights + outputs = "
            f"{quantities.size(work.bytes)}"
        )
    elif work.message_bytes:
        lines.append(f"**2. Count** message {quantities.size(work.message_bytes)}")
    else:
        lines.append(
            f"**2. Count** {quantities.flops(work.flops)}, {quantities.size(work.bytes)} moved"
        )
    if work.bytes:
        lines[-1] += f"; {quantities.digits(work.flops / work.bytes)} FLOP/byte"
    return "\n\n".join(lines)


def _bound(work: Worked) -> str:
    return (
        f"**3. Bound** = max(FLOPs / peak, bytes / bandwidth, message / link) = max("
        f"{quantities.flops(work.flops)} / {quantities.flops_rate(work.peak_flops_per_s)}, "
        f"{quantities.size(work.bytes)} / {quantities.bandwidth(work.memory_bytes_per_s)}, …) = "
        f"max({quantities.seconds(work.compute_s)}, {quantities.seconds(work.memory_s)}, "
        f"{quantities.seconds(work.communication_s)}) = **{quantities.seconds(work.bound_s)}**"
    )


def _expected(work: Worked, step_name: str) -> str:
    lines = ["**4. Expected** by the latency model", f"```text\n{work.equation}\n```"]
    if work.terms:
        p: Any = work.parameters
        t = work.terms
        body = (t["compute"] ** p.overlap + t["memory"] ** p.overlap) ** (1 / p.overlap)
        whole = work.floor_s + math.hypot(body, t["k_loop"])
        lines.append(
            f"t_compute = {quantities.seconds(t['compute'])} with tiles that round up, "
            f"t_memory = bytes / ({p.memory_efficiency:.3g} × bandwidth) = "
            f"{quantities.seconds(t['memory'])}, together p_norm({p.overlap:.3g}) = "
            f"{quantities.seconds(body)}; K loop {quantities.seconds(t['k_loop'])}; "
            f"kernel floor of the "
            f"engine {quantities.seconds(work.floor_s)}: {quantities.seconds(whole)}"
            + _split_words(whole, work.expected_s)
        )
    return "\n\n".join([*lines, _result(work, step_name)])


def _result(work: Worked, step_name: str) -> str:
    if not work.expected_s:
        return "Nothing to do here: it takes no time"
    beyond = f", {work.expected_s / work.bound_s:.2f} × its bound" if work.bound_s else ""
    runs = f"{work.runs:,.0f} run{'s' if work.runs != 1 else ''}"
    return (
        f"One run takes **{quantities.seconds(work.expected_s)}**{beyond}; {runs} in a "
        f"{step_name} step make {quantities.seconds(work.expected_s * work.runs)}"
    )


def _split_words(whole: float, expected: float) -> str:
    if whole > expected * 1.001:
        return f"; splitting K over more units saves {quantities.seconds(whole - expected)}"
    return ""


def _origin(work: Worked) -> str:
    fit = work.fit
    lines = [f"**5. Constants** `{'.'.join(work.model)}`: {_TIERS[fit.tier]}"]
    if fit.held_out_mape is not None:
        lines[0] += (
            f"; {fit.points:,} points fitted, held-out error "
            f"{quantities.percent(fit.held_out_mape)} "
            f"on {fit.held_out_points:,} others ({fit.date})"
        )
    if work.interval is not None:
        lines.append(
            f"Four of five measurements lie within {work.expected.trust}: "
            f"{work.interval.points:,} held-out points of this class on devices of this tier"
        )
    else:
        lines.append("Not validated: no such kernel was measured and held out")
    return "\n\n".join(lines)


def constants(work: Worked) -> list[dict[str, Any]]:
    """The constants behind an operator: name, value with its unit, meaning."""
    return [
        {
            "constant": entry.name,
            "value": _constant(getattr(work.parameters, entry.name), entry.unit),
            "meaning": entry.meaning,
        }
        for entry in describe(type(work.parameters))
    ]


def _constant(value: float, unit: str) -> str:
    return quantities.seconds(value, 4) if unit == "s" else f"{value:.4g}"


def step_words(estimate: Estimate, phase: str) -> str:
    """From operators to the step, and from the step to TTFT or TPOT, values put in."""
    step = estimate.prefill if phase == "prefill" else estimate.decode
    operators, host = float(step.operators_s[:, 0].sum()), float(step.host_s[0])
    wait = float(step.pipeline_s[0])
    words = f"**6. Step** = operators {quantities.seconds(operators)}"
    words += f" + pipeline wait {quantities.seconds(wait)}" if wait else ""
    whole = intervals.step_latency(estimate, phase)
    words += f" + host {quantities.seconds(host)} = {_trusted(whole)}"
    if phase == "prefill":
        request = quantities.seconds(step.engine.host_request_s)
        ttft = _trusted(intervals.latency(estimate, "ttft_s"))
        last = f"**7. TTFT** = prefill step + request {request} = {ttft}"
    else:
        tpot = _trusted(intervals.latency(estimate, "tpot_s"))
        last = f"**7. TPOT** = mean of the decode step over the output = {tpot}"
    return f"{words}\n\n{last}"


def _trusted(one: Latency) -> str:
    return f"**{quantities.seconds(one.seconds)}** (80 %: {one.trust})"

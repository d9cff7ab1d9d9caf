"""The document docs/how-a-number-is-made.md: one operator from its shape to TTFT and TPOT.

All its figures come from the same estimate that commands and pages show; a test recomputes them by
hand.
"""

import math
from typing import Any

from app.accuracy.worked_example import WorkedExample, work_through
from app.answers.table import TableFormat, render
from app.question.question import Question
from app.scenario import intervals, operator_intervals
from app.scenario.scenario import estimate
from app.wording import quantities
from genz_core import Estimate
from genz_core.steps.step_estimate import StepEstimate

OPERATOR = "gate_up_proj"
#: The generic engine adds no factors of its own to the constants of the device.
SCENARIO = Question(engine="generic", osl=128)


def document() -> str:
    """The document as Markdown, computed anew."""
    estimated = estimate(SCENARIO)
    prefill = work_through(estimated.prefill, _row(estimated.prefill))
    decode = work_through(estimated.decode, _row(estimated.decode))
    parts = (
        _head(estimated),
        _counted(prefill),
        _bounded(prefill, decode),
        _priced(prefill),
        _decode(decode),
        _trust(prefill),
        _steps(estimated),
        _latencies(estimated),
        _elsewhere(),
    )
    return "\n\n".join(parts) + "\n"


def _row(step: StepEstimate) -> int:
    return [op.name for op in step.graph.ops].index(OPERATOR)


def _head(priced: Estimate) -> str:
    s = SCENARIO
    return (
        "# How a number is made\n\n"
        "Written by `ridgeline validate --write-docs docs/accuracy.md` from the constants that "
        "ship; a test checks its figures.\n\n"
        f"The case: **{s.model}** on one **{priced.system.name}**, bf16, engine `{s.engine}`, "
        f"batch {s.batch}, {s.isl:,} tokens in, {s.osl} out. `ridgeline estimate {s.model} "
        f"--engine {s.engine} --osl {s.osl}` prints its result; the page *Accuracy*, view *How a "
        "number is "
        "made*, shows the same steps for any operator of any scenario.\n\n"
        f"This page follows one operator, `{OPERATOR}`: the fused gate and up projections of the "
        "feed-forward block, which run once in each of the 32 layers."
    )


def _counted(work: WorkedExample) -> str:
    m, n, k = (int(work.dims[name]) for name in "mnk")
    return (
        "## 1. From shape to work\n\n"
        f"A prefill of {m:,} tokens multiplies x[m, k] by w[k, n], m = {m:,}, n = 2 × {n // 2:,} = "
        f"{n:,}, k = {k:,}.\n\n"
        f"- FLOPs = 2 m n k = **{work.flops:,.0f}** ({quantities.flops(work.flops)})\n"
        f"- bytes = 2 (m k + k n + m n) = **{work.bytes:,.0f}** ({quantities.size(work.bytes)}), "
        "two bytes per element, each operand once\n"
        f"- intensity = {work.flops / work.bytes:.1f} FLOP/byte"
    )


def _bounded(prefill: WorkedExample, decode: WorkedExample) -> str:
    ridge = prefill.bound_flops_per_s / prefill.memory_bytes_per_s
    return (
        "## 2. From work to the bound\n\n"
        "The bound is the hardware limit: the slower of arithmetic and memory traffic.\n\n"
        f"- {prefill.flops:,.0f} FLOP / {prefill.bound_flops_per_s / 1e12:.1f} TFLOP/s (the peak "
        f"of {prefill.peak_flops_per_s / 1e12:.1f} at the highest clock) = "
        f"{_us(prefill.compute_s)}\n"
        f"- {prefill.bytes:,.0f} B / {prefill.memory_bytes_per_s / 1e9:.0f} GB/s = "
        f"{_us(prefill.memory_s)}\n"
        f"- bound = max = **{_us(prefill.bound_s)}**, by arithmetic: "
        f"{prefill.flops / prefill.bytes:.0f} FLOP/byte lies above the ridge at {ridge:.0f}\n\n"
        "A decode step multiplies one token by the same weights: "
        f"{decode.bytes:,.0f} B / {decode.memory_bytes_per_s / 1e9:.0f} GB/s = "
        f"**{_us(decode.bound_s)}**, by memory."
    )


def _priced(work: WorkedExample) -> str:
    p: Any = work.price.constants.parameters
    device = work.price.device
    k = work.dims["k"]
    per_flop = device.compute_units / (p.compute_efficiency * work.peak_flops_per_s)
    store = 2.0 / (p.store_share * 64.0 * device.clock_hz)
    area = work.stage("compute") / (2.0 * k * per_flop + store)
    body = _p_norm(p.overlap, work.stage("compute"), work.stage("memory"))
    return (
        "## 3. From the bound to the prediction\n\n"
        "Kernels do not reach the peak. The latency model of matrix products "
        f"(`genz_core/latency/gemm.py`) is\n\n```text\n{work.equation}\n```\n\n"
        f"with the constants `{work.constants_key}` of this device's profile: "
        f"compute_efficiency {p.compute_efficiency:.5g}, memory_efficiency "
        f"{p.memory_efficiency:.5g}, store_share {p.store_share:.5g}, k_step "
        f"{p.k_step_s * 1e9:.5g} ns, overlap {p.overlap:.5g}.\n\n"
        f"- The best tiling gives the busiest of {device.compute_units:.0f} units {area:,.0f} of "
        f"the {work.dims['m'] * work.dims['n']:,.0f} outputs. At {device.clock_hz / 1e9:.3g} GHz: "
        f"t_compute = **{_us(work.stage('compute'))}**\n"
        f"- t_memory = {_us(work.memory_s)} / {p.memory_efficiency:.5g} = "
        f"**{_us(work.stage('memory'))}**\n"
        f"- the two overlap: p_norm({p.overlap:.4g}) = **{_us(body)}**\n"
        f"- the loop over K: {k:,.0f} × 2 B / 128 B × {p.k_step_s * 1e9:.5g} ns = "
        f"**{_us(work.stage('k_loop'))}**, overlapped by p_norm(2)\n"
        f"- the engine's floor of a kernel inside a CUDA graph: **{_us(work.floor_s)}**\n"
        f"- together **{_us(work.floor_s + math.hypot(body, work.stage('k_loop')))}**; the "
        f"estimate says **{_us(work.expected_s)}**, {work.expected_s / work.bound_s:.2f} × the "
        "bound"
    )


def _decode(work: WorkedExample) -> str:
    p: Any = work.price.constants.parameters
    body = _p_norm(p.overlap, work.stage("compute"), work.stage("memory"))
    return (
        f"For the one token of a decode step t_memory = {_us(work.memory_s)} / "
        f"{p.memory_efficiency:.5g} = {_us(work.stage('memory'))} dominates; t_compute = "
        f"{_us(work.stage('compute'))}, because the tile is nearly empty: p_norm = {_us(body)}, "
        f"with K loop and floor **{_us(work.expected_s)}**, "
        f"{work.expected_s / work.bound_s:.2f} × its bound."
    )


def _trust(work: WorkedExample) -> str:
    fit = work.price.constants.fit
    return (
        f"## 4. The interval\n\nThe constants were fitted on {fit.points:,} measured matrix "
        f"products of this device and tested on {fit.held_out_points:,} others: mean error "
        f"{100 * (fit.held_out_mape or 0):.1f} % ({fit.data_set.partition(':')[0]}, {fit.date}). "
        "From residuals on shapes not used in the fit, four of five measurements of such a "
        f"product lie within {work.expected.trust}."
    )


def _steps(priced: Estimate) -> str:
    return (
        "## 5. From operators to a step\n\n"
        "A step is the sum of each operator's time × its runs, plus host time. Four of five "
        "measurements of an operator lie within the interval in the last column.\n\n"
        f"Prefill, {_total(priced.prefill)}:\n\n{_table(priced.prefill)}\n\n"
        f"Decode, the mean step over the output, {_total(priced.decode)}:\n\n"
        f"{_table(priced.decode)}"
    )


def _total(step: StepEstimate) -> str:
    operators, host = float(step.operators_s[:, 0].sum()), float(step.host_s[0])
    total = float(step.total_s[0])
    return f"{_ms(operators)} + host {_ms(host)} = **{_ms(total)}**"


def _table(step: StepEstimate) -> str:
    trusted = operator_intervals.of_rows(operator_intervals.operator_table(step))
    rows = [
        {
            "operator": op.name,
            "runs": f"{step.runs[at]:.0f}",
            "one run (µs)": f"{step.expected_s[at, 0] * 1e6:.2f}",
            "all runs (ms)": f"{step.operators_s[at, 0] * 1e3:.3f}",
            "bound (ms)": f"{step.bound_s[at, 0] * step.runs[at] * 1e3:.3f}",
            "all runs, 80 %": trusted[at].trust,
        }
        for at, op in enumerate(step.graph.ops)
        if step.operators_s[at, 0] > 0
    ]
    return render(rows, TableFormat.markdown)


def _latencies(priced: Estimate) -> str:
    ttft, tpot, e2e = (float(getattr(priced, f"{name}_s")[0]) for name in ("ttft", "tpot", "e2e"))
    trusted = {
        name: intervals.latency(priced, f"{name}_s").trust for name in ("ttft", "tpot", "e2e")
    }
    return (
        "## 6. From steps to user-visible latencies\n\n"
        f"- TTFT = prefill = **{_ms(ttft)}**; a server adds host time per request and "
        "queueing\n"
        f"- TPOT = mean decode step, while the context grows from {SCENARIO.isl:,} to "
        f"{SCENARIO.isl + SCENARIO.osl:,} tokens = **{_ms(tpot)}**\n"
        f"- E2E = TTFT + TPOT × ({SCENARIO.osl} − 1) = **{_ms(e2e)}**\n\n"
        "Errors of whole steps are larger than those of operators, because the overhead of host, "
        "scheduler and engine version is less well known than a kernel. Four of five measured "
        "batches not used in the fit, on devices of this tier, lie within "
        + ", ".join(f"{name.upper()} {trust}" for name, trust in trusted.items())
        + "."
    )


def _elsewhere() -> str:
    return (
        "Attention, experts, scans and collectives have their own latency models, with equations "
        "in their docstrings. Under load, `genz_core/serving/closed_form.py` adds the effect of "
        "other requests. Errors of all models: [accuracy](accuracy.md)."
    )


def _p_norm(p: float, *terms: float) -> float:
    return float(sum(term**p for term in terms) ** (1.0 / p))


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} µs"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"

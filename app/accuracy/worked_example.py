"""One operator's time step by step, from its shape to seconds, with the values inserted.

The equation is taken from the latency model's docstring, the constants from the profile that prices
it, and the terms from `Pricer.explain`: nothing is computed twice.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.scenario import intervals, operator_intervals
from app.scenario.intervals import Ranged
from app.wording import quantities
from genz_core import Estimate
from genz_core.graphs import Op
from genz_core.latency import Explanation, Pricer
from genz_core.latency.parameters import describe
from genz_core.steps.step_estimate import StepEstimate
from genz_core.types import Array
from hardware_db.intervals import Interval

_TIER_WORDS = {
    "measured": "fitted on measurements of this device",
    "sibling": "fitted on devices of its family",
    "default": "typical constants; no device of its family was measured",
}


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """One operator of one configuration, per run, in SI units.

    dims: sizes of its shape, averaged over the contexts of a decode.  price: bound, stages, terms
    and constants of its time.  floor_s: the engine's minimum time per kernel.  runs: in one step.
    interval: 80 % interval from held-out residuals, None if there are none.
    """

    op: Op
    dims: Mapping[str, float]
    price: Explanation
    flops: float
    bytes: float
    message_bytes: float
    memory_bytes_per_s: float
    peak_flops_per_s: float
    floor_s: float
    runs: float
    interval: Interval | None

    @property
    def expected_s(self) -> float:
        """Predicted time of one run [s]."""
        return float(self.price.seconds)

    @property
    def expected(self) -> Ranged:
        """The expected time of one run with its interval."""
        return Ranged.of(self.expected_s, self.interval, self.bound_s)

    @property
    def bound_s(self) -> float:
        """Lower bound of one run [s]: the largest of the three times below."""
        return float(self.price.bound.bound_s)

    @property
    def compute_s(self) -> float:
        """FLOPs divided by the dense peak [s]."""
        return float(self.price.bound.compute_s)

    @property
    def bound_flops_per_s(self) -> float:
        """Peak used by the bound [FLOP/s], at the highest known clock."""
        return self.flops / self.compute_s if self.compute_s else self.peak_flops_per_s

    @property
    def memory_s(self) -> float:
        """Bytes divided by the memory bandwidth [s]."""
        return float(self.price.bound.memory_s)

    @property
    def communication_s(self) -> float:
        """Message bytes divided by the link bandwidth [s]."""
        return float(self.price.bound.communication_s)

    def stage(self, name: str) -> float:
        """Seconds of a stage by name; stages run in parallel."""
        return float(self.price.stages[name])

    @property
    def equation(self) -> str:
        """The latency model's equation, from its docstring."""
        return equation_text(self.price.formula)

    @property
    def constants_key(self) -> str:
        """Key of the constants in a latency profile, class and format: "gemm.bf16"."""
        return f"{self.price.constants.operator}.{self.price.constants.fmt}"


def work_through(step: StepEstimate, row: int) -> WorkedExample:
    """The details of the operator in row `row` of a priced step, for its first configuration."""
    op, pricer = step.op(row), Pricer(step.system, step.engine)
    price = step.explain(row)
    return WorkedExample(
        op=op,
        dims=_sizes(op, step.node_weights),
        price=price,
        flops=float(step.flops[row, 0]),
        bytes=float(step.bytes[row, 0]),
        message_bytes=float(np.mean(np.asarray(op.message_bytes, dtype=float))),
        memory_bytes_per_s=step.system.memory_bytes_per_s,
        peak_flops_per_s=step.system.peak(price.arithmetic),
        floor_s=pricer.conditions.kernel_floor_s,
        runs=float(step.runs[row]),
        interval=operator_intervals.of_operator(pricer, op),
    )


def _sizes(op: Op, weights: Array | None) -> dict[str, float]:
    """Mean sizes of an operator over the contexts of a decode or the chunks of a prompt.

    The rows of a matrix product are summed over all chunks.
    """
    each = np.ones(1) if weights is None else weights[:, 0]
    sizes = {
        name: float((np.broadcast_to(np.ravel(value), each.shape) * each).sum() / each.sum())
        for name, value in op.dims.items()
    }
    return sizes | ({"m": sizes["m"] * float(each.sum())} if "m" in sizes else {})


def operators_by_time(step: StepEstimate) -> dict[int, str]:
    """Names and time shares of a step's operators that take time, by row, the longest first."""
    seconds = step.operators_s[:, 0]
    order = [int(at) for at in np.argsort(-seconds) if seconds[at] > 0]
    return {at: f"{step.graph.ops[at].name} ({seconds[at] / seconds.sum():.0%})" for at in order}


def equation_text(formula: Callable[..., Any]) -> str:
    """The equation in a formula's docstring: the block after "::", or its line "T = ..."."""
    words = inspect.cleandoc(formula.__doc__ or "")
    _, block, rest = words.partition("::\n")
    if not block:
        return next((line for line in words.splitlines() if line.startswith("T = ")), "")
    lines: list[str] = []
    for line in rest.splitlines():
        if line.strip() and not line.startswith(" "):
            break
        lines.append(line)
    return inspect.cleandoc("\n".join(lines)).strip()


# ------------------------------------------------------------------------------- in words


def markdown(work: WorkedExample, step_name: str) -> str:
    """Shape, counts, bound, expected time and constants of an operator, as Markdown.

    step_name: "prefill" or "decode", the step in which its runs are counted.
    """
    parts = [_counts(work), _bound(work), _expected(work, step_name), _origin(work)]
    return "\n\n".join(parts)


def _counts(work: WorkedExample) -> str:
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


def _bound(work: WorkedExample) -> str:
    resources = (work.compute_s, work.memory_s, work.communication_s)
    return (
        f"**3. Bound** = max(FLOPs / peak, bytes / bandwidth, message / link) = max("
        f"{quantities.flops(work.flops)} / {quantities.flops_rate(work.bound_flops_per_s)}, "
        f"{quantities.size(work.bytes)} / {quantities.bandwidth(work.memory_bytes_per_s)}, …) = "
        f"max({', '.join(quantities.seconds(time) for time in resources)}) = "
        f"**{quantities.seconds(work.bound_s)}**"
    )


#: Description of each term of a price; see the stages of `genz_core.latency`.
_TERM_WORDS: Mapping[str, str] = {
    "compute": "arithmetic, rounded up to whole tiles",
    "memory": "traffic at the bandwidth that kernels reach",
    "k_loop": "latency of the loop over K",
    "key_steps": "latency of the steps over the keys",
    "blocks": "start and end of blocks",
    "chunks": "chunks of the sequence, one after the other",
    "overlap": "the rest that does not overlap with the longest",
    "split_k": "splitting K over units",
    "split_keys": "splitting the keys over units",
    "append": "write to the cache",
    "scores": "scores in memory",
    "quantize": "quantising the input",
    "permute": "sorting and gathering the tokens",
    "experts": "bookkeeping of the experts",
    "latency": "start and steps of the algorithm",
    "transfer": "bytes over the links",
    "launch": "launch, or the engine's floor of a kernel",
    "host_launch": "waiting for the host's launch",
    "to_the_bound": "raised to the bound",
}


def _expected(work: WorkedExample, step_name: str) -> str:
    lines = ["**4. Expected** by the latency model", f"```text\n{work.equation}\n```"]
    stages = [(name, float(time)) for name, time in work.price.stages.items() if time]
    if len(stages) > 1:
        times = ", ".join(
            f"{_TERM_WORDS.get(name, name)} {quantities.seconds(time)}" for name, time in stages
        )
        lines.append(f"These overlap: {times}")
    parts = [f"{quantities.seconds(float(work.price.terms[name]))} ({words})"
             for name, words in _TERM_WORDS.items()
             if float(work.price.terms.get(name, 0.0)) > 1e-6 * work.expected_s]  # fmt: skip
    if parts:
        lines.append(f"{' + '.join(parts)} = {quantities.seconds(work.expected_s)}")
    return "\n\n".join([*lines, _result(work, step_name)])


def _result(work: WorkedExample, step_name: str) -> str:
    if not work.expected_s:
        return "No work here, so it takes no time"
    beyond = f", {work.expected_s / work.bound_s:.2f} × its bound" if work.bound_s else ""
    runs, make = (f"{work.runs:,.0f} runs", "make") if work.runs != 1 else ("1 run", "makes")
    return (
        f"One run takes **{quantities.seconds(work.expected_s)}**{beyond}; {runs} in a "
        f"{step_name} step {make} {quantities.seconds(work.expected_s * work.runs)}"
    )


def _origin(work: WorkedExample) -> str:
    fit = work.price.constants.fit
    lines = [f"**5. Constants** `{work.constants_key}`: {_TIER_WORDS[fit.tier]}"]
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


def constant_rows(work: WorkedExample) -> list[dict[str, Any]]:
    """The constants of an operator's latency model: name, value with its unit, meaning."""
    return [
        {
            "constant": entry.name,
            "value": _constant(getattr(work.price.constants.parameters, entry.name), entry.unit),
            "meaning": entry.meaning,
        }
        for entry in describe(type(work.price.constants.parameters))
    ]


def _constant(value: float, unit: str) -> str:
    return quantities.seconds(value, 4) if unit == "s" else f"{value:.4g}"


def step_markdown(estimate: Estimate, phase: str) -> str:
    """How operator times sum to the step, and the step to TTFT or TPOT, as Markdown."""
    step = estimate.prefill if phase == "prefill" else estimate.decode
    operators, host = float(step.operators_s[:, 0].sum()), float(step.host_s[0])
    wait = float(step.pipeline_s[0])
    words = f"**6. Step** = operators {quantities.seconds(operators)}"
    words += f" + pipeline wait {quantities.seconds(wait)}" if wait else ""
    whole = intervals.step_latency(estimate, phase)
    words += f" + host {quantities.seconds(host)}"
    if learned := float(step.learned_s[0]):
        sign = "+" if learned > 0 else "−"
        words += f" {sign} {quantities.seconds(abs(learned))}, the correction by measured runs"
    words += f" = {_trusted(whole)}"
    if phase == "prefill":
        ttft = _trusted(intervals.latency(estimate, "ttft_s"))
        last = f"**7. TTFT** = prefill step = {ttft}"
    else:
        tpot = _trusted(intervals.latency(estimate, "tpot_s"))
        last = f"**7. TPOT** = mean of the decode step over the output = {tpot}"
    return f"{words}\n\n{last}"


def _trusted(latency: Ranged) -> str:
    return f"**{quantities.seconds(latency.value)}** (80 %: {latency.trust})"

"""What ran, as far as reports and kept runs show it; each fact with the evidence for it.

Sources, strongest first: sizes in the names of ranges (`step_names`), shapes of operators
(`step_shapes`), the device and the ranks that the tool recorded.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from genz_core.common.short_repr import shortened
from profilers.phases.inferred_phases import is_inferred
from profilers.phases.step_names import NamedStep, named_step
from profilers.phases.step_shapes import ShapeFacts, median_of, shape_facts
from profilers.schema import PHASES, Measurement, Report

Value = TypeVar("Value", str, int)

#: Operators that only one engine registers -> that engine.
_ENGINE_OPERATORS = (
    ("sglang", re.compile(r"^(sglang|sgl_kernel|sglang_profiler)::")),
    ("vllm", re.compile(r"^(vllm|_C|_C_cache_ops|_moe_C|_vllm_fa\d_C)::")),
    ("trtllm", re.compile(r"^(trtllm|tensorrt_llm)::")),
)
#: Unfused operators of a norm and an activation, as eager transformers runs them.
_UNFUSED = ("aten::pow", "aten::mean", "aten::rsqrt", "aten::silu")


@dataclass(frozen=True, slots=True)
class Fact(Generic[Value]):
    """A value and where it was found, as a phrase ("the range step[DECODE bs=32]")."""

    value: Value
    evidence: str


Text = Fact[str]
Number = Fact[int]


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Sizes of the steps of one phase; None where there is no evidence.

    steps: how many the report holds.  batch: sequences.  length: new tokens of each.
    context: tokens of each that were cached before.  tokens: new tokens of the whole step.
    named: the steps whose range names state their sizes.  evidence: what shows the phase.
    by_file: only the name of the file shows it.
    """

    phase: str
    steps: int
    batch: Number | None = None
    length: Number | None = None
    context: Number | None = None
    tokens: Number | None = None
    named: tuple[NamedStep, ...] = ()
    evidence: str = ""
    by_file: bool = False


@dataclass(frozen=True, slots=True)
class WhatRan:
    """Facts of a run; None where there is no evidence.

    ranks: devices that shared the work.  layers: number that ran, fewer in a model cut short.
    output: tokens that each request generated.  steps: by phase.
    products: (n, k) of the matrix products of its layers.  kv: number format of the KV cache.
    layers_exact: the layers come from shapes or from the run itself, not from how often kernels
    repeat.
    """

    device: Text | None = None
    ranks: Number | None = None
    engine: Text | None = None
    model: Text | None = None
    dtype: Text | None = None
    kv: Text | None = None
    hidden: Number | None = None
    layers: Number | None = None
    layers_exact: bool = False
    vocabulary: Number | None = None
    output: Number | None = None
    products: tuple[tuple[int, int], ...] = ()
    steps: Mapping[str, StepFacts] = field(default_factory=dict)


# ------------------------------------------------------------------------------- reports


def what_ran(reports: Sequence[Report]) -> WhatRan:
    """The facts of the reports of one run, its stages or its ranks."""
    shapes = {
        (at, phase): (report, steps, shape_facts(_kernels_of(report, phase), steps))
        for at, report in enumerate(reports)
        for phase, steps in _phase_steps(report).items()
    }
    found = [(report, facts) for report, _, facts in shapes.values()]
    steps = {
        phase: _step_facts(phase, [s for (_, p), s in shapes.items() if p == phase])
        for phase in PHASES
        if any(p == phase for _, p in shapes)
    }
    own = next((r.facts for r in reports if "run_batch" in r.facts), None)
    if own is not None:
        steps = _of_ranges(reports) | steps
        steps = {phase: _as_stated(facts, own) for phase, facts in steps.items()}
    return WhatRan(
        device=named_device(reports),
        ranks=_ranks(reports),
        engine=_stated(own, "engine") or _engine(reports),
        model=_stated(own, "model"),
        output=_stated(own, "osl"),
        dtype=_stated(own, "dtype")
        or _first(found, lambda facts: facts.dtype, "the types of its matrix products"),
        kv=_kv_format(reports),
        hidden=_first(found, lambda facts: facts.hidden, "the shapes of its matrix products"),
        layers=_layers(found),
        layers_exact=any(facts.layers_seen for _, facts in found),
        products=tuple(sorted({pair for _, facts in found for pair in facts.products})),
        vocabulary=_first(found, lambda facts: facts.vocabulary, "the shape of its LM head"),
        steps=steps,
    )


_WRITER = "the run that wrote the trace says so"


def _stated(own: Mapping[str, Any] | None, name: str) -> Fact[Any] | None:
    """A fact that a run of Ridgeline wrote into its trace."""
    value = (own or {}).get(f"run_{name}")
    return None if value is None else Fact(value, _WRITER)


def _of_ranges(reports: Sequence[Report]) -> dict[str, StepFacts]:
    """Steps counted by the ranges named after their phase, because a CPU's trace holds no
    kernels.
    """
    names = pd.concat([report.ranges["name"].astype(object) for report in reports])
    counts = {phase: int((names == phase).sum()) for phase in PHASES}
    return {
        phase: StepFacts(phase, count, evidence=f"the ranges named {phase}")
        for phase, count in counts.items()
        if count
    }


def _as_stated(facts: StepFacts, own: Mapping[str, Any]) -> StepFacts:
    """A step with the sizes that Ridgeline's run states, since the shapes of a CPU's kernels imply
    few.
    """
    batch, isl = _stated(own, "batch"), _stated(own, "isl")
    if isl is None or facts.phase not in ("prefill", "decode"):
        return facts
    is_prefill = facts.phase == "prefill"
    length, context = (isl, Fact(0, _WRITER)) if is_prefill else (Fact(1, _WRITER), isl)
    return dataclasses.replace(facts, batch=batch, length=length, context=context)


def _first(
    found: Sequence[tuple[Report, ShapeFacts]], value: Callable[[ShapeFacts], Value], evidence: str
) -> Fact[Value] | None:
    """The first value that is known, as a fact."""
    return next((Fact(v, evidence) for _, facts in found if (v := value(facts))), None)


def _layers(found: Sequence[tuple[Report, ShapeFacts]]) -> Number | None:
    for exact in (True, False):
        for _, facts in found:
            if facts.layers and facts.layers_seen is exact:
                what = "matrix products" if exact else "kernels"
                return Fact(facts.layers, f"{facts.layers} launches a step of most {what}")
    return None


#: Kernels that read or write the KV cache, by their names.
_OF_CACHE = re.compile(
    r"reshape_and_cache|concat_and_cache|paged_attention|paged_kv|PagedKV|pagedkv|fmha|flash_fwd"
    r"|FlashAttn|mla|unified_attention|decode_attention", re.IGNORECASE,
)  # fmt: skip
#: Marks of such a kernel's name where the cache is in 8 bits: vLLM's template argument (csrc/
#: quantization/w8a8/fp8: Fp8KVCacheDataType, 0 auto, 1 e4m3, 2 e5m2), types of FlashInfer and
#: FlashAttention, letters of TensorRT-LLM ("QkvE4m3", "KvE4m3").
_FP8_CACHE = re.compile(
    r"Fp8KVCacheDataType\)\s*[12]|kFp8E[45]M[23]|Kv_?E[45]m[23]|fp8_?e[45]m[23]"
    r"|float_e[45]m[23]_t|kv_?fp8|fp8_?kv(?!Cache)", re.IGNORECASE,
)  # fmt: skip
_WIDE_CACHE = re.compile(r"Fp8KVCacheDataType\)\s*0|kAuto\b")


def _kv_format(reports: Sequence[Report]) -> Text | None:
    """The number format of the KV cache, where the name of a kernel that reads or writes it
    indicates one.
    """
    for report in reports:
        kernels = report.kernels
        for column in ("full_name", "name"):
            for name in kernels[column].dropna().unique():
                text = str(name)[:2000]
                if not _OF_CACHE.search(text):
                    continue
                if found := _FP8_CACHE.search(text):
                    return Fact("fp8", f"{found[0]!r} in the kernel {shortened(text, 80)}")
                if found := _WIDE_CACHE.search(text):
                    return Fact("bf16", f"{found[0]!r} in the kernel {shortened(text, 80)}")
    return None


def named_device(reports: Sequence[Report]) -> Text | None:
    """The first device that reports name."""
    names = [device.name for report in reports for device in report.devices if device.name]
    return Fact(names[0], "the device that the report names") if names else None


def _ranks(reports: Sequence[Report]) -> Number | None:
    worlds = [int(w) for r in reports if isinstance(w := r.facts.get("world_size"), (int, float))]
    if worlds:
        return Fact(max(worlds), "its world_size")
    ranks = {report.facts.get("rank") for report in reports} - {None}
    if len(ranks) > 1:
        return Fact(len(ranks), "the ranks of its reports")
    busy = [
        len(report.kernels[["process", "device"]].dropna().drop_duplicates()) for report in reports
    ]
    most = max(busy, default=0)
    return Fact(most, "the devices whose kernels it holds") if most > 1 else None


def _engine(reports: Sequence[Report]) -> Text | None:
    for report in reports:
        sglang_first = sorted(_named_steps(report), key=lambda step: step.engine != "sglang")
        for step in sglang_first:  # its ranges may be enclosed in ranges named in vLLM's form
            if step.engine:
                return Fact(step.engine, _range_evidence(step))
        operators = [str(name) for name in report.kernels["operator"].dropna().unique()]
        for engine, pattern in _ENGINE_OPERATORS:
            if named := next((name for name in operators if pattern.search(name)), ""):
                return Fact(engine, f"the operator {named}")
        if set(_UNFUSED) <= set(operators):
            return Fact("hf", "the operators aten::pow, mean and rsqrt of norms that nothing fused")
    return None


def _range_evidence(step: NamedStep) -> str:
    return f"the range {shortened(step.name, 100)}"


# ------------------------------------------------------------------------------- steps


def _phase_steps(report: Report) -> dict[str, int]:
    """Number of steps of each phase of a report, 0 where no range encloses them; {"": 0} where its
    kernels have no phase.
    """
    phases = [str(phase) for phase in report.kernels["phase"].dropna().unique()]
    return {p: int(_kernels_of(report, p)["step"].nunique()) for p in phases} or {"": 0}


def _kernels_of(report: Report, phase: str) -> pd.DataFrame:
    kernels = report.kernels
    return kernels[kernels["phase"] == phase] if phase else kernels


def _named_steps(report: Report, phase: str = "") -> list[NamedStep]:
    """Ranges that state the sizes of their step: all of them, or for one phase those not inside
    another such range.
    """
    names = report.ranges["name"].cat
    steps = [*(named_step(str(name)) for name in names.categories), None]
    of_row = [steps[code] for code in names.codes]
    parents = report.ranges["parent"].fillna(-1).astype(int)
    return [
        step
        for step, parent in zip(of_row, parents, strict=True)
        if step is not None
        and phase in ("", step.phase)
        and (not phase or parent < 0 or of_row[parent] is None)
    ]


def _step_facts(phase: str, found: Sequence[tuple[Report, int, ShapeFacts]]) -> StepFacts:
    """Facts of the steps of a phase: from their ranges, completed from shapes."""
    named = tuple(step for report, _, _ in found for step in _named_steps(report, phase))
    evidence, by_file = _phase_evidence(phase, [report for report, _, _ in found])
    facts = StepFacts(
        phase, sum(steps for _, steps, _ in found), named=named, evidence=evidence, by_file=by_file
    )
    if phase in ("prefill", "decode"):
        facts = _by_names(facts)
    for _, _, shapes in found:
        facts = _by_shapes(facts, shapes)
    return facts


def _phase_evidence(phase: str, reports: Sequence[Report]) -> tuple[str, bool]:
    """What shows the phase of the kernels of reports, and whether it is only the file's name."""
    if not phase:
        return "", False
    by_file = ""
    for report in reports:
        kernels = _kernels_of(report, phase)
        sources = set(kernels["phase_by"].dropna())
        if "label_pattern" in sources:
            by_file = by_file or f"the name of its file, {shortened(report.label, 80)}"
            continue
        names = report.ranges["name"].reindex(kernels["step"].dropna().unique()[:1]).dropna()
        name = str(names.iloc[0]) if len(names) else ""
        if not sources or is_inferred(name):
            return "the shapes of its operators", False
        return (f"the range {shortened(name, 100)}" if name else "the ranges around it"), False
    return by_file, True


def _by_names(facts: StepFacts) -> StepFacts:
    """The sizes in the names of the ranges; the median where steps differ."""
    named = facts.named
    if not named:
        return facts
    requests = [step.prompts if facts.phase == "prefill" else step.answers for step in named]
    evidence = _range_evidence(named[0])
    if len({step.name for step in named}) > 1:
        evidence = f"the median of {len(named)} ranges such as {shortened(named[0].name, 80)}"
    return dataclasses.replace(
        facts,
        batch=_number([float(r.count) for r in requests], evidence),
        tokens=_number([_known(r.new_tokens) for r in requests], evidence),
        length=_number([(_known(r.new_tokens) / r.count) for r in requests], evidence),
        context=_number(
            [((_known(r.attended) - _known(r.new_tokens)) / r.count) for r in requests], evidence
        ),
    )


def _known(value: int | None) -> float:
    return float("nan") if value is None else float(value)


def _number(values: Sequence[float], evidence: str) -> Number | None:
    middle = median_of(values)
    return None if np.isnan(middle) else Fact(round(middle), evidence)


def _by_shapes(facts: StepFacts, shapes: ShapeFacts) -> StepFacts:
    """The facts completed from shapes."""
    found: dict[str, Number | None] = {}
    if (sizes := shapes.attention) is not None:
        evidence = f"the shapes of {sizes.operator}"
        found["batch"] = Fact(sizes.sequences, evidence)
        found["length"] = Fact(sizes.new_tokens, evidence)
        found["context"] = Fact(sizes.attended - sizes.new_tokens, evidence)
    elif shapes.sequences and shapes.phase == facts.phase:
        found["batch"] = Fact(shapes.sequences, "the rows of its LM head")
        if shapes.tokens and shapes.tokens % shapes.sequences == 0:
            length = shapes.tokens // shapes.sequences
            found["length"] = Fact(
                length, "the rows of its matrix products over the rows of its LM head"
            )
    if shapes.tokens:
        found["tokens"] = Fact(shapes.tokens, "the rows of its matrix products")
    open_: dict[str, Any] = {k: v for k, v in found.items() if getattr(facts, k) is None}
    return dataclasses.replace(facts, **open_)


# ------------------------------------------------------------------------------- kept runs


def what_was_kept(measurement: Measurement) -> WhatRan:
    """The facts that a kept run states about itself."""
    said, load = "the run", measurement.workload
    steps: dict[str, StepFacts] = {}
    if load is not None:
        sizes = [Fact(int(np.max(v)), said) for v in (load.batch, load.isl)]
        for phase in measurement.phases:
            length = sizes[1] if phase == "prefill" else Fact(1, said)
            context = Fact(0, said) if phase == "prefill" else sizes[1]
            steps[phase] = StepFacts(phase, 1, sizes[0], length, context)
    facts = measurement.facts
    layers, ranks = facts.get("layers"), facts.get("world_size")
    device = measurement.system.name if measurement.system else ""
    return WhatRan(
        device=Fact(device, said) if device else None,
        ranks=Fact(int(ranks), said) if ranks else None,
        engine=Fact(measurement.engine, said) if measurement.engine else None,
        model=Fact(measurement.model, said) if measurement.model else None,
        dtype=Fact(str(facts["dtype"]), said) if "dtype" in facts else None,
        layers=Fact(int(layers), said) if layers else None,
        layers_exact=bool(layers),
        output=Fact(int(np.max(load.osl)), said) if load is not None else None,
        steps=steps,
    )

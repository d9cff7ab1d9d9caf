"""A traced model's program: read both passes, rewrite, and account for every parameter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from genz_core.errors import UnsupportedModel
from model_registry.tracing import rewrites
from model_registry.tracing.calls import Program, ProgramBlock, ProgramCall, RowUnit
from model_registry.tracing.capture import record_pass
from model_registry.tracing.grouping import TraceSetup
from model_registry.tracing.held_layers import with_held_layers
from model_registry.tracing.meta_model import MetaModel, language_parameters, parameter_sizes
from model_registry.tracing.records import Segment
from model_registry.tracing.segment_calls import SegmentReader

#: Sizes of the recorded passes; they can be small, because rows become symbols afterwards.
BATCH, NEW_TOKENS = 2, 12


def assemble(instance: MetaModel, without: Collection[str] = ()) -> Program:
    """The program of a model, from a prefill and a decode step on the meta device.

    without: names of `rewrites.REWRITES` to leave out.

    Raises:
        UnsupportedModel: the model has no repeating list of layers.
    """
    model = instance.model
    prefill, cache = record_pass(model, BATCH, NEW_TOKENS)
    notes: list[str] = []
    decode = _decode(model, cache, notes)
    setup = TraceSetup(model, _hidden(model), BATCH, NEW_TOKENS, frozenset(without))
    if not any(segment.layers for segment in prefill):
        raise UnsupportedModel(
            f"{type(model).__name__} has no list of layers that repeats; it cannot be traced"
        )
    blocks = _blocks(prefill, setup, decode)
    parameters, towers = language_parameters(model)
    ran = {s.path: frozenset(t.parameter for r in s.records for t in r.parameters) for s in prefill}
    blocks, active, unplaced = _accounted(blocks, ran, model, parameters)
    notes += [*unplaced, *_unrun(blocks, parameters)]
    blocks = with_held_layers(blocks, model)
    if towers:
        notes.append(f"{towers / 1e9:.2f}B parameters of other modalities are not in the graph")
    return Program(
        blocks=tuple(blocks),
        layers=sum(len(block.layers) for block in blocks),
        parameters=parameters,
        active=active,
        tied=_tied(model),
        model_type=instance.model_type,
        class_name=type(model).__name__,
        ignored=instance.ignored,
        defaulted=instance.defaulted,
        notes=tuple(notes),
        rewrites=tuple(sorted(_used(blocks) - set(without))),
    )


def _decode(model: Any, cache: Any, notes: list[str]) -> list[Segment]:
    """The decode step's segments; none, and a note, where the step cannot be run."""
    try:
        segments, _ = record_pass(model, BATCH, 1, cache)
    except Exception as error:  # noqa: BLE001
        notes.append(
            f"its decode step could not be run ({type(error).__name__}); read from prefill"
        )
        return []
    return segments


def _hidden(model: Any) -> int:
    """Width of the residual stream: that of the token table, or of a projection after it."""
    config = getattr(model.config, "text_config", None) or model.config
    for name in ("hidden_size", "d_model", "n_embd", "dim"):
        if isinstance(getattr(config, name, None), int):
            return int(getattr(config, name))
    return int(model.get_input_embeddings().weight.shape[-1])


def _tied(model: Any) -> bool:
    head = model.get_output_embeddings()
    table = model.get_input_embeddings()
    return head is not None and table is not None and head.weight is table.weight


# ------------------------------------------------------------------------------- blocks


def _blocks(
    segments: list[Segment], setup: TraceSetup, decode: list[Segment]
) -> list[ProgramBlock]:
    """The segments as blocks of rewritten calls."""
    rows = _decode_rows(decode)
    blocks: list[ProgramBlock] = []
    seen_layers = False
    for segment in segments:
        calls = [_checked_rows(call, rows) for call in SegmentReader(segment, setup).calls()]
        calls = _rewritten(calls, setup.without)
        seen_layers = seen_layers or bool(segment.layers)
        stage: Literal["first", "last"] = "last" if seen_layers else "first"
        if not segment.layers and seen_layers:
            calls = _ending(calls, setup)
        blocks.append(ProgramBlock(tuple(calls), segment.layers, stage, segment.path))
    if "fused_norm" not in setup.without:
        blocks = rewrites.across_layers(blocks)
    return [block for block in blocks if block.calls]


def _rewritten(calls: list[ProgramCall], without: frozenset[str]) -> list[ProgramCall]:
    if "merged_projections" not in without:
        calls = rewrites.merged_projections(calls)
    calls = rewrites.with_tp_sums(
        rewrites.without_expansion([_without_input(call) for call in calls])
    )
    return calls if "fused_norm" in without else rewrites.fused_norm(calls)


def _without_input(call: ProgramCall) -> ProgramCall:
    """`call` without the identity of its input, which differs between traces."""
    return replace(call, sizes={key: size for key, size in call.sizes.items() if key != "input"})


def _used(blocks: list[ProgramBlock]) -> set[str]:
    """Names of the rewrites that changed something in these blocks."""
    calls = [call for block in blocks for call in block.calls]
    marks = {
        "mla_absorbed": lambda call: call.block == "LatentAttention",
        "routed_experts": lambda call: call.block == "Mixture",
        "sparse_attention": lambda call: call.size("index_top_k"),
        "merged_projections": lambda call: len(call.parts) > 1,
        "fused_norm": lambda call: call.operator == "residual_norm",
        "fused_activation": lambda call: call.operator == "activation",
        "rotary": lambda call: call.operator == "rope",
        "kv_append": lambda call: call.block.endswith("Attention"),
        "scan": lambda call: call.block in ("Mamba", "Mamba2", "DeltaNet"),
        "last_token_head": lambda call: call.role == "lm_head",
    }
    return {name for name, mark in marks.items() if any(mark(call) for call in calls)}


def _decode_rows(segments: Iterable[Segment]) -> dict[str, int]:
    """Rows of each projection in the decode step, by module path."""
    rows: dict[str, int] = {}
    for segment in segments:
        for record in segment.records:
            if record.parameters and record.outputs and record.outputs[0].shape:
                out = record.outputs[0]
                rows[record.path] = out.elements // out.shape[-1]
    return rows


def _checked_rows(call: ProgramCall, rows: dict[str, int]) -> ProgramCall:
    """`call` with rows of context instead of new tokens, if decode ran it over the whole cache."""
    if call.operator == "gemm" and call.rows == "tokens":
        seen = rows.get(call.module)
        if seen == BATCH * (NEW_TOKENS + 1) * call.times:
            return replace(call, rows="context")
    return call


def _ending(calls: list[ProgramCall], setup: TraceSetup) -> list[ProgramCall]:
    """The calls after the layers: final norm, LM head on the last token, gather, sampling."""
    out: list[ProgramCall] = [
        ProgramCall("pipeline", "pipeline_send", sizes={"width": float(setup.hidden)})
    ]
    for call in calls:
        if call.role == "lm_head" and call.operator == "gemm":
            rows: RowUnit = "tokens" if "last_token_head" in setup.without else "sequences"
            sizes = {**call.sizes, "tied": float(_tied(setup.model))}
            width = {"width": call.features}
            head = replace(call, name="lm_head", rows=rows, sizes=sizes)
            gather = ProgramCall("gather", "logits_all_gather", rows=rows, sizes=width)
            out += [
                head,
                gather,
                ProgramCall("sampling", "sampling", rows="sequences", sizes=width),
            ]
        elif call.operator not in ("activation", "pointwise"):
            out.append(call)
    return out


# ------------------------------------------------------------------------------- parameters


def _accounted(
    blocks: list[ProgramBlock], used: Mapping[str, frozenset[str]], model: Any, parameters: float
) -> tuple[list[ProgramBlock], float, list[str]]:
    """(blocks, active parameters, notes): each block with the small parameters of its layer.

    Decay rates, sinks, biases and similar parameters are read with the operator that they belong
    to.  Weights that an earlier layer holds are read again but held once.  Active: those used for
    one token.
    notes: on parameters that belong to no operator.
    """
    sizes = parameter_sizes(model)
    placed: set[str] = set()
    done: list[ProgramBlock] = []
    notes: list[str] = []
    inactive = 0.0
    for block in blocks:
        calls = tuple(_held_once(call, placed) for call in block.calls)
        placed |= {call.weight for call in calls if call.weight}
        block = replace(block, calls=calls)
        if block.layers:
            ran = sum(sizes[name] for name in used[block.path])
            rest = ran - sum(call_parameters(call) for call in block.calls)
            inactive += len(block.layers) * sum(_unused(call) for call in block.calls)
            if abs(rest) > 0.02 * ran:
                notes.append(
                    f"layer {block.layers[0]}: {rest / 1e6:.1f}M parameters belong to no operator"
                )
            else:
                block = _with_small(block, rest)
        done.append(block)
    return done, parameters - inactive, notes


def _unrun(blocks: list[ProgramBlock], parameters: float) -> list[str]:
    """A note where a large part of the parameters is in no operator, as with an encoder."""
    placed = sum(
        max(len(block.layers), 1) * (call_parameters(call) + call.size("small"))
        for block in blocks
        for call in block.calls
        if not (call.size("shared") or call.size("tied"))
    )
    rest = parameters - placed
    if rest < 1e-3 * parameters:
        return []
    return [f"{rest / 1e6:.1f}M parameters ({rest / parameters:.1%}) are not run by a text prompt"]


def _held_once(call: ProgramCall, placed: set[str]) -> ProgramCall:
    """`call`, marked as shared where an earlier layer holds its weights."""
    if call.weight in placed:
        return replace(call, sizes={**call.sizes, "shared": 1.0})
    return call


def _with_small(block: ProgramBlock, rest: float) -> ProgramBlock:
    """`block` with `rest` parameters added to its first operator that has weights."""
    for at, call in enumerate(block.calls):
        if rest and call.operator in ("gemm", "mixer", "attention"):
            grown = replace(call, sizes={**call.sizes, "small": rest})
            return replace(block, calls=(*block.calls[:at], grown, *block.calls[at + 1 :]))
    return block


def call_parameters(call: ProgramCall) -> float:
    """Parameters that the operators of a call hold on one device."""
    size = call.size
    if call.operator == "gemm":
        return call.features * (size("k") + (1.0 if size("bias") else 0.0))
    if call.operator == "grouped_gemm":
        return size("groups") * size("n") * size("k")
    if call.operator == "embedding":
        return size("rows") * size("width")
    if call.operator in ("norm", "residual_norm"):
        return size("weights")
    if call.operator == "convolution":
        return size("out") * size("in") / size("groups", 1.0) * size("kernel")
    return _mixer_parameters(call)


def _mixer_parameters(call: ProgramCall) -> float:
    size = call.size
    if call.block == "LatentAttention":
        return size("heads") * size("kv_rank") * (size("nope_dim") + size("value_dim"))
    if call.block == "CompressedAttention":
        return size("heads")
    if call.block == "Mixture":
        return size("experts") * _expert(call)
    if call.block == "Mamba":
        return size("inner") * (size("state") + 1.0)
    if call.block == "Mamba2":
        return 3.0 * size("heads")
    return 2.0 * size("value_heads") if call.block == "DeltaNet" else 0.0


def _expert(call: ProgramCall) -> float:
    """Parameters of one routed expert."""
    size = call.size
    matrices = 3.0 if size("gated") else 2.0
    width = size("latent") or size("width")
    products = matrices * width * size("intermediate")
    return products + ((matrices - 1.0) * size("intermediate") + width) * size("bias")


def _unused(call: ProgramCall) -> float:
    if call.block != "Mixture":
        return 0.0
    experts = call.size("experts")
    reached = call.size("top_k") * experts / (experts + call.size("idle_choices"))
    return (experts - reached) * _expert(call)

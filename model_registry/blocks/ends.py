"""Input and output of a decoder: token table, pipeline, LM head and sampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Op
from genz_core.models.speculative import TARGET_STATES
from genz_core.operators import all_gather, embedding, gemm, sampling, send_recv
from genz_core.symbolic.symbols import number
from genz_core.types import Num
from model_registry.blocks.encoder_ends import encoder_head_ops, sound_ops
from model_registry.blocks.frame import DeviceFrame, Ops, message_bytes, with_small_weights
from model_registry.spec import LayerInput


def entry_ops(frame: DeviceFrame) -> Ops:
    """Operators from tokens to vectors, replicated on every device, learned positions included."""
    first = replace(frame, stage="first")
    if frame.spec.sound:
        return sound_ops(first, frame.spec.sound)
    ops = [*_table(first), *first.summed("embedding_all_reduce", "embedding")]
    ops += _sequence_tables(first)
    ops += _layer_inputs(first)
    ops += _copies(first, "copies_proj")
    if frame.spec.embedding_norm:
        ops.append(first.norm("embedding_norm", "embedding", first=True))
    ops += _target_states(first)
    return tuple(ops)


def _target_states(frame: DeviceFrame) -> Ops:
    """Hidden states of a draft head's target, fused and joined with the embedding.

    Engines replicate these projections on every device.
    """
    draft, hidden, tokens = frame.spec.draft, frame.spec.hidden, frame.tokens
    if draft is None:
        return ()
    types, ops = frame.types("mtp"), []
    if draft.states > 1:
        fused = draft.states * hidden
        states = gemm("state_fusion", tokens, hidden, fused, types, module=TARGET_STATES)
        ops.append(replace(states, stage=frame.stage))
    if draft.norms:
        ops += [frame.norm(f"{name}_norm", "draft", first=True) for name in ("state", "token")]
    if draft.projected:
        where = frame.at("draft")
        ops.append(gemm("state_proj", tokens, hidden, 2.0 * hidden, types, **where))
    return tuple(ops)


def _table(frame: DeviceFrame) -> Ops:
    """Look-ups in the token table, which is split by rows over tp, and in the position table."""
    spec, tp = frame.spec, number(frame.par.tp)
    where = frame.at("embedding")
    types, width = frame.types("embedding"), spec.embedding_dim or spec.hidden
    held = (spec.vocabulary + spec.table_rows) / tp
    table = embedding("embedding", frame.tokens, held, width, types, **where)
    ops: list[Op] = [replace(table, weight_bytes=table.weight_bytes / tp)]
    if spec.draft:
        ops = [replace(table, weight_bytes=ops[0].weight_bytes, held_weight_bytes=0.0)]
    if spec.positions:
        rows, plain = spec.positions, frame.plain
        ops.append(embedding("position_embedding", frame.tokens, rows, spec.hidden, plain, **where))
    if spec.token_types:
        rows, plain = spec.token_types, frame.plain
        ops.append(embedding("type_embedding", frame.tokens, rows, width, plain, **where))
    if spec.embedding_dim:
        ops.append(gemm("embedding_proj", frame.tokens, spec.hidden, width, types, **where))
    return tuple(ops)


def _sequence_tables(frame: DeviceFrame) -> Ops:
    """Look-ups by several tokens, each table's row projected to the model's width and added."""
    spec, tables = frame.spec, frame.spec.sequence_tables
    if tables is None:
        return ()
    where, types = frame.at("embedding"), frame.types("embedding")
    width = tables.tables * tables.width
    return (
        embedding("sequence_tables", frame.tokens, tables.rows, width, types, **where),
        gemm("sequence_tables_proj", frame.tokens, spec.hidden, width, types, **where),
    )


def _copies(frame: DeviceFrame, name: str) -> Ops:
    """Projections of the stream into its copies, or from the copies back."""
    spec, others = frame.spec, frame.spec.copies - 1
    if others < 1:
        return ()
    where = frame.at("embedding" if name == "copies_proj" else "head")
    types = frame.types("embedding")
    return (gemm(name, frame.tokens, others * spec.hidden, spec.hidden, types, **where),)


def _layer_inputs(frame: DeviceFrame) -> Ops:
    """Inputs of each token to each layer: a table's row and a projection of the embedding."""
    spec, tokens, types = frame.spec, frame.tokens, frame.types("embedding")
    blocks = [block for layer in spec.layers for block in layer.blocks]
    widths = [block.width for block in blocks if isinstance(block, LayerInput)]
    if not widths:
        return ()
    total, where = sum(widths), frame.at("embedding")
    rows = tokens * len(widths)
    return (
        embedding("layer_inputs", tokens, spec.layer_input_rows, total, types, **where),
        gemm("layer_inputs_proj", tokens, total, spec.hidden, types, **where),
        frame.small_norm("layer_inputs_norm", rows, widths[0], "embedding"),
    )


def pipeline_op(frame: DeviceFrame) -> Op:
    """The send of the residual stream, or streams, to the next pipeline stage."""
    stream = message_bytes(frame.stream_tokens, frame.spec.hidden * max(frame.spec.streams, 1))
    stages, stride = frame.par.pp, frame.pp_stride
    return send_recv("pipeline_send", stream, stages, stride=stride, module="pipeline")


def exit_ops(frame: DeviceFrame) -> Ops:
    """Operators from the stream to a token: final norm, LM head on the last token of each sequence
    or on all that it verifies, logits gathered, sampling."""
    if frame.spec.kind == "encoder":
        return encoder_head_ops(frame)
    rows, vocabulary = frame.sampled, frame.spec.vocabulary
    logits = message_bytes(rows, vocabulary)
    return (
        *_before_head(frame),
        _head(frame, rows),
        all_gather("logits_all_gather", logits, frame.par.tp, module="head"),
        sampling("sampling", rows, vocabulary, frame.plain, module="head"),
    )


def _before_head(frame: DeviceFrame) -> Ops:
    """Streams joined into one, the final norm, and the projection to a narrower table."""
    spec, ops = frame.spec, [*_copies(frame, "copies_joined")]
    if spec.streams:
        width = spec.streams * spec.hidden
        joined = gemm("stream_head", frame.tokens, spec.streams, width, frame.plain, module="head")
        ops.append(with_small_weights(joined, spec.streams + 1.0))
    if spec.final_norm:
        ops.append(frame.norm("final_norm", "head"))
    if spec.embedding_dim:
        types, width = frame.types("lm_head"), spec.embedding_dim
        ops.append(gemm("head_proj", frame.tokens, width, spec.hidden, types, module="head"))
    return tuple(ops)


def _head(frame: DeviceFrame, rows: Num) -> Op:
    """The LM head, split by columns over tp.

    A tied head uses the weights of the token table, unless a pipeline puts them on different
    stages; that of a draft head uses its target's.
    """
    spec, types = frame.spec, frame.types("lm_head")
    columns = spec.vocabulary / number(frame.par.tp)
    width = spec.embedding_dim or spec.hidden
    head = gemm("lm_head", rows, columns, width, types, bias=spec.head_bias, module="head")
    if spec.draft and not spec.draft.own_head:
        return replace(head, held_weight_bytes=0.0)
    if not spec.tied:
        return head
    apart = np.asarray(frame.par.pp) > 1
    return replace(head, held_weight_bytes=np.where(apart, head.held_weight_bytes, 0.0))

"""RWKV-7: projections, low-rank gates, a recurrence of matrix states, no attention."""

from __future__ import annotations

from genz_core.graphs import Op
from genz_core.operators import pointwise
from genz_core.symbolic.symbols import number
from genz_core.types import Num
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops
from model_registry.blocks.recurrence import matrix_states
from model_registry.spec import RwkvMixer

_MODULE = "linear_attention"


@block_ops.register
def rwkv_block(mixer: RwkvMixer, frame: DeviceFrame) -> Ops:
    """Operators: token shift, rkv_proj, low-rank gates, recurrence, norm of each head, out_proj."""
    heads = mixer.heads / number(frame.par.tp)
    width, hidden = heads * mixer.head_dim, frame.spec.hidden
    role = "linear_attention.in"
    shift = pointwise(
        "token_shift", "residual", frame.tokens * hidden, 12.0, frame.plain, reads=2.0, writes=6.0,
        weights=7.0 * hidden, **frame.at(_MODULE),
    )  # fmt: skip
    norm = frame.small_norm(
        "linear_attention_norm", frame.tokens * heads, mixer.head_dim, _MODULE, weights=2.0 * width
    )
    return (
        shift,
        frame.linear("rkv_proj", role, 3.0 * width, hidden, module=_MODULE),
        *_gates(mixer, frame, width),
        *matrix_states(frame, heads, mixer.head_dim, mixer.head_dim, 3.0 * width),
        norm,
        frame.linear("out_proj", "linear_attention.out", hidden, width, module=_MODULE),
    )


def _gates(mixer: RwkvMixer, frame: DeviceFrame, width: Num) -> Ops:
    """Low-rank projections: down on every device, up to the device's heads; all but the output
    gate's have biases.
    """
    ranks = {
        "decay": mixer.decay_rank,
        "rate": mixer.rate_rank,
        "value": mixer.value_rank,
        "gate": mixer.gate_rank,
    }
    ops: list[Op] = []
    for name, rank in ranks.items():
        if rank:
            role, hidden = "linear_attention.in", frame.spec.hidden
            ops.append(frame.linear(f"{name}_a_proj", role, rank, hidden, module=_MODULE))
            ops.append(
                frame.linear(
                    f"{name}_b_proj", role, width, rank, module=_MODULE, bias=name != "gate"
                )
            )
    return tuple(ops)

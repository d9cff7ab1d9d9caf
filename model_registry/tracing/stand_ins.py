"""Stand-ins for transformers' attention, experts and masks while a model is recorded.

Its interfaces are process-wide; `capture.ONE_AT_A_TIME` guards them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

from model_registry.tracing.records import Recorder, marked_mask

#: Name under which transformers finds the stand-ins for attention and routed experts.
STAND_IN = "ridgeline"


def reserve_names() -> None:
    """Register `STAND_IN` with transformers, so that a model can be built with it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.moe import ExpertsInterface

    AttentionInterface.register(STAND_IN, _not_recording)
    AttentionMaskInterface.register(STAND_IN, _mask)
    ExpertsInterface.register(STAND_IN, _not_recording)


def _not_recording(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the stand-in runs only inside record_pass()")


@contextlib.contextmanager
def lent_interfaces(recorder: Recorder) -> Iterator[None]:
    """Give transformers the stand-ins of `recorder` inside the block, and patch what cannot run on
    the meta device.
    """
    from transformers import AttentionInterface, masking_utils
    from transformers.integrations.moe import ExpertsInterface

    AttentionInterface.register(STAND_IN, recorder.attention)
    ExpertsInterface.register(STAND_IN, recorder.experts)
    packed = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    try:
        with _every_expert_replaced(recorder), _experts_replaced(recorder):
            yield
    finally:
        masking_utils.find_packed_sequence_indices = packed
        reserve_names()


def _mask(
    batch_size: int = 1,
    q_length: Any = 1,
    kv_length: int = 1,
    local_size: int | None = None,
    config: Any = None,
    **_: Any,
) -> Any:
    """A mask of stride 0, marked with its window, since some attention functions (Phi-MoE's) are
    not given the window.

    Sparse attention indexes the mask, everything else ignores its entries.  local_size: of a
    sliding window, or of a chunk, which `mixers` reads from the config.
    """
    import torch

    window = local_size if local_size == getattr(config, "sliding_window", None) else None
    queries = q_length if isinstance(q_length, int) else q_length.shape[0]
    entry = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device="meta")
    return marked_mask(entry.expand(batch_size, 1, queries, kv_length), window or 0)


@contextlib.contextmanager
def _every_expert_replaced(recorder: Recorder) -> Iterator[None]:
    """Record the routed experts of Llama 4, whose reference code runs each on every token."""
    from transformers.models.llama4 import modeling_llama4

    def forward(self: Any, hidden: Any) -> Any:
        hidden = hidden.reshape(-1, self.hidden_dim)
        scores, logits = self.router(hidden)
        recorder.path.append(recorder.path[-1] + ".experts")
        routed = recorder.experts(self.experts, hidden, scores[:, : self.top_k], None)
        recorder.path.pop()
        return self.shared_expert(hidden) + routed, logits

    original = modeling_llama4.Llama4TextMoe.forward
    modeling_llama4.Llama4TextMoe.forward = forward
    try:
        yield
    finally:
        modeling_llama4.Llama4TextMoe.forward = original


@contextlib.contextmanager
def _experts_replaced(recorder: Recorder) -> Iterator[None]:
    """Record sets of experts that do not use transformers' interface for kernels."""
    banks = [
        module
        for module in recorder.model.modules()
        if type(module).__name__.endswith("Experts")
        and not hasattr(module, "is_transposed")
        and any(hasattr(part, "down_proj") or hasattr(part, "w2") for part in module.modules())
        and len(inspect.signature(module.forward).parameters) == 3
    ]
    for bank in banks:
        bank.forward = functools.partial(recorder.experts, bank)
    try:
        yield
    finally:
        for bank in banks:
            del bank.__dict__["forward"]

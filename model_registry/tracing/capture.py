"""Run a model on the meta device and record every operator that it dispatches.

Attention and routed experts are recorded as one operator each, through transformers' own
interfaces; of equal decoder layers only one is run, and its records are reused.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any

from model_registry.tracing.layers import LayerHooks
from model_registry.tracing.records import DispatchedOp, Recorder, Segment
from model_registry.tracing.stand_ins import lent_interfaces

#: Interfaces of transformers are process-wide, so one capture runs at a time.
ONE_AT_A_TIME = threading.Lock()
#: Operators that are dispatched but run nothing on a device.
_FREE = frozenset(
    (
        *("detach", "alias", "lift_fresh", "empty", "empty_like", "new_empty", "_unsafe_view"),
        *("new_empty_strided", "empty_strided", "is_same_size", "sym_size", "scalar_tensor"),
        "_local_scalar_dense",
    )
)


def record_pass(
    model: Any, batch: int, new_tokens: int, cache: Any = None, *, replay: bool = True
) -> tuple[list[Segment], Any]:
    """(segments, cache) of one forward pass of `batch` sequences with `new_tokens` each.

    cache: of an earlier pass, None for an empty one.  replay: run one of several equal layers, and
    let its records stand for all.

    The logits of all tokens are requested; the rewrite `last_token_head` removes them again.  If
    only the last were requested, the reference code of Gemma 4 E would run the layers that read
    earlier layers' caches on the last token only, which engines do only if configured to (vLLM's
    kv_sharing_fast_prefill is False by default: vllm/config/cache.py).
    """
    import torch

    recorder = Recorder(model)
    layers = LayerHooks(model, recorder, replay)
    ids = torch.zeros(batch, new_tokens, dtype=torch.long, device="meta")
    options: dict[str, Any] = {"input_ids": ids, "use_cache": True}
    if cache is not None:
        options[_cache_argument(model)] = cache
    with (
        ONE_AT_A_TIME,
        torch.no_grad(),
        torch.device("meta"),
        lent_interfaces(recorder),
        layers.hooked(),
        _dispatch_mode(recorder),
    ):
        out = model(**options)
    layers.close()
    return layers.segments, _cache_of(out)


def record_module(module: Any, *inputs: Any) -> list[DispatchedOp]:
    """The records of one call of a single module on the meta device."""
    import torch

    recorder = Recorder(module)
    with torch.no_grad(), _dispatch_mode(recorder):
        module(*inputs)
    return recorder.records


def _cache_argument(model: Any) -> str:
    names = inspect.signature(type(model).forward).parameters
    return next((n for n in ("past_key_values", "cache_params", "state") if n in names), "")


def _cache_of(out: Any) -> Any:
    caches = (getattr(out, name, None) for name in ("past_key_values", "cache_params", "state"))
    return next((cache for cache in caches if cache is not None), None)


def _dispatch_mode(recorder: Recorder) -> Any:
    """The dispatch mode that hands every operator to `recorder`, views left out."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            recorder.count()
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.partition("::")[2]
            if name in ("_to_copy", "clone"):
                recorder.same(args[0], out)
            if not func.is_view and name not in _FREE:
                turned = name == "convolution" and len(args) > 6 and bool(args[6])
                facts = {"transposed": 1.0} if turned else {}
                recorder.add(name, (args, kwargs or {}), out, **facts)
            return out

    return Mode()

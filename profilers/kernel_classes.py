"""Operator classes of kernels and framework operators by patterns of their names.

The rules are tried in order and the first that matches names the class.  They know the kernels of
cuBLAS, cuDNN, CUTLASS, hipBLASLt, Composable Kernel, AITER, FlashAttention, FlashInfer, vLLM,
SGLang, TensorRT-LLM, PyTorch, Triton and llama.cpp by the words in their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

UNCLASSIFIED = "unclassified"

_RULES: tuple[tuple[str, str], ...] = (
    (
        "communication",
        r"nccl|rccl|nvshmem|multimem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
        r"|cross_device_reduce|(one|two)_?shot|send_?recv|c10d::|deep_?ep|msccl",
    ),
    (
        "kv_cache",
        r"reshape_and_cache|copy_blocks|swap_blocks|store_kv|store_cache|kv_indices"
        r"|concat_and_cache|append_paged_kv|set_mla_kv|set_kv_buffer",
    ),
    (
        "moe",
        r"(?<![a-z])moe|expert|topk_?gating|grouped_?topk|grouped_?gemm|_matmul_ogs"
        r"|_combined_routing|_sum_bitmatrix|_finalize_matmul|^_topk_forward|mul_mat_id",
    ),
    (
        "attention",
        r"attention|fmha|flash_?(fwd|bwd|attn|mla)|flash::|sdpa|(?<![a-z])f?mha(?![a-z])"
        r"|(batch|single)(prefill|decode)with|_attn|attn_|(?<![a-z])mla(?![a-z])|xqa"
        r"|_fwd_(grouped_)?kernel_stage|reduce_segments|merge_state|(?<![a-z])pa_(fwd|decode|ragged)",
    ),
    (
        "ssm",
        r"mamba|selective_scan|chunk_scan|chunk_state|state_passing|causal_conv1d|gated_delta"
        r"|fused_recurrent|rwkv|(?<![a-z])ssd_|(?<![a-z])ssm",
    ),
    ("kv_cache", r"kv_?cache"),
    ("rope", r"rotary|(?<![a-z])rope"),
    ("norm", r"rms_?norm|layer_?norm|group_?norm|batch_?norm|norm2d|l2_?norm|triton.*rsqrt"),
    (
        "convolution",
        r"fprop|implicit_gemm|conv(1|2|3)d|convolution|convolve|wgrad|dgrad|winograd|im2col",
    ),
    ("gemv", r"gemv|gemmk1|mul_mat_vec|dot_kernel"),
    (
        "gemm",
        r"gemm|nvjet|xmma|cijk_|wmma|matmul|split_?k_?reduce|cublas|cutlass|marlin|machete|mul_mat"
        r"|(?<![a-z])(scaled_|add|b|badd|int_)?(mm|bmm)(?![a-z])|::linear(?![a-z])|::einsum",
    ),
    (
        "sampling",
        r"argmax|top_?k|top_?p(?![a-z])|(?<!up)(?<!down)(?<!grid_)sampl|multinomial|logits|penalt"
        r"|bitonicsort|radixsort|(?<![a-z])sort",
    ),
    ("embedding", r"embedding|index_?select|vectorized_gather|gather_kernel|get_rows"),
    ("activation", r"silu|gelu|swiglu|geglu|act_and_mul|(?<![a-z])relu|sigmoid|tanh|swish"),
    (
        "memory",
        r"copy|memcpy|memset|(?<!pre)fill|catarray|::cat(?![a-z])|concat|transpose|permute"
        r"|nchwtonhwc|nhwctonchw|autocast|index_put|scatter|arange|contiguous|::clone",
    ),
    (
        "elementwise",
        r"elementwise|pointwise|softmax|reduce_kernel|reduction|multi_tensor_apply|vectorized"
        r"|unrolled|masked_|(?<![a-z])scan|devicescan|scan_config|quant|upsample|interpolate"
        r"|cumsum|(?<![a-z])(add|mul|sub|div|neg|pow|rsqrt|mean|sum|cos|sin|where)_?(kernel)?$",
    ),
    ("triton", r"^triton_|^_?triton"),
)
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _RULES)

#: All classes, in the order of their rules.
OPERATOR_CLASSES = (*dict.fromkeys(name for name, _ in _RULES), UNCLASSIFIED)

#: Class of a measured kernel -> class under which the engine counts the same work.
ENGINE_CLASS: Mapping[str, str] = {
    "gemm": "gemm",
    "gemv": "gemm",
    "attention": "attention",
    "kv_cache": "attention",
    "moe": "moe",
    "ssm": "ssm",
    "norm": "norm",
    "rope": "pointwise",
    "activation": "pointwise",
    "memory": "pointwise",
    "elementwise": "pointwise",
    "triton": "pointwise",
    "embedding": "embedding",
    "sampling": "sampling",
    "convolution": "convolution",
    "communication": "collective",
}

#: Names are searched up to here: what a kernel is stands at the front, its types behind.
_SEARCHED_CHARS = 2000


def class_of_name(name: str | None) -> str | None:
    """Operator class of the first rule that a name matches; None where none does."""
    if not name:
        return None
    text = name[:_SEARCHED_CHARS]
    return next(
        (operator_class for operator_class, pattern in _COMPILED if pattern.search(text)), None
    )

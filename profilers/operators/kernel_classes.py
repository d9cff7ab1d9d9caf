"""Operator classes of kernels and framework operators by patterns of their names.

The rules are tried in order and the first that matches decides the class.  They cover the kernels
of cuBLAS, cuDNN, CUTLASS, hipBLASLt, Composable Kernel, AITER, DeepGEMM, DeepEP, FlashAttention,
FlashInfer, SageAttention, flash-linear-attention, FBGEMM, vLLM, SGLang, TensorRT-LLM, PyTorch,
Triton and llama.cpp; `tests/profilers/kernel_names.csv` lists the names that the tests use with the
source file of each.  A mangled name is demangled first.

A kernel that fuses the work of two classes gets the class of the operator that the engine counts
that work in: an activation between the products of experts is `moe`, a norm in a rotation `rope`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from profilers.operators.demangle import demangled

UNCLASSIFIED = "unclassified"

_RULES: tuple[tuple[str, str], ...] = (
    (
        "communication",
        r"nccl|rccl|nvshmem|multimem|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter"
        r"|all[_-]?to[_-]?all|collective[_-]?permute"
        r"|cross_device_reduce|(one|two)_?shot|send_?recv|c10d::|deep_?ep|msccl|quick_?reduce"
        r"|hybrid_?ep|lamport|mnnvl|userbuffers|symm_?mem|a2a(dispatch|combine)|pplx",
    ),
    (
        "kv_cache",
        r"reshape_and_cache|copy_blocks|swap_blocks|store_kv|store_cache|kv_indices"
        r"|concat_and_cache|append_paged_kv|set_mla_kv|set_kv_buffer|quant_and_cache"
        r"|cp_gather|gather_(and_)?\w*cache|quantize_k_cache|kvcacheio|slot_mapping|block_tables?"
        r"|kv_blocks|req_to_token",
    ),
    (
        "moe",
        r"(?<![a-z])f?moe|(?-i:M[oO]E|Moe)|expert|topk_?gating|grouped_?topk|grouped_?gemm"
        r"|_matmul_ogs|_combined_routing|_sum_bitmatrix|_finalize_matmul|^_topk_forward|mul_mat_id"
        r"|topk_?softmax|expand_?input_?rows|do_?(gated_?)?activation_?kernel"
        r"|(?<![a-z])ep_(gather|scatter)|grouped_?(contiguous|masked)|GemmType\)[1256](?!\d)",
    ),
    (
        "attention",
        r"attention|fmha|flash_?(fwd|bwd|attn|mla)|flash::|sdpa|(?<![a-z])f?mha(?![a-z])"
        r"|(batch|single)(prefill|decode)with|_attn|attn_|(?<![a-z])f?mla(?![a-z])|xqa"
        r"|_fwd_(grouped_)?kernel_stage|reduce_segments|merge_?states?|mqa_logits|clean_logits"
        r"|(?<![a-z])pa_(fwd|decode|ragged|bf16|fp16|a\d)|(?<![a-z])sage_?(fwd|attn)"
        r"|topk_?per_?row|fast_?topk|topk_transform|vertical_slash|req_index_to_global|^_fwd_kernel$",
    ),
    (
        "ssm",
        r"mamba|selective_(scan|state)|chunk_(scan|state|cumsum)|state_passing|causal_conv1d"
        r"|delta_rule|gated_delta|fused_recurrent|rwkv|(?<![a-z])ssd_|(?<![a-z])ssm"
        r"|chunk_\w*fwd_kernel|chunk_(scaled_dot_kkt|local_cumsum)|(?<![a-z])recompute_w_u"
        r"|solve_tril|_inverse_kernel|(?<![a-z])(gdn|gdr|kda)(?![a-z])|bmm_chunk",
    ),
    ("kv_cache", r"kv_?cache"),
    ("rope", r"rotary|(?<![a-z])m?rope|norm_?rope"),
    (
        "norm",
        r"rms_?norm|layer_?norm|group_?norm|batch_?norm|norm2d|l2_?norm|qk_?norm|triton.*rsqrt",
    ),
    (
        "convolution",
        r"fprop|implicit_gemm|conv(1|2|3)d|convolution|convolve|wgrad|dgrad|winograd|im2col",
    ),
    ("activation", r"(silu|gelu|swiglu|act)_(and_)?mul"),
    ("gemv", r"gemv|gemmk1|mul_mat_vec|(?<![a-z_])dot_kernel|vecdot"),
    (
        "gemm",
        r"(?<!fb)(?<!deep_)gemm|(?<!quant_)deep_gemm(?!::)|nvjet|xmma|cijk_|wmma|matmul"
        r"|split_?k_?reduce|cublas|cutlass(?!_kernels::)|marlin|machete|mul_mat|wv_?split_?k"
        r"|(?<![a-z])(scaled_|add|b|badd|int_)?(mm|bmm)(?![a-z])|::linear(?![a-z])|::einsum"
        r"|lora_(shrink|expand)|(?<![a-z])[bs]gmv|^dot\.\d|f8f8bf16|f8i4bf16|bf16i4bf16|f4f4bf16",
    ),
    (
        "sampling",
        r"argmax|top_?k|top_?p(?![a-z])|(?<!up)(?<!down)(?<!grid_)sampl|multinomial|logits|penalt"
        r"|bitonicsort|radixsort|(?<![a-z])sort|bitmask|verify_?tree|rejection_|banbadwords"
        r"|prepare_(inputs|next_token)|beamsearch",
    ),
    ("embedding", r"embedding|index_?select|vectorized_gather|gather_kernel|get_rows"),
    ("activation", r"silu|gelu|swiglu|geglu|act_and_mul|(?<![a-z])relu|sigmoid|tanh|swish"),
    (
        "memory",
        r"copy|memcpy|memset|(?<!pre)fill|catarray|::cat(?![a-z])|concat|transpose|permute"
        r"|nchwtonhwc|nhwctonchw|autocast|index_put|scatter|arange|contiguous|::clone"
        r"|reshape_cat|(?<![a-z])cat(?![a-z])|index_kernel|jagged_(to|dense)|dense_to_jagged",
    ),
    (
        "elementwise",
        r"elementwise|pointwise|soft_?max|reduce_kernel|reduction|multi_tensor_apply|vectorized"
        r"|unrolled|masked_|(?<![a-z])scan|devicescan|scan_config|quant|upsample|interpolate"
        r"|cumsum|hadamard|(?<![a-z])cvt_|(compute|clamp)_position|future_token|pack_fp32_into"
        r"|(?<![a-z])(add|mul|sub|div|neg|pow|rsqrt|mean|sum|cos|sin|where)_?(kernel)?$",
    ),
    ("triton", r"^triton_|^_?triton"),
)
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _RULES)

#: All classes, in the order of their rules.
OPERATOR_CLASSES = (*dict.fromkeys(name for name, _ in _RULES), UNCLASSIFIED)

#: Class of a measured kernel -> class in which the engine counts the same work.
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

#: Names are searched up to this length: they begin with what the kernel does and end with its
#: types.
_SEARCHED_CHARS = 2000


def class_of_name(name: str | None) -> str | None:
    """Operator class of the first rule that a name matches; None if it matches none."""
    if not name:
        return None
    return _class_of(demangled(name)[:_SEARCHED_CHARS])


@lru_cache(maxsize=4096)
def _class_of(text: str) -> str | None:
    return next(
        (operator_class for operator_class, pattern in _COMPILED if pattern.search(text)), None
    )

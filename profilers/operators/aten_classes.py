"""Operator classes of ATen operators, whose names lack the words of kernels."""

from __future__ import annotations

from collections.abc import Mapping

from profilers.operators.kernel_classes import class_of_name

#: Classes of ATen operators that the rules for kernel names miss.
_CLASS_OF_OPERATOR: Mapping[str, str] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "linear", "matmul"), "gemm"),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm"), "moe"),
    **dict.fromkeys(("embedding", "index_select"), "embedding"),
    **dict.fromkeys(("silu", "gelu", "relu"), "activation"),
    **dict.fromkeys(("mul", "add", "neg", "sub", "div"), "elementwise"),
    **dict.fromkeys(("rsqrt", "mean", "pow", "native_layer_norm", "rms_norm"), "norm"),
    **dict.fromkeys(("copy_", "_to_copy", "clone", "contiguous"), "memory"),
    "cat": "kv_cache",
    "argmax": "sampling",
}


def kind_of(name: str) -> str:
    """Operator class of an ATen operator or a kernel by its name."""
    plain = name.removeprefix("aten::")
    if "scaled_dot_product" in plain:
        return "attention"
    return _CLASS_OF_OPERATOR.get(plain) or class_of_name(name) or "unclassified"

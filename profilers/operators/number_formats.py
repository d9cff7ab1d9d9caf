"""The number format that a matrix product computes in, from the name of its kernel.

Only whole words of a name count: runs of letters and digits between underscores, brackets or a
change between letters and digits, so that "NEPBS8_" of a tile's layout does not read as "s8".
"""

from __future__ import annotations

import re

#: Arithmetic types by whole words of kernel names, lower case; the first match counts.
#: The letters of Tensile ("Cijk_Alik_Bljk_BBS_BH"): inputs, output and arithmetic, each S (fp32),
#: H (fp16), B (bf16), I8, F8, X (tf32).  Source: ROCm/Tensile, Tensile/DataType.py.
_WORDS: tuple[tuple[str, str], ...] = (
    ("fp4", r"nvf4\w*|mxf4\w*|\w*e2m1\w*|\w*fp4"),
    ("fp8", r"e[45]m[23]\w*|\w*fp8\w*|[bf]8[bf]8\w*|f8[bhs]{1,2}|float8\w*|\w*qgmma\w*"),
    ("int8", r"s8s8\w*|s8|i8|i8i8\w*|i8ii|int8\w*|imma\w*|i16832gemm"),
    ("bf16", r"bf16\w*|bfloat16\w*|bbs|bb|bss|s\d*16816gemm_bf16"),
    ("fp16", r"hgemm\w*|h16\w*|s\d*16816gemm_f16|f16\w*|fp16\w*|float16\w*|half\w*|hhs|hh|hss"),
    ("tf32", r"tf32\w*|xss"),
    ("fp32", r"sgemm\w*|f32f32\w*|ffma|sb|ss|sss"),
)
_KINDS = tuple((name, re.compile(rf"(?:{pattern})\Z")) for name, pattern in _WORDS)
_SPLIT = re.compile(r"[^a-z0-9]+")
#: Kernels of experts that multiply, unlike those that route, sort or sum.
_EXPERT_PRODUCT = re.compile(r"matmul|mat_?mul|gemm|mul_mat|marlin|fused_?moe|fmoe", re.IGNORECASE)
#: Only this many characters of a name are searched.
_READ_CHARS = 2000


def type_of_name(name: str) -> str | None:
    """The number format in the name of a matrix product's kernel; None where there is none."""
    words = _SPLIT.split(name[:_READ_CHARS].lower())
    return next(
        (kind for kind, pattern in _KINDS if any(pattern.match(word) for word in words)), None
    )


def weights_of_name(name: str) -> str | None:
    """The number format of the weights in the name of a matrix product's kernel; None where there
    is none.

    4-bit formats of one arithmetic are told apart: mxfp4 and nvfp4.
    """
    kind = type_of_name(name)
    if kind != "fp4":
        return kind
    lower = name[:_READ_CHARS].lower()
    return next((stored for stored in ("mxfp4", "nvfp4") if stored[:3] in lower), kind)


def is_expert_product(name: str) -> bool:
    """Whether a kernel of experts, by its name, multiplies their weights."""
    return _EXPERT_PRODUCT.search(name[:_READ_CHARS]) is not None

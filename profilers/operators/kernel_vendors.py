"""The vendor whose software a kernel comes from, by words that only its kernels have.

AMD: names of Tensile ("Cijk_"), Composable Kernel, AITER, rocPRIM and HIP's types.  NVIDIA: names
of CUTLASS, cuBLAS, cuDNN, TensorRT-LLM, its architectures and CUDA's types.  PyTorch's own kernels,
those of Triton, and "nccl", which RCCL also uses, name no vendor.
"""

from __future__ import annotations

import re

import pandas as pd

_MARKS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "AMD",
        re.compile(
            r"Cijk_|(?<![a-z])ck(_tile)?::|__hip_|hip_bfloat|sgl_hip|aiter|rocprim|rocwmma|rocblas"
            r"|hipblas|miopen|(?<![a-z])gfx9\d"
        ),
    ),
    (
        "NVIDIA",
        re.compile(
            r"cutlass|cublas|nvjet|cudnn|xmma|trtllm|__nv_|(?<![A-Za-z0-9])sm_?\d\d\d?[a-z]?_|Sm\d\d"
            r"|(volta|turing|ampere|hopper|blackwell)_"
        ),
    ),
)
#: Only this many characters of a name are searched.
_READ_CHARS = 2000


def vendor_of_name(name: str) -> str | None:
    """The vendor that a kernel's name shows; None where it shows none or both."""
    found = [vendor for vendor, marks in _MARKS if marks.search(name[:_READ_CHARS])]
    return found[0] if len(found) == 1 else None


def time_by_vendor(kernels: pd.DataFrame) -> dict[str, float]:
    """{vendor: seconds of kernels that come from its software}, without those that name no vendor.

    kernels: a kernel table; rows without a duration are left out.
    """
    spent: dict[str, float] = {}
    named = kernels["full_name"].astype(object).fillna(kernels["name"].astype(object))
    for name, seconds in kernels["duration_s"].groupby(named).sum().items():
        if seconds > 0 and (vendor := vendor_of_name(str(name))):
            spent[vendor] = spent.get(vendor, 0.0) + float(seconds)
    return spent

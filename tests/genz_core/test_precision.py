"""Number formats: spellings, bits, and the arithmetic that they require."""

from __future__ import annotations

import pytest

from genz_core.errors import UnknownPrecision
from genz_core.precision import FORMATS, arithmetic, bytes_of, canonical, runnable


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [("BF16", "bf16"), ("torch.float16", "fp16"), ("Q4_K_M", "q4_k_m"), ("fp8-block", "fp8_block"),
     ("AWQ", "int4"), ("float8_e4m3fn", "fp8")],
)  # fmt: skip
def test_common_spellings_are_understood(spelling, expected):
    assert canonical(spelling) == expected


def test_an_unknown_format_names_the_near_ones():
    with pytest.raises(UnknownPrecision, match=r"near: .*fp8"):
        canonical("fp9")


def test_block_formats_count_their_scales():
    """OCP MX: 32 elements and 8 bits; NVFP4: 16 and 8; ggml q8_0: 34 bytes for 32 elements;
    compressed-tensors: 32 elements and 16 bits.
    """
    assert FORMATS["mxfp4"].bits == 4.25
    assert FORMATS["nvfp4"].bits == 4.5
    assert bytes_of("q8_0") == 34 / 32
    assert FORMATS["int4_g32"].bits == 4.5


def test_weight_only_formats_multiply_in_sixteen_bits():
    assert arithmetic("int4", "bf16") == "bf16"
    assert arithmetic("int8", "bf16") == "bf16"
    assert arithmetic("int8", "int8") == "int8"
    assert arithmetic("mxfp4", "bf16") == "bf16"


def test_eight_and_four_bit_floats_multiply_in_their_type_unless_told():
    assert arithmetic("fp8", "bf16") == "fp8"
    assert arithmetic("nvfp4", "bf16") == "fp4"
    assert arithmetic("fp8", "bf16", compute="bf16") == "bf16"


def test_a_missing_peak_falls_back_towards_wider_types():
    assert runnable("fp4", {"fp8": 1.0, "bf16": 1.0}) == "bf16"
    assert runnable("fp8", {"fp16": 1.0}) == "fp16"
    assert runnable("bf16", {"bf16": 1.0}) == "bf16"

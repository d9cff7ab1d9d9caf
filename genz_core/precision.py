"""Number formats: bits per element with their scales, and the arithmetic of their products.

Block formats have a scale per block, so an element costs more than the format's name says: an nvfp4
element takes 4 bits plus one fp8 scale per 16 elements, 4.5 bits in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from genz_core.errors import UnknownPrecision


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A number format.

    bits: per element, scales included.  compute: arithmetic type of a matrix product whose
    weights have this format (16 bit for weight-only formats).  source: origin of `bits`.
    cache: format of the KV cache that checkpoints in this format name, if one tool writes all of
    them.  also: type that kernels of some engines multiply in, quantising their inputs.
    """

    name: str
    bits: float
    compute: str
    source: str
    cache: str = ""
    also: str = ""

    @property
    def bytes(self) -> float:
        """Bytes per element, scales included."""
        return self.bits / 8


_OCP = "OCP Microscaling Formats v1.0 (2023): blocks of 32, one 8-bit scale"
_NVFP4 = "NVIDIA NVFP4: blocks of 16, one fp8 scale (the scale per tensor is negligible)"
_GPTQ = "GPTQ/AWQ checkpoints: groups of 128, one 16-bit scale and one 4-bit zero point"
_W4A8 = "TensorRT-LLM W4A8_AWQ: weights as AWQ's, inputs quantised to fp8 at each product"
_PACKED = "compressed-tensors checkpoints: groups of 32, one 16-bit scale (no zero points)"
_GPTQ3 = "GPTQ checkpoints of 2 and 3 bits: groups of 128, one 16-bit scale, one zero point"
_TERNARY = "BitNet b1.58 (arXiv:2504.12285): four weights packed in a byte, a scale per tensor"
_FP6 = "FP6-LLM (arXiv:2401.14112): e3m2, one 16-bit scale a channel; products in 16 bit"
_GGML = "ggml block layouts, ggml-common.h: bytes of a block / elements of a block"
_LLAMA_CPP = "llama.cpp tools/quantize README, Llama-3.1-8B: bits per weight of the mixture"
#: Bits per weight of ggml's formats by their source.  Their products quantise the inputs to blocks
#: of 8-bit integers: ggml-cuda/mmq.cuh (block_q8_1_mmq), ggml-cpu/quants.c (vec_dot_type).
_BLOCKS: Mapping[str, Mapping[str, float]] = {
    _GGML: {
        "q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0, "q8_0": 8.5, "iq4_nl": 4.5,
        "iq4_xs": 4.25, "ggml_q2_k": 2.625, "ggml_q3_k": 3.4375, "ggml_q4_k": 4.5, "ggml_q5_k": 5.5,
        "iq1_s": 1.5625, "iq1_m": 1.75, "iq2_xxs": 2.0625, "iq2_xs": 2.3125, "iq2_s": 2.5625,
        "iq3_xxs": 3.0625, "iq3_s": 3.4375, "tq1_0": 1.6875, "tq2_0": 2.0625,
    },
    _LLAMA_CPP: {
        "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_m": 3.9960, "q3_k_l": 4.2979, "q4_k_s": 4.6672,
        "q4_k_m": 4.8944, "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633,
    },
}  # fmt: skip

_FORMATS = (
    NumberFormat("fp32", 32, "fp32", "IEEE 754"),
    NumberFormat("tf32", 32, "tf32", "stored as fp32"),
    NumberFormat("bf16", 16, "bf16", "bfloat16"),
    NumberFormat("fp16", 16, "fp16", "IEEE 754"),
    NumberFormat(
        "fp8", 8, "fp8", "OCP 8-bit floating point (2023), one scale per tensor or channel"
    ),
    NumberFormat(
        "fp8_block", 8 + 32 / 128**2, "fp8", "DeepSeek-V3 report: one fp32 scale per 128 x 128"
    ),
    NumberFormat("mxfp8", 8 + 8 / 32, "fp8", _OCP),
    NumberFormat("int8", 8, "bf16", "one scale per channel"),
    NumberFormat("int4", 4 + (16 + 4) / 128, "bf16", _GPTQ),
    NumberFormat("w4a8", 4 + (16 + 4) / 128, "fp8", _W4A8),
    NumberFormat("int3", 3 + (16 + 3) / 128, "bf16", _GPTQ3),
    NumberFormat("int2", 2 + (16 + 2) / 128, "bf16", _GPTQ3),
    NumberFormat("ternary", 2, "bf16", _TERNARY),
    NumberFormat("fp6", 6, "bf16", _FP6),
    NumberFormat("mxfp6", 6 + 8 / 32, "fp8", _OCP),
    NumberFormat("int4_g32", 4 + 16 / 32, "bf16", _PACKED),
    NumberFormat("mxfp4", 4 + 8 / 32, "bf16", _OCP),
    NumberFormat("nvfp4", 4 + 8 / 16, "fp4", _NVFP4, cache="fp8"),  # ModelOpt's default on export
    *(
        NumberFormat(name, bits, "fp16", source, also="int8")
        for source, formats in _BLOCKS.items()
        for name, bits in formats.items()
    ),
)
FORMATS: Mapping[str, NumberFormat] = {fmt.name: fmt for fmt in _FORMATS}

_ALIASES: Mapping[str, str] = {
    "bitnet": "ternary",
    "b1.58": "ternary",
    "1.58bit": "ternary",
    "i2_s": "ternary",
    "w2a16": "int2",
    "w3a16": "int3",
    "fp6_e3m2": "fp6",
    "mxfp6_e3m2": "mxfp6",
    "mxfp6_e2m3": "mxfp6",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "f16": "fp16",
    "f32": "fp32",
    "float8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "e4m3": "fp8",
    "w8a8_fp8": "fp8",
    "block_fp8": "fp8_block",
    "w8a8": "int8",
    "w8a16": "int8",
    "int8_wo": "int8",
    "int4_wo": "int4",
    "w4a16": "int4",
    "awq": "int4",
    "gptq": "int4",
    "fp4": "nvfp4",
    "w4a8_awq": "w4a8",
    "w16a16": "bf16",
    "q2_k_m": "q2_k",
    "q3_k": "q3_k_m",
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
}

#: Where a system has no peak for a type, its matrix products run in the first of these that has
#: one.
_FALLBACK: Mapping[str, tuple[str, ...]] = {
    "fp4": ("bf16", "fp16", "fp32"),  # engines then use nvfp4 only as a storage format
    "fp8": ("bf16", "fp16", "fp32"),
    "int8": ("bf16", "fp16", "fp32"),
    "int4": ("int8", "bf16", "fp16", "fp32"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32",),
    "fp32": ("tf32",),
}


#: What an unknown name may have meant.
_COMMON = "Common formats: bf16, fp8, nvfp4, mxfp4, int8, int4, awq, q4_k_m."


@lru_cache(maxsize=256)
def canonical(name: str) -> str:
    """Name of a format in `FORMATS` from a common spelling: `Q4_K_M`, `float16`, `FP8-Block`.

    Raises:
        UnknownPrecision: no format has that name; near ones are listed.
    """
    folded = name.strip().casefold().replace("-", "_").replace("torch.", "")
    folded = _ALIASES.get(folded, folded)
    if folded not in FORMATS:
        raise UnknownPrecision("precision", name, [*FORMATS, *_ALIASES], instead=_COMMON)
    return folded


def format_of(name: str) -> NumberFormat:
    """The format of a name or alias.

    Raises:
        UnknownPrecision: no format has that name.
    """
    return FORMATS[canonical(name)]


@lru_cache(maxsize=256)
def bytes_of(name: str) -> float:
    """Bytes per element of a format, its scales included.  Raises `UnknownPrecision`."""
    return format_of(name).bytes


@lru_cache(maxsize=1024)
def arithmetic(weights: str, activations: str = "", compute: str = "") -> str:
    """Arithmetic type of a matrix product from the formats of its operands.

    A forced `compute` takes precedence.  8-bit integers multiply as integers only when both
    operands are integers; otherwise they are a storage format, like int4, mxfp4 and the GGUF types.
    """
    if compute:
        return format_of(compute).compute if canonical(compute) != "int8" else "int8"
    weight, activation = format_of(weights), format_of(activations) if activations else None
    if weight.name == "int8" and activation is not None and activation.name == "int8":
        return "int8"
    if activation is not None and weight.compute in ("bf16", "fp16") and activation.bits == 16:
        return activation.compute
    return weight.compute


def runnable(compute: str, peaks: Mapping[str, float]) -> str:
    """Type that a product of type `compute` runs in: its own, or a fallback that has a peak.

    peaks: {type: FLOP/s} of the system.  If no fallback has a peak, it is `compute` itself.
    """
    if compute in peaks:
        return compute
    return next((other for other in _FALLBACK.get(compute, ()) if other in peaks), compute)

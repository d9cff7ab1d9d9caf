"""The words of a model's name, and the number formats that it announces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from genz_core.errors import UnknownPrecision
from genz_core.precision import FORMATS, canonical

Tokens = tuple[str, ...]
_TUNING = frozenset(
    {"hf", "instruct", "inst", "instruction", "chat", "it", "pt", "base"}
    | {"sft", "dpo", "rlhf", "preview", "thinking"}
)
_DATE = re.compile(r"2[3-6](0[1-9]|1[0-2])|(0[1-9]|1[0-2])([0-2]\d|3[01])|20[2-3]\d(\d{4})?")
_EDGE, _END = r"(?:^|(?<=[-_.:/ ]))", r"(?=$|[-_.:/ ])"


@dataclass(frozen=True, slots=True)
class _FormatMark:
    """A pattern of a part of a name, and the checkpoint's formats that this part announces."""

    pattern: str
    weights: str = ""
    kv: str = ""
    activations: str = ""


_MARKS = (
    _FormatMark(r"(?:ud[-_])?(?P<gguf>i?q[1-8](?:_[a-z0-9]{1,3}){1,2})"),
    _FormatMark(r"fp8[-_]?kv", "fp8", kv="fp8"),
    _FormatMark(r"fp8[-_]block(?:wise)?|block[-_]fp8", "fp8_block"),
    _FormatMark(r"w8a8[-_]fp8|fp8(?:[-_](?:dynamic|static|e4m3|pertensor))*", "fp8"),
    _FormatMark(r"nvfp4(?:a16)?|fp4", "nvfp4"),
    _FormatMark(r"mxfp4", "mxfp4"),
    _FormatMark(r"(?:gptq[-_])?(?:int8[-_])?w8a8", "int8", activations="int8"),
    _FormatMark(r"(?:gptq|bnb|mlx)[-_](?:int8|8[-_]?bit)|w8a16|int8|8[-_]?bit", "int8"),
    _FormatMark(
        r"(?:awq|gptq|bnb|mlx)(?:[-_](?:int4|4[-_]?bit))?|w4a16|int4|4[-_]?bit|nf4", "int4"
    ),
    _FormatMark(r"(?P<other>exl[23]|aqlm|hqq|[1-35-7](?:\.\d+)?[-_]?b(?:it|pw))"),
    _FormatMark(r"bf16|bfloat16", "bf16"),
    _FormatMark(r"fp16|float16|f16", "fp16"),
    _FormatMark(
        r"gguf|ggml|quantized|qat|unsloth|imatrix|i1|autoround|marlin|onnx|openvino|ov|gs?\d+|\d+g"
    ),
)
#: Accounts whose FP8 checkpoints have a scale per 128 x 128 block.
_BLOCK_FP8 = ("qwen", "zai-org", "deepseek-ai", "minimaxai", "stepfun-ai")


def announced_formats(name: str) -> tuple[str, dict[str, str]]:
    """(the name without the parts that announce formats, {tensors: format} of those parts).

    Raises:
        UnknownPrecision: a quantisation that is not described.
    """
    account, _, rest = name.casefold().rpartition("/")
    formats: dict[str, str] = {}
    for mark in _MARKS:
        match = re.search(f"{_EDGE}(?:{mark.pattern}){_END}", rest)
        if not match:
            continue
        groups = match.groupdict()
        if groups.get("other"):
            raise UnknownPrecision("precision", groups["other"], FORMATS)
        weights = canonical(groups["gguf"]) if groups.get("gguf") else mark.weights
        marked = {"weights": weights, "kv": mark.kv, "activations": mark.activations}
        formats = {**{key: value for key, value in marked.items() if value}, **formats}
        rest = re.sub(f"{_EDGE}(?:{mark.pattern}){_END}", "", rest)
    if account == "nvidia" and formats.get("weights") in ("fp8", "nvfp4"):
        formats["kv"] = "fp8"  # ModelOpt's default on export
    if account in _BLOCK_FP8 and formats.get("weights") == "fp8":
        formats["weights"] = "fp8_block"
    return (f"{account}/{rest}" if account else rest), formats


@lru_cache(maxsize=4096)
def tokens_of(name: str) -> Tokens:
    """`meta-llama/Meta-Llama-3_1-8B` -> ("llama", "3.1", "8b"); the account is left out."""
    text = re.sub(r"(?<=\d)_(?=\d)", ".", name.casefold().rpartition("/")[2])
    pieces: list[str] = []
    for piece in re.split(r"[-_:/@\s]+", text):
        word = re.fullmatch(r"([a-z]{2,})(\d+(?:\.\d+)*)", piece.strip("."))
        pieces += word.groups() if word else [piece.strip(".")]
    tokens = tuple(piece for piece in pieces if piece)
    return tokens[1:] if tokens[:2] == ("meta", "llama") else tokens


def without_tuning(tokens: Tokens) -> Tokens:
    """Without words of tuning: `instruct`, `chat`, `base`."""
    return tuple(token for token in tokens if token not in _TUNING)


def without_dates(tokens: Tokens) -> Tokens:
    """Without dates: `2507`, `0528`, `08-2024`."""
    month = re.compile(r"0[1-9]|1[0-2]")
    pairs = zip(tokens, (*tokens[1:], ""), strict=False)
    return tuple(
        token
        for token, after in pairs
        if not _DATE.fullmatch(token) and not (month.fullmatch(token) and _DATE.fullmatch(after))
    )


def tokens_with_hyphens(name: str) -> Tokens:
    """The tokens of a name whose underscores do not stand for dots."""
    return tokens_of(name.replace("_", "-"))

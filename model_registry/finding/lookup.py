"""From the many names of a model to the architecture that ships here.

A name may be an old spelling, a chat or dated re-release, somebody's fine-tune, a quantised
re-publication, or all of these at once; it resolves when size and series are the same, and the
answer says which architecture was used.  A name of another size or series never resolves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from genz_core.errors import UnknownModel, UnknownPrecision
from genz_core.precision import FORMATS, canonical
from model_registry.finding.catalog import Record, records

Matched = Literal["name", "alias", "re-release", "fine-tune"]
Tokens = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A shipped model that a name stands for.

    matched: how the name was understood.  note: a sentence for the user, "" for a plain name.
    weights, kv, activations: formats that the name itself announces ("-AWQ", "FP8-KV",
    "Q4_K_M"), "" for the checkpoint's own.
    """

    id: str
    path: Path
    matched: Matched
    note: str = ""
    weights: str = ""
    kv: str = ""
    activations: str = ""

    def config(self) -> dict[str, Any]:
        return records()[self.id].config()


# ------------------------------------------------------------------------------- words


_TUNING = frozenset(
    {"hf", "instruct", "inst", "instruction", "chat", "it", "pt", "base"}
    | {"sft", "dpo", "rlhf", "preview", "thinking"}
)
#: A leftover word that means other layers, another head or another input than the base has.
_OTHER_ARCHITECTURE = frozenset(
    {"vl", "vlm", "vision", "visual", "llava", "video", "audio", "omni", "speech", "tts", "ocr"}
    | {"multimodal", "embed", "embedding", "embeddings", "reward", "rm", "prm", "rerank"}
    | {"reranker", "classifier", "medusa", "eagle", "draft", "speculator", "moe", "mamba"}
    | {"hybrid", "linear", "pruned", "minitron", "width", "depth", "sparse", "2of4", "distill"}
    | {"upscaled", "lora", "adapter", "mtp"}
)
_SIZE = re.compile(r"\d+(\.\d+)?[bm]|\d+x(\d+(\.\d+)?b)?|[ae]\d+(\.\d+)?b|\d+e")
_VERSION = re.compile(r"v\d+(\.\d+)*")
_DATE = re.compile(r"2[3-6](0[1-9]|1[0-2])|(0[1-9]|1[0-2])([0-2]\d|3[01])|20[2-3]\d(\d{4})?")
_EDGE, _END = r"(?:^|(?<=[-_.:/ ]))", r"(?=$|[-_.:/ ])"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a piece of a name says about the formats of the checkpoint."""

    pattern: str
    weights: str = ""
    kv: str = ""
    activations: str = ""


_MARKS = (
    _Mark(r"(?:ud[-_])?(?P<gguf>i?q[1-8](?:_[a-z0-9]{1,3}){1,2})"),
    _Mark(r"fp8[-_]?kv", "fp8", kv="fp8"),
    _Mark(r"fp8[-_]block(?:wise)?|block[-_]fp8", "fp8_block"),
    _Mark(r"w8a8[-_]fp8|fp8(?:[-_](?:dynamic|static|e4m3|pertensor))*", "fp8"),
    _Mark(r"nvfp4(?:a16)?|fp4", "nvfp4"),
    _Mark(r"mxfp4", "mxfp4"),
    _Mark(r"(?:gptq[-_])?(?:int8[-_])?w8a8", "int8", activations="int8"),
    _Mark(r"(?:gptq|bnb|mlx)[-_](?:int8|8[-_]?bit)|w8a16|int8|8[-_]?bit", "int8"),
    _Mark(r"(?:awq|gptq|bnb|mlx)(?:[-_](?:int4|4[-_]?bit))?|w4a16|int4|4[-_]?bit|nf4", "int4"),
    _Mark(r"(?P<other>exl[23]|aqlm|hqq|[1-35-7](?:\.\d+)?[-_]?b(?:it|pw))"),
    _Mark(r"bf16|bfloat16", "bf16"),
    _Mark(r"fp16|float16|f16", "fp16"),
    _Mark(
        r"gguf|ggml|quantized|qat|unsloth|imatrix|i1|autoround|marlin|onnx|openvino|ov|gs?\d+|\d+g"
    ),
)
#: Accounts whose FP8 checkpoints have a scale per 128 x 128 block.
_BLOCK_FP8 = ("qwen", "zai-org", "deepseek-ai", "minimaxai", "stepfun-ai")


def _announced(name: str) -> tuple[str, dict[str, str]]:
    """A name without the pieces that speak of quantisation, and what they say."""
    account, _, rest = name.casefold().rpartition("/")
    said: dict[str, str] = {}
    for mark in _MARKS:
        found = re.search(f"{_EDGE}(?:{mark.pattern}){_END}", rest)
        if not found:
            continue
        groups = found.groupdict()
        if groups.get("other"):
            raise UnknownPrecision("precision", groups["other"], FORMATS)
        weights = canonical(groups["gguf"]) if groups.get("gguf") else mark.weights
        fresh = {"weights": weights, "kv": mark.kv, "activations": mark.activations}
        said = {**{key: value for key, value in fresh.items() if value}, **said}
        rest = re.sub(f"{_EDGE}(?:{mark.pattern}){_END}", "", rest)
    if account == "nvidia" and said.get("weights") in ("fp8", "nvfp4"):
        said["kv"] = "fp8"  # what ModelOpt exports by default
    if account in _BLOCK_FP8 and said.get("weights") == "fp8":
        said["weights"] = "fp8_block"
    return (f"{account}/{rest}" if account else rest), said


def _tokens(name: str) -> Tokens:
    """`meta-llama/Meta-Llama-3_1-8B` -> ("llama", "3.1", "8b"); the account is left out."""
    text = re.sub(r"(?<=\d)_(?=\d)", ".", name.casefold().rpartition("/")[2])
    pieces: list[str] = []
    for piece in re.split(r"[-_:/@\s]+", text):
        word = re.fullmatch(r"([a-z]{2,})(\d+(?:\.\d+)*)", piece.strip("."))
        pieces += word.groups() if word else [piece.strip(".")]
    tokens = tuple(piece for piece in pieces if piece)
    return tokens[1:] if tokens[:2] == ("meta", "llama") else tokens


def _core(tokens: Tokens) -> Tokens:
    return tuple(token for token in tokens if token not in _TUNING)


def _undated(tokens: Tokens) -> Tokens:
    """Without dates: `2507`, `0528`, `08-2024`."""
    month = re.compile(r"0[1-9]|1[0-2]")
    pairs = zip(tokens, (*tokens[1:], ""), strict=False)
    return tuple(
        token
        for token, after in pairs
        if not _DATE.fullmatch(token) and not (month.fullmatch(token) and _DATE.fullmatch(after))
    )


# ------------------------------------------------------------------------------- look-up


def _add(index: dict[Tokens, list[Record]], key: Tokens, record: Record) -> None:
    if key and record not in index.setdefault(key, []):
        index[key].append(record)


@cache
def _index() -> tuple[Mapping[str, Record], Mapping[Tokens, list[Record]], Mapping[Tokens, Any]]:
    """By spelling, by all tokens, and by tokens without tuning words."""
    spelled: dict[str, Record] = {}
    full: dict[Tokens, list[Record]] = {}
    core: dict[Tokens, list[Record]] = {}
    for record in records().values():
        for name in (record.id, *record.aliases):
            spelled[name.casefold()] = record
            _add(full, _tokens(name), record)
            _add(core, _core(_tokens(name)), record)
    return spelled, full, core


def _one(found: Iterable[Record], account: str) -> Record | None:
    """The record that several names share, if they are one architecture.

    Quantised re-publications are passed over for other accounts: theirs is another map.
    """
    found = [record for record in found if not account or not _foreign(record, account)]
    if len(found) < 2:
        return found[0] if found else None
    own = [record for record in found if record.id.casefold().startswith(f"{account}/")]
    if len(own) == 1:
        return own[0]
    first = found[0].config()
    return found[0] if all(record.config() == first for record in found[1:]) else None


def _foreign(record: Record, account: str) -> bool:
    """Whether the record is a quantised re-publication of somebody else."""
    owner = record.id.casefold().partition("/")[0]
    return owner != account and bool(_announced(record.id)[1])


def _same_series(name: str) -> Record | None:
    """The model of the same series, size and date, whatever its tuning or account."""
    _, full, core = _index()
    account, tokens = name.casefold().rpartition("/")[0], _tokens(name)
    for index, key in ((full, tokens), (core, tokens), (core, _core(tokens))):
        record = _one(index.get(key, ()), account)
        if record:
            return record
    return _dated(_core(tokens), account)


def _dated(tokens: Tokens, account: str) -> Record | None:
    """A dated name of an undated model, or an undated one of a single dated model."""
    *_, core = _index()
    plain = _undated(tokens)
    if plain != tokens:
        return _one(core.get(plain, ()), account)
    if not any(_SIZE.fullmatch(token) for token in tokens):
        return None
    return _one((r for key, rs in core.items() if _undated(key) == tokens for r in rs), account)


def _positions(inner: Tokens, outer: Tokens) -> int:
    """Where `inner` starts in `outer`, -1 for nowhere."""
    starts = range(len(outer) - len(inner) + 1)
    return next((at for at in starts if outer[at : at + len(inner)] == inner), -1)


def _base_of(name: str) -> Record | None:
    """The model that a fine-tune names as its base: `Hermes-3-Llama-3.1-8B`."""
    *_, core = _index()
    tokens = _undated(_core(_tokens(name)))
    best: Tokens = ()
    for key in core:
        sized = len(key) > 1 and any(_SIZE.fullmatch(token) for token in key)
        if sized and len(key) > len(best) and _positions(key, tokens) >= 0:
            best = key
    if not best:
        return None
    at = _positions(best, tokens)
    before, after = tokens[:at], tokens[at + len(best) :]
    strange = any(_SIZE.fullmatch(t) or t in _OTHER_ARCHITECTURE for t in (*before, *after))
    versioned = any(key[: len(best)] == best and _VERSION.fullmatch(key[-1]) for key in core)
    if strange or (after and versioned and _VERSION.fullmatch(after[0])):
        return None
    return _one(core[best], "")


def _note(name: str, record: Record, matched: Matched, said: Mapping[str, str]) -> str:
    how = {
        "name": "",
        "alias": f"{name} is {record.id} under another name",
        "re-release": f"{name} has the architecture of {record.id}",
        "fine-tune": f"{name} is taken as a fine-tune of {record.id}, the same architecture",
    }[matched]
    parts = [f"{key} in {value}" for key, value in said.items()]
    if parts:
        how += f"; {', '.join(parts)}, as the name says"
    elif re.search("gguf|ggml", name, re.IGNORECASE):
        how += "; its GGUF type is not named, so weights are as in the original checkpoint"
    return how.removeprefix("; ")


def _entry(name: str, record: Record, matched: Matched, said: Mapping[str, str]) -> Entry:
    return Entry(record.id, record.path, matched, _note(name, record, matched, said), **said)


def names() -> list[str]:
    """Ids of every shipped model, as Hugging Face spells them today."""
    return list(records())


def resolve(name: str) -> Entry:
    """The shipped model that `name` stands for.

    name: a Hugging Face id or a name derived from one, in any case, with or without account.

    Raises:
        UnknownModel: nothing of that size and series ships; near names are suggested.
        UnknownPrecision: the name announces a quantisation that nobody has described.
    """
    name = name.strip().removesuffix(".gguf").strip("/")
    record = _index()[0].get(name.casefold())
    if record:
        plain = record.id.casefold() == name.casefold()
        return _entry(name, record, "name" if plain else "alias", {})
    record = _same_series(name)
    if record:
        return _entry(name, record, "re-release", {})
    stripped, said = _announced(name)
    record = _index()[0].get(stripped.strip("-_.: ")) or _same_series(stripped)
    if record:
        return _entry(name, record, "re-release", said)
    record = _base_of(stripped)
    if record:
        return _entry(name, record, "fine-tune", said)
    raise UnknownModel(
        "model", name, names(), "Give a config.json, or a name that `ridgeline models` lists."
    )

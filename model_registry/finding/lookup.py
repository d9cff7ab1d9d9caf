"""The shipped architecture behind any of a model's many names.

A name may be an old spelling, a chat or dated re-release, a fine-tune, a quantised re-publication,
or several of these; it resolves when size and series are the same, and the answer states which
architecture was used.  A name of another size or series never resolves.

A name without an account stands first for the checkpoint with exactly this name (`Qwen3-235B-A22B`
is Qwen's own, not a quantised re-publication), and last for the model whose name begins with it, if
there is only one.  Where a name is an alias and also begins other models' names, the note lists
those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Literal

from genz_core.errors import LONGEST_NAME, RidgelineError, UnknownModel
from model_registry.finding.catalog import ShippedModel, shipped_model, shipped_models
from model_registry.finding.libraries import library_name
from model_registry.finding.name_words import (
    Tokens,
    announced_formats,
    tokens_of,
    tokens_with_hyphens,
    without_dates,
    without_tuning,
)
from model_registry.finding.unshipped_models import reason_unshipped
from model_registry.kinds import refuse_other_names

Matched = Literal["name", "alias", "re-release", "fine-tune", "beginning"]


@dataclass(frozen=True, slots=True)
class NameMatch:
    """The shipped model that a name resolves to, and the formats that the name announces.

    matched: how the name was understood.  note: a sentence for the user, "" for an exact name.
    weights, kv, activations: announced formats ("-AWQ", "FP8-KV", "Q4_K_M"), "" for the
    checkpoint's own.
    """

    model: ShippedModel
    matched: Matched
    note: str = ""
    weights: str = ""
    kv: str = ""
    activations: str = ""

    @property
    def id(self) -> str:
        """Its current Hugging Face id."""
        return self.model.id


#: Remaining words that mean other layers, another head or another input than the base model has.
_OTHER_ARCHITECTURE = frozenset(
    {"vl", "vlm", "vision", "visual", "llava", "video", "audio", "omni", "speech", "tts", "ocr"}
    | {"multimodal", "embed", "embedding", "embeddings", "reward", "rm", "prm", "rerank"}
    | {"reranker", "classifier", "medusa", "eagle", "draft", "speculator", "moe", "mamba"}
    | {"hybrid", "linear", "pruned", "minitron", "width", "depth", "sparse", "2of4", "distill"}
    | {"upscaled", "lora", "adapter", "mtp"}
)
_SIZE = re.compile(r"\d+(\.\d+)?[bm]|\d+x(\d+(\.\d+)?b)?|[ae]\d+(\.\d+)?b|\d+e")
_NUMBER = re.compile(r"\d+(\.\d+)*")
_VERSION = re.compile(r"v\d+(\.\d+)*")
#: Most other models that a note on a name lists.
_MOST_OTHERS = 4


def _add(index: dict[Tokens, list[ShippedModel]], key: Tokens, model: ShippedModel) -> None:
    if key and model not in index.setdefault(key, []):
        index[key].append(model)


@cache
def _spelled() -> Mapping[str, ShippedModel]:
    """Shipped models by spelling."""
    models = shipped_models().values()
    return {name.casefold(): model for model in models for name in (model.id, *model.aliases)}


@cache
def _index() -> tuple[Mapping[Tokens, list[ShippedModel]], Mapping[Tokens, Any]]:
    """Shipped models by all tokens, and by tokens without words of tuning."""
    full: dict[Tokens, list[ShippedModel]] = {}
    core: dict[Tokens, list[ShippedModel]] = {}
    for model in shipped_models().values():
        for name in (model.id, *model.aliases):
            _add(full, tokens_of(name), model)
            _add(core, without_tuning(tokens_of(name)), model)
    return full, core


def _unambiguous(models: Iterable[ShippedModel], account: str) -> ShippedModel | None:
    """The architecture of `models`, if they all have the same; the account's own model where it has
    one.

    Quantised re-publications by other accounts are left out, because their formats differ.
    """
    models = [model for model in models if not account or not _foreign(model, account)]
    if len(models) < 2:
        return models[0] if models else None
    own = [model for model in models if model.id.casefold().startswith(f"{account}/")]
    if len(own) == 1:
        return own[0]
    first = models[0].config()
    return models[0] if all(model.config() == first for model in models[1:]) else None


def _foreign(model: ShippedModel, account: str) -> bool:
    """Whether the model is a quantised re-publication by another account."""
    owner = model.id.casefold().partition("/")[0]
    return owner != account and bool(announced_formats(model.id)[1])


def _same_series(name: str) -> ShippedModel | None:
    """The model of the same series, size and date, whatever its tuning or account."""
    full, core = _index()
    account, tokens = name.casefold().rpartition("/")[0], tokens_of(name)
    for index, key in ((full, tokens), (core, tokens), (core, without_tuning(tokens))):
        model = _unambiguous(index.get(key, ()), account)
        if model:
            return model
    return _dated(without_tuning(tokens), account)


def _dated(tokens: Tokens, account: str) -> ShippedModel | None:
    """The undated model of a dated name, or the only dated model of an undated name."""
    _, core = _index()
    plain = without_dates(tokens)
    if plain != tokens:
        return _unambiguous(core.get(plain, ()), account)
    if not any(_SIZE.fullmatch(token) for token in tokens):
        return None
    undated = (
        model for key, models in core.items() if without_dates(key) == tokens for model in models
    )
    return _unambiguous(undated, account)


def _position(inner: Tokens, outer: Tokens) -> int:
    """The index at which `inner` starts in `outer`, -1 for none."""
    starts = range(len(outer) - len(inner) + 1)
    return next((at for at in starts if outer[at : at + len(inner)] == inner), -1)


def _base_of(name: str) -> ShippedModel | None:
    """The model that a fine-tune names as its base: `Hermes-3-Llama-3.1-8B`."""
    _, core = _index()
    tokens = without_dates(without_tuning(tokens_of(name)))
    best: Tokens = ()
    for key in core:
        sized = len(key) > 1 and any(_SIZE.fullmatch(token) for token in key)
        if sized and len(key) > len(best) and _position(key, tokens) >= 0:
            best = key
    if not best:
        return None
    at = _position(best, tokens)
    before, after = tokens[:at], tokens[at + len(best) :]
    foreign = any(_SIZE.fullmatch(t) or t in _OTHER_ARCHITECTURE for t in (*before, *after))
    versioned = any(key[: len(best)] == best and _VERSION.fullmatch(key[-1]) for key in core)
    if foreign or (after and versioned and _VERSION.fullmatch(after[0])):
        return None
    return _unambiguous(core[best], "")


def _note(name: str, model: ShippedModel, matched: Matched, formats: Mapping[str, str]) -> str:
    """A sentence on how `name` was understood; "" for an exact name."""
    note = {
        "name": "",
        "alias": f"{name} is {model.id} under another name",
        "re-release": f"{name} has the architecture of {model.id}",
        "fine-tune": f"{name} is treated as a fine-tune of {model.id}, with the same architecture",
        "beginning": f"{name} is taken as {model.id}, the only name that starts with it",
    }[matched]
    if matched in ("alias", "re-release") and not formats and (others := _others(name, model)):
        note += f", not {' or '.join(filter(None, (', '.join(others[:-1]), others[-1])))}"
    parts = [f"{key} in {value}" for key, value in formats.items()]
    if parts:
        note += f"; {', '.join(parts)}, as the name says"
    elif re.search("gguf|ggml", name, re.IGNORECASE):
        note += "; it names no GGUF type: weights are as stated, or as in the original checkpoint"
    return note.removeprefix("; ")


def _match(
    name: str, model: ShippedModel, matched: Matched, formats: Mapping[str, str]
) -> NameMatch:
    return NameMatch(model, matched, _note(name, model, matched, formats), **formats)


def resolve_name(name: str) -> NameMatch:
    """The shipped model that `name` stands for.

    name: a Hugging Face id or a name derived from one, in any case, with or without account, or
    one of Ollama's and LM Studio's ("llama3.1:8b", "qwen2.5:7b-instruct-q4_K_M").

    Raises:
        UnknownModel: no shipped model has that size and series, or several names begin with it;
            these, or near ones, are listed, the shortest names first.
        NotADecoder: no shipped model matches, and the name is known for another kind of model.
        UnknownPrecision: the name announces a quantisation that is not described.
    """
    plain = name.strip().removesuffix(".gguf").removesuffix(":latest").strip("/")
    if len(plain) > LONGEST_NAME or not re.match(r"\w", plain):
        raise _unknown(name)
    match = _found(plain)
    known = "" if match else library_name(plain)
    if known and (meant := _found(known)):
        note = _note(plain, meant.model, "alias", _formats_of(meant))
        return replace(meant, matched="alias", note=note)
    if match:
        return match
    refuse_other_names(plain)
    begins = _beginning(plain)
    if len(begins) == 1:
        return _match(plain, shipped_models()[begins[0]], "beginning", {})
    raise _unknown(name, _nearest_first(plain, begins or _holding(plain)))


def only_begins(name: str, model: str) -> bool:
    """Whether `name` is only the beginning of the found model's name.

    A user who types one is shown what it was taken as; a file that states one means another model.

    model: name of the model that was found.
    """
    try:
        begins = resolve_name(name).matched == "beginning"
    except RidgelineError:
        return False
    return begins and name.casefold() != model.casefold()


def versions_of(name: str) -> list[str]:
    """Ids of the models whose name is `name` plus a version that it leaves out, latest first.

    "llama 70b" leaves out the 3.3 of Llama-3.3-70B.  Of each version, the model with the shortest
    name; [] for a name that states a version, or that matches no model in this way.
    """
    words = without_tuning(tokens_of(name.replace(" ", "-")))
    if len(words) < 2 or not words[0].isalpha() or _NUMBER.fullmatch(words[1]):
        return []
    found: dict[tuple[int, ...], str] = {}
    for model in sorted(shipped_models().values(), key=lambda one: (len(one.id), one.id)):
        tokens = without_tuning(tokens_of(model.id))
        stated = next((token for token in tokens[1:2] if _NUMBER.fullmatch(token)), "")
        if stated and (tokens[0], *tokens[2:]) == words:
            found.setdefault(tuple(map(int, stated.split("."))), model.id)
    return [found[version] for version in sorted(found, reverse=True)]


def spellings() -> Mapping[str, str]:
    """{name: id}: ids and aliases, each with and without its account."""
    pairs = [(name, m.id) for m in shipped_models().values() for name in (m.id, *m.aliases)]
    return {name.rpartition("/")[2]: model for name, model in pairs} | dict(pairs)


def _originals(models: Iterable[ShippedModel]) -> list[str]:
    """Ids of models, without quantised copies of other models in the list."""
    found = {model.id: model for model in models}
    return [name for name, model in found.items() if not found.keys() & set(model.bases)]


def _others(name: str, meant: ShippedModel) -> list[str]:
    """Models with another architecture than `meant` whose ids begin with the words of `name`."""
    words = tokens_of(name)
    begun = [m for m in shipped_models().values() if tokens_of(m.id)[: len(words)] == words]
    others = _originals(
        model
        for model in begun
        if meant.id not in (model.id, *model.bases) and model.config() != meant.config()
    )
    return sorted(others, key=lambda other: (len(other), other))[:_MOST_OTHERS]


def _beginning(name: str) -> list[str]:
    """Ids of the models with a name that begins with the words of `name`, of its account only."""
    account, _, rest = name.casefold().rpartition("/")
    words = tokens_of(rest)
    if not words:
        return []
    begun = (models for key, models in _index()[0].items() if key[: len(words)] == words)
    owned = (m for m in chain(*begun) if m.id.casefold().startswith(f"{account}/" * bool(account)))
    return _originals(owned)


def _holding(name: str) -> list[str]:
    """Ids of the models whose names contain the words of `name`, for a name without an account."""
    words = tokens_of(name)
    if not words or "/" in name:
        return []
    held = (m for m in shipped_models().values() if _position(words, tokens_of(m.id)) >= 0)
    return _originals(held)


def _nearest_first(name: str, models: Iterable[str]) -> list[str]:
    """Ids that begin with the first word of `name` first, short ones before long ones."""
    first = tokens_of(name)[:1]
    alike = {model: tokens_of(model.rpartition("/")[2])[:1] == first for model in models}
    return sorted(alike, key=lambda model: (not alike[model], len(model), model.casefold()))


def _formats_of(match: NameMatch) -> dict[str, str]:
    """The formats that a name announced, by tensors."""
    formats = {"weights": match.weights, "kv": match.kv, "activations": match.activations}
    return {key: value for key, value in formats.items() if value}


def _found(name: str) -> NameMatch | None:
    """The model of a name: by its spelling, its series, or the base that a fine-tune's name
    contains.
    """
    model = shipped_model(name) or _spelled().get(name.casefold())
    if model:
        plain = name.casefold() in (model.id.casefold(), model.id.casefold().rpartition("/")[2])
        return _match(name, model, "name" if plain else "alias", {})
    model = _same_series(name) or _hyphenated(name)
    if model:
        same = any(read(name) == read(model.id) for read in (tokens_of, tokens_with_hyphens))
        bare = same and "/" not in name
        return _match(name, model, "name" if bare else "re-release", {})
    stripped, formats = announced_formats(name)
    model = _spelled().get(stripped.strip("-_.: ")) or _same_series(stripped)
    if model:
        return _match(name, model, "re-release", formats)
    model = _base_of(stripped)
    if model:
        return _match(name, model, "fine-tune", formats)
    return None


def _hyphenated(name: str) -> ShippedModel | None:
    """The model of a name whose underscores stand for hyphens: `Qwen3_235B_A22B`."""
    models = _index()[0].get(tokens_with_hyphens(name), ()) if "_" in name else ()
    return _unambiguous(models, name.casefold().rpartition("/")[0])


def _unknown(name: str, fits: Sequence[str] = ()) -> UnknownModel:
    owned = re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", name.strip())
    instead = (
        f"Give `{'hf:' + name.strip() if owned else 'hf:OWNER/NAME'}` to ask the Hugging Face hub, "
        "a config.json (--trace follows one of any type), or a name that `ridgeline models` lists."
    )
    why = reason_unshipped(name)
    hint = f"It is not shipped: {why}" if why else ""
    return UnknownModel("model", name, list(shipped_models()), hint, fits, instead)

"""A checkpoint's number formats with a user's wishes on top."""

from __future__ import annotations

from dataclasses import replace

from genz_core.precision import FORMATS, canonical
from genz_core.types import CacheSource, Precision
from model_registry.quantization.gguf_mixtures import MIXTURES, TensorLayout, tensor_formats
from model_registry.quantization.roles import GROUPS

_FP8 = frozenset({"fp8", "fp8_block", "mxfp8"})
#: Formats that a user asks for by the name of the plainest among them.
_FAMILIES = {"fp8": _FP8, "int4": frozenset({"int4", "int4_g32"})}
#: Formats whose products run in 8 or 4 bit, so that 16-bit inputs make them a storage format.
_NARROW = _FP8 | {"nvfp4", "w4a8"}
#: Pairs that engines name in one word: (weights, inputs of the products).
_PAIRS = {
    "w16a16": ("bf16", "bf16"),
    "w8a16": ("int8", "bf16"),
    "w8a8": ("int8", "int8"),
    "w4a16": ("int4", "bf16"),
}
_WIDE = frozenset({"bf16", "fp16", "fp32", "tf32"})


def quantised_formats(precision: Precision) -> frozenset[str]:
    """The quantised formats among a checkpoint's weights; empty for a 16-bit one."""
    formats = {*precision.weights.values(), *precision.by_layer.values()}
    return frozenset(formats - _WIDE)


def _already(name: str, formats: frozenset[str]) -> bool:
    """Whether weights of these formats are in `name`, or in a variant of it, already."""
    return bool(formats & _FAMILIES.get(name, frozenset({name})))


def _is_gguf(name: str) -> bool:
    return FORMATS[name].source.startswith(("ggml", "llama.cpp"))


def _as_loaded(name: str, base: str) -> dict[str, str]:
    """{role: format} of an engine that quantises every linear layer to `name` on loading."""
    if name in _WIDE:
        return {"default": name}
    roles = (*GROUPS, "mtp", "embedding", "lm_head") if _is_gguf(name) else (*GROUPS, "mtp")
    return {"default": base, **dict.fromkeys(roles, name)}


def _with_weights(
    precision: Precision, name: str, base: str, layout: TensorLayout | None
) -> tuple[Precision, str]:
    """`precision` with its weights in `name`, and a note; a scheme that has it keeps its map."""
    formats = quantised_formats(precision)
    if layout is not None and name in MIXTURES:
        return _mixed(precision, name, base, layout)
    if _already(name, formats):
        mixed = f"; its {', '.join(sorted(formats))} map is kept" if formats != {name} else ""
        return precision, f"weights: {name} by {precision.source}{mixed}"
    made = replace(
        precision,
        weights=_as_loaded(name, base),
        by_layer={},
        mixture="",
        source="the wish for it",
    )
    kept = "" if name in _WIDE or _is_gguf(name) else f"; embedding, LM head and router {base}"
    if cache := FORMATS[name].cache:
        return replace(made, kv=cache), f"weights: {name}{kept}; kv cache {cache}"
    return made, f"weights: {name}{kept}"


def _mixed(
    precision: Precision, name: str, base: str, layout: TensorLayout
) -> tuple[Precision, str]:
    """`precision` with the formats of one of llama.cpp's mixtures, and a note."""
    weights, by_layer = tensor_formats(name, layout)
    formats = sorted({*weights.values(), *by_layer.values()})
    made = replace(
        precision,
        weights={"default": base, **weights},
        by_layer=by_layer,
        mixture=name,
        source="llama.cpp's rules for it",
    )
    held = f" ({', '.join(form.removeprefix('ggml_') for form in formats)} by tensor)"
    return made, f"weights: {name}{held if len(formats) > 1 else ''}"


def _with_experts(precision: Precision, name: str) -> Precision:
    """`precision` with its routed experts in `name`, unless they are already."""
    roles = ("experts", "experts.up", "experts.down")
    formats = {*(precision.weight(role) for role in roles[1:])}
    formats |= {form for (_, role), form in precision.by_layer.items() if role in roles}
    if _already(name, frozenset(formats)):
        return precision
    weights = {role: form for role, form in precision.weights.items() if role not in roles}
    by_layer = {key: form for key, form in precision.by_layer.items() if key[1] not in roles}
    weights |= {"experts": name}
    return replace(precision, weights=weights, by_layer=by_layer, mixture="")


def _with_activations(precision: Precision, name: str) -> tuple[Precision, str]:
    """`precision` with the inputs of its matrix products in `name`, and a note.

    16-bit inputs make fp8 and nvfp4 weights a storage format; 8-bit integers multiply as
    integers where the weights are 8-bit integers too; fp8 and fp4 inputs are quantised at the
    product, so that what travels between operators stays 16 bit.
    """
    formats = quantised_formats(precision)
    if name in _WIDE:
        forced = name if formats & _NARROW else precision.compute
        return replace(precision, activations=name, compute=forced), f"activations: {name}"
    if name == "int8" and "int8" in formats:
        return replace(precision, activations=name), "activations: int8"
    effect = "quantised at each product, 16 bit between operators"
    if not takes_inputs(precision, name):
        effect = "which no product takes"
    return precision, f"activations: {name}, {effect}"


def takes_inputs(precision: Precision, name: str) -> bool:
    """Whether any product of a checkpoint takes inputs of a format: narrow ones need weights of a
    type whose products run in 8 or 4 bit.
    """
    name, formats = canonical(name), quantised_formats(precision)
    return name in _WIDE or bool(formats & _NARROW) or (name == "int8" and "int8" in formats)


def _pair(weights: str, activations: str | None, precision: Precision) -> tuple[str, str | None]:
    """(weights, activations) of a choice like "w8a8"; activations that were asked for stay.

    Of a checkpoint in fp8, "w8a8" is what it has.
    """
    word = weights.strip().casefold().replace("-", "").replace("_", "")
    if word not in _PAIRS:
        return weights, activations
    if word == "w8a8" and (formats := quantised_formats(precision)) & _FP8:
        return sorted(formats & _FP8)[0], activations
    chosen, inputs = _PAIRS[word]
    return chosen, activations or inputs


def _cache_source(weights: str) -> CacheSource:
    """Who chose the cache's format, where the user chose the weights' and not the cache's."""
    return "checkpoint" if FORMATS[weights].cache else "convention"


def override_formats(
    precision: Precision,
    *,
    weights: str | None = None,
    moe_weights: str | None = None,
    kv: str | None = None,
    activations: str | None = None,
    compute: str | None = None,
    layout: TensorLayout | None = None,
) -> tuple[Precision, tuple[str, ...]]:
    """A checkpoint's precision with a user's wishes on top, and a note on each.

    weights: a format, or a pair with that of the inputs ("w8a8", "w4a16").  The checkpoint's own
    scheme keeps its map (fp8 wished of an fp8-block checkpoint); another format goes to every
    linear layer, embedding, LM head, router and vision tower staying 16 bit as engines keep them,
    except that GGUF types take all matrices, each as llama.cpp's mixture of that name has it.
    moe_weights: routed experts, `weights` when empty.  Empty or None: the checkpoint's.
    layout: of the model's tensors; without one a mixture counts by its average on Llama 3.1 8B.
    `kv_source` of the result is "asked" with kv, "convention" with weights whose format implies
    no cache, else as it was.

    Raises:
        UnknownPrecision: a format that is not described.
    """
    base = precision.weights["default"]
    base = base if base in ("bf16", "fp16") else "bf16"
    notes: list[str] = []
    if weights:
        weights, activations = _pair(weights, activations, precision)
        if precision.activations == "fp32" and canonical(weights) != "fp32":
            precision = replace(precision, activations=base, kv=base)
        precision, note = _with_weights(precision, canonical(weights), base, layout)
        precision = replace(precision, kv_source=_cache_source(canonical(weights)))
        notes.append(note)
    elif quantised_formats(precision):
        notes.append(
            f"weights: {', '.join(sorted(quantised_formats(precision)))}, the checkpoint's map"
        )
    else:
        notes.append(f"weights: {precision.weights['default']} ({precision.source})")
    if moe_weights:
        precision = _with_experts(precision, canonical(moe_weights))
        notes.append(f"experts: {canonical(moe_weights)}")
    if kv:
        precision = replace(precision, kv=canonical(kv), kv_source="asked")
        notes.append(f"kv cache: {canonical(kv)}")
    if activations:
        precision, note = _with_activations(precision, canonical(activations))
        notes.append(note)
    if compute:
        precision = replace(precision, compute=canonical(compute))
        notes.append(f"compute: {canonical(compute)}")
    return precision, tuple(notes)

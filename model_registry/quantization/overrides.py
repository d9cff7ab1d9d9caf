"""A checkpoint's number formats with the user's formats applied."""

from __future__ import annotations

from dataclasses import replace

from genz_core.precision import FORMATS, canonical
from genz_core.types import CacheSource, Precision
from model_registry.quantization.gguf_mixtures import MIXTURES, TensorLayout, tensor_formats
from model_registry.quantization.roles import GROUPS

_FP8 = frozenset({"fp8", "fp8_block", "mxfp8"})
#: Families of formats that a user requests by the name of the plainest one.
_FAMILIES = {"fp8": _FP8, "int4": frozenset({"int4", "int4_g32"})}
#: Formats whose products run in 8 or 4 bits, unless 16-bit inputs make them storage formats.
_NARROW = _FP8 | {"nvfp4", "w4a8"}
#: Pairs of formats that engines name in one word: (weights, inputs of the products).
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
    """Whether weights of these formats are already in `name`, or in a variant of it."""
    return bool(formats & _FAMILIES.get(name, frozenset({name})))


def _is_gguf(name: str) -> bool:
    return FORMATS[name].source.startswith(("ggml", "llama.cpp"))


def _as_loaded(name: str, base: str) -> dict[str, str]:
    """{role: format} for an engine that quantises every linear layer to `name` when loading."""
    if name in _WIDE:
        return {"default": name}
    roles = (*GROUPS, "mtp", "embedding", "lm_head") if _is_gguf(name) else (*GROUPS, "mtp")
    return {"default": base, **dict.fromkeys(roles, name)}


def _with_weights(
    precision: Precision, name: str, base: str, layout: TensorLayout | None
) -> tuple[Precision, str]:
    """`precision` with its weights in `name`, and a note; a checkpoint already in `name` is
    unchanged.
    """
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
        source="the requested format",
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
    """`precision` with its routed experts in `name`, unless they already are."""
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

    16-bit inputs turn fp8 and nvfp4 weights into a storage format; 8-bit integers multiply as
    integers where the weights are 8-bit integers too; fp8 and fp4 inputs are quantised right before
    the product, so data between operators stays in 16 bits.
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
    """Whether any product of a checkpoint can take inputs of a format: narrow inputs need weights
    whose products run in 8 or 4 bits.
    """
    name, formats = canonical(name), quantised_formats(precision)
    return name in _WIDE or bool(formats & _NARROW) or (name == "int8" and "int8" in formats)


def _pair(weights: str, activations: str | None, precision: Precision) -> tuple[str, str | None]:
    """(weights, activations) of a choice like "w8a8"; explicitly chosen activations take
    precedence.

    For an fp8 checkpoint, "w8a8" changes nothing.
    """
    word = weights.strip().casefold().replace("-", "").replace("_", "")
    if word not in _PAIRS:
        return weights, activations
    if word == "w8a8" and (formats := quantised_formats(precision)) & _FP8:
        return sorted(formats & _FP8)[0], activations
    chosen, inputs = _PAIRS[word]
    return chosen, activations or inputs


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
    """A checkpoint's precision with a user's formats applied, and a note on each.

    weights: a format, or a pair with that of the inputs ("w8a8", "w4a16").  A format that the
    checkpoint already has changes nothing (fp8 for an fp8-block checkpoint).  Any other format is
    used for every linear layer, while embedding, LM head, router and vision tower stay in 16 bits
    as in engines; GGUF types apply to all matrices, as in llama.cpp's mixture of that name.
    moe_weights: routed experts, `weights` when empty.  Empty or None: the checkpoint's.
    layout: of the model's tensors; without one, a mixture counts with its average bits on Llama 3.1
    8B. `kv_source` of the result is "asked" if kv is given, "convention" if weights are given whose
    format implies no cache format, otherwise unchanged.

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
        kv_source: CacheSource = "checkpoint" if FORMATS[canonical(weights)].cache else "convention"
        precision = replace(precision, kv_source=kv_source)
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

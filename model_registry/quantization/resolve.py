"""The number format of each tensor of a checkpoint, from its quantisation configuration.

A `Scheme` gives the format of every tensor role in every layer; together they are the `Precision`
that the graph builders read.
"""

from __future__ import annotations

from collections import Counter

from genz_core.errors import InvalidValue, UnknownPrecision
from genz_core.precision import FORMATS, canonical
from genz_core.types import Precision
from model_registry.quantization.module_patterns import MAX_LAYERS
from model_registry.quantization.roles import ENDS, GROUPS, MODULES, MODULES_OF_TYPE
from model_registry.quantization.schemes import RawConfig, Scheme, checked_mapping, read_scheme


def _base_type(config: RawConfig) -> tuple[str, str]:
    """The type of the unquantised tensors, and its origin in words."""
    text = checked_mapping(config.get("text_config"), "text_config")
    for source in (config, text):
        named = source.get("dtype") or source.get("torch_dtype")
        if named:
            name = canonical(str(named))
            if name in ("bf16", "fp16", "fp32"):
                return name, f"the checkpoint's {name}"
            raise UnknownPrecision("dtype", str(named), ("bfloat16", "float16", "float32"))
    return "bf16", "16 bit: the configuration names no dtype"


def _layer_count(config: RawConfig) -> int:
    """Decoder layers, under any spelling of the key; 0 when the configuration does not
    state them.
    """
    text = checked_mapping(config.get("text_config"), "text_config")
    for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        value = config.get(key, text.get(key))
        if isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value <= MAX_LAYERS:
                raise InvalidValue(f"{key} = {value} is outside 0 to {MAX_LAYERS}")
            return value
    return 0


def _table(scheme: Scheme, config: RawConfig, base: str) -> dict[str, dict[int, str]]:
    """{role: {layer: format}}; tensors outside the layers are at layer -1."""
    layers, kind = _layer_count(config), str(config.get("model_type", ""))
    modules = {**MODULES, **MODULES_OF_TYPE.get(kind, {})}
    kinds = [scheme.of_layer(layer) for layer in range(max(layers, 1))]
    example = {kind: layer for layer, kind in enumerate(kinds)}
    table: dict[str, dict[int, str]] = {}
    for role, names in modules.items():
        formats = {
            kind: scheme.format(role, tuple(f"layers.{layer}.{name}" for name in names)) or base
            for kind, layer in example.items()
        }
        table[role] = {layer: formats[kind] for layer, kind in enumerate(kinds)}
    for role, names in ENDS.items():
        paths = (*names, f"layers.{layers}.mlp") if role == "mtp" else names
        table[role] = {-1: scheme.format(role, paths) or base}
    table["attention.qkv"] = {
        layer: max(
            (table[role][layer] for role in ("attention.q", "attention.k", "attention.v")),
            key=lambda name: FORMATS[name].bits,
        )
        for layer in table["attention.qkv"]
    }
    return table


def _compact(weights: dict[str, str]) -> dict[str, str]:
    """`weights` with one entry for each group of roles that agree, none for roles with the
    default.
    """
    for group in GROUPS:
        members = [role for role in weights if role.startswith(f"{group}.")]
        formats = {weights[role] for role in members}
        if len(formats) == 1:
            weights[group] = formats.pop()
            for role in members:
                del weights[role]
    default = weights["default"]
    return {role: name for role, name in weights.items() if role == "default" or name != default}


def resolve_precision(config: RawConfig, hf_quant_config: RawConfig | None = None) -> Precision:
    """The formats of a checkpoint's tensors, by role and layer.

    config: a Hugging Face config.json.  hf_quant_config: ModelOpt's file, where there is one.

    Raises:
        UnknownPrecision: a dtype, method or algorithm that is not described.
        InvalidValue: fields of the wrong kind.
    """
    base, source = _base_type(config)
    scheme = read_scheme(config, hf_quant_config)
    if scheme is not None and base == "fp32":
        base = "bf16"  # operators that are not quantised run in 16 bits
    if scheme is None:
        return Precision(weights={"default": base}, kv=base, activations=base, source=source)
    weights, by_layer = {"default": base}, {}
    for role, formats in _table(scheme, config, base).items():
        weights[role], _ = Counter(formats.values()).most_common(1)[0]
        exceptions = {layer: f for layer, f in formats.items() if f != weights[role]}
        by_layer.update({(layer, role): name for layer, name in exceptions.items()})
    return Precision(
        weights=_compact(weights),
        kv=scheme.kv or base,
        activations=scheme.activations or base,
        by_layer=by_layer,
        source=f"the checkpoint's {scheme.label} quantisation",
    )

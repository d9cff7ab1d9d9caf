"""Readers of the quantisation configurations of checkpoints; all produce a `Scheme`.

`quantization_config` of Hugging Face (fp8, compressed-tensors, awq, gptq, bitsandbytes, mxfp4), and
`hf_quant_config.json` of NVIDIA ModelOpt.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from genz_core.errors import InvalidValue, UnknownPrecision
from genz_core.precision import FORMATS
from model_registry.quantization.module_patterns import ModulePatterns
from model_registry.quantization.roles import KEPT

RawConfig = Mapping[str, Any]


@dataclass(frozen=True)
class Scheme:
    """The quantisation of a checkpoint, whatever the dialect of its configuration.

    base: format of every linear layer, "" for none.  named: formats of modules that the checkpoint
    lists.
    kept: modules left in 16 bits.  kv, activations: "" where it states none.
    label: the dialect, in words.
    """

    base: str = ""
    named: tuple[tuple[ModulePatterns, str], ...] = ()
    kept: ModulePatterns = field(default_factory=ModulePatterns)
    kv: str = ""
    activations: str = ""
    label: str = ""

    def format(self, role: str, paths: tuple[str, ...]) -> str:
        """The format of `role`, whose module is one of `paths`; "" for 16 bit."""
        for patterns, name in self.named:
            if any(patterns.match(path) for path in paths):
                return name
        if role in KEPT or any(self.kept.match(path) for path in paths):
            return ""
        return self.base

    def of_layer(self, layer: int) -> Hashable:
        """The patterns that distinguish this layer; modules of layers with equal ones have equal
        formats.
        """
        return tuple(p.of_layer(layer) for p in (self.kept, *(named for named, _ in self.named)))


_ALGORITHMS: Mapping[str, str] = {
    "fp8": "fp8",
    "fp8_per_channel_per_token": "fp8",
    "fp8_pb_wo": "fp8_block",
    "fp8_block_scales": "fp8_block",
    "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
    "nvfp4_awq": "nvfp4",
    "w4a16_nvfp4": "nvfp4",
    "w4a8_nvfp4_fp8": "nvfp4",
    "mxfp4": "mxfp4",
    "w4a8_mxfp4_fp8": "mxfp4",
    "w4a16": "int4",
    "w4a16_awq": "int4",
    "w4a8_awq": "w4a8",
    "int4_awq": "int4",
    "w8a16": "int8",
    "int8": "int8",
    "w8a8_sq_per_channel": "int8",
    "int8_sq": "int8",
}


_METHODS = ("fp8", "mxfp4", "awq", "gptq", "bitsandbytes", "compressed-tensors", "modelopt",
            "bitnet")  # fmt: skip


def _algorithm(name: object) -> str:
    """The format of a ModelOpt algorithm; "" where each layer states its own."""
    folded = str(name or "").casefold()
    if folded in ("", "none", "mixed_precision"):
        return ""
    if folded not in _ALGORITHMS:
        raise UnknownPrecision("quantisation algorithm", str(name), _ALGORITHMS)
    return _ALGORITHMS[folded]


def checked_mapping(value: object, name: str) -> RawConfig:
    """The section `name` of a configuration, an empty one for None.

    Raises:
        InvalidValue: it is not a mapping.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{name} is {value!r:.60}, not a mapping as in a config.json")
    return value


def _paths(value: object, name: str) -> list[str]:
    """The list of module patterns `name` of a configuration, an empty one for None.

    Raises:
        InvalidValue: it is not a list of texts.
    """
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise InvalidValue(f"{name} is {value!r:.60}, not a list of module names")
    return value


def _cache(entry: object) -> str:
    """The KV cache's format, from "FP8", {"num_bits": 8, "type": "float"} or None."""
    if isinstance(entry, Mapping):
        return _grid(entry)
    return _algorithm(entry)


def _grid(weights: RawConfig) -> str:
    """The format of a compressed-tensors entry (`num_bits`, `type`, `strategy`, `group_size`)."""
    bits, kind = weights.get("num_bits"), weights.get("type", "int")
    group = weights.get("group_size") or 0
    if kind == "float" and bits == 8:
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    if kind == "float" and bits == 4:
        return "mxfp4" if group == 32 else "nvfp4"
    if kind == "float" and bits == 6:
        return "mxfp6" if group == 32 else "fp6"
    if kind == "int" and bits in (2, 3, 4, 8):
        return "int4_g32" if (bits, group) == (4, 32) else f"int{bits}"
    raise UnknownPrecision("quantisation", f"{bits}-bit {kind}", FORMATS)


def _grouped(config: RawConfig) -> Scheme:
    """The scheme of a compressed-tensors block: groups of target modules, others ignored."""
    base, named, activations = "", [], ""
    for group in checked_mapping(config["config_groups"], "config_groups").values():
        weights = checked_mapping(checked_mapping(group, "config_groups").get("weights"), "weights")
        if not weights:
            continue
        form = _grid(weights)
        inputs = group.get("input_activations")
        if form == "int8" and inputs:
            activations = "int8"
        targets = _paths(group.get("targets", ["Linear"]), "targets")
        if "Linear" in targets:
            base = form
        else:
            named.append((ModulePatterns.parse(targets), form))
    return Scheme(
        base=base,
        named=tuple(named),
        kept=ModulePatterns.parse(_paths(config.get("ignore"), "ignore")),
        kv=_cache(config.get("kv_cache_scheme")),
        activations=activations,
    )


def _modelopt(config: RawConfig) -> Scheme:
    """The scheme of an hf_quant_config.json: one algorithm, or one per listed layer."""
    named: dict[str, list[str]] = {}
    for path, entry in checked_mapping(config.get("quantized_layers"), "quantized_layers").items():
        algorithm = entry.get("quant_algo") if isinstance(entry, Mapping) else entry
        named.setdefault(_algorithm(algorithm), []).append(path)
    kept = _paths(config.get("exclude_modules") or config.get("ignore"), "exclude_modules")
    return Scheme(
        base=_algorithm(config.get("quant_algo")),
        named=tuple((ModulePatterns.parse(paths), form) for form, paths in named.items() if form),
        kept=ModulePatterns.parse(kept),
        kv=_cache(config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")),
    )


def _plain(config: RawConfig, method: str) -> Scheme:
    """The scheme of fp8, mxfp4, awq, gptq, bitsandbytes: one format, with some modules left out."""
    skipped = config.get("modules_to_not_convert") or config.get("llm_int8_skip_modules")
    kept = _paths(skipped, "modules_to_not_convert")
    bits = config.get("bits", config.get("w_bit", 4))
    if method in ("fp8", "fbgemm_fp8"):
        base = "fp8_block" if config.get("weight_block_size") else "fp8"
    elif method == "mxfp4":
        base = "mxfp4"
    elif method == "bitsandbytes":
        base = "int8" if config.get("load_in_8bit") else "int4"
    elif method == "bitnet":
        base = "ternary"
    elif method in ("awq", "gptq", "auto-round", "autoround"):
        base = _grid({**config, "num_bits": bits, "type": "int"})
    else:
        raise UnknownPrecision("quantisation method", method, _METHODS)
    return Scheme(base=base, kept=ModulePatterns.parse(kept))


def _gguf(config: RawConfig) -> Scheme:
    """The scheme of a GGUF file: modules by format (`model_registry.finding.gguf_config`)."""
    tensors = checked_mapping(config.get("tensors"), "tensors")
    unknown = [str(form) for form in tensors if form not in FORMATS]
    if unknown:
        raise UnknownPrecision("GGUF format", unknown[0], FORMATS)
    named = (
        (ModulePatterns.parse(_paths(paths, "tensors")), str(form))
        for form, paths in tensors.items()
    )
    return Scheme(named=tuple(named), label="GGUF")


def _embedded(config: RawConfig) -> Scheme:
    """The scheme of a `quantization_config` block."""
    method = str(config.get("quant_method") or "").casefold()
    if method == "gguf":
        return _gguf(config)
    if method in ("fp8", "fbgemm_fp8"):
        # ModelOpt adds its experts to an fp8 checkpoint, so its list covers only those.
        return replace(_plain(config, method), named=_modelopt(config).named, label="fp8")
    if config.get("quantized_layers"):
        return replace(_modelopt(config), label="ModelOpt")
    if config.get("config_groups"):
        return replace(_grouped(config), label=method or "compressed-tensors")
    if method.startswith("modelopt") or (not method and config.get("quant_algo")):
        return replace(_modelopt(config), label="ModelOpt")
    return replace(_plain(config, method), label=method)


def _merged(embedded: Scheme | None, modelopt: Scheme | None) -> Scheme | None:
    """The scheme of a checkpoint that may have both files; hf_quant_config.json is more
    detailed.
    """
    if embedded is None or modelopt is None:
        return embedded or modelopt
    if embedded.label == "fp8":
        return replace(embedded, named=modelopt.named or embedded.named, kv=modelopt.kv)
    return replace(modelopt, kv=modelopt.kv or embedded.kv, activations=embedded.activations)


def read_scheme(config: RawConfig, hf_quant_config: RawConfig | None = None) -> Scheme | None:
    """The quantisation of a checkpoint, None for a 16-bit one.

    config: a Hugging Face config.json.  hf_quant_config: ModelOpt's file, where there is one.

    Raises:
        UnknownPrecision: a method, algorithm or bit width that is not described.
        InvalidValue: sections of the wrong kind, patterns that are not safe to match.
    """
    text = checked_mapping(config.get("text_config"), "text_config")
    block = checked_mapping(
        config.get("quantization_config") or text.get("quantization_config"),
        "quantization_config",
    )
    quant = checked_mapping(hf_quant_config or config.get("hf_quant_config"), "hf_quant_config")
    modelopt = None
    if quant:
        inner = checked_mapping(quant.get("quantization", quant), "quantization")
        modelopt = replace(_modelopt(inner), label="hf_quant_config")
    scheme = _merged(_embedded(block) if block else None, modelopt)
    if scheme and text.get("expert_dtype", config.get("expert_dtype")) == "fp4":
        experts = (ModulePatterns.parse(["ffn.experts", "mlp.experts"]), "mxfp4")
        scheme = replace(scheme, named=(*scheme.named, experts))
    return scheme

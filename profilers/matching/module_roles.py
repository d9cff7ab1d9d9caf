"""Which operators a launch may belong to, judged by the modules around it.

A module stack holds classes ("Qwen2Attention_3/Linear_17") or, from NVTX ranges, attributes
("model.layers.3.self_attn.q_proj").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from profilers.matching.program import Planned

#: Attributes of Hugging Face models -> operators of the engine, where their names differ.
ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "c_attn"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
    "input_layernorm": "input_norm",
    "post_attention_layernorm": "post_attention_norm",
    "norm": "final_norm",
    "embed_tokens": "embedding",
    "act_fn": "act_mul",
}


@dataclass(frozen=True, slots=True)
class Roles:
    """Predicted operators that a launch inside a module may belong to.

    names: of operators; kinds, classes: of them.  block: a word in their `Planned.module`, "" for
    any.
    container: the module holds other modules and identifies no launch.
    """

    names: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    block: str = ""
    container: bool = False

    def allow(self, operator: Planned) -> bool:
        """Whether a launch of the module may be part of a predicted operator."""
        if operator.name in self.names:
            return True
        fits = operator.kind in self.kinds or operator.operator_class in self.classes
        blocks = operator.module.split(".")
        return fits and (not self.block or not operator.module or self.block in blocks)


CONTAINER = Roles(container=True)
_COLLECTIVE = frozenset({"collective"})


def _roles(
    kinds: str = "", classes: str = "", names: str = "", block: str = ""
) -> Roles:  # words separated by spaces
    return Roles(
        frozenset(names.split()),
        frozenset(kinds.split()),
        frozenset(classes.split()) | (_COLLECTIVE if "gemm" in classes else frozenset()),
        block,
    )


#: Patterns of module class names and the roles they imply; the first match counts.
_BY_CLASS: tuple[tuple[str, Roles], ...] = (
    (r"rotary|rope(?![a-z])", _roles("rope")),
    (r"norm", _roles(classes="norm")),
    (r"lmhead|lm_head", _roles(names="lm_head", block="head")),
    (r"logitsprocessor", _roles("sampling", names="lm_head logits_all_gather")),
    (r"sampler", _roles("sampling")),
    (r"embedding", _roles("embedding", names="embedding_all_reduce")),
    (r"qkv.*linear", _roles(names="qkv_proj q_a_proj kv_a_proj")),
    (r"silu|gelu|relu|swiglu|andmul|(?<![a-z])act|activation", _roles("activation")),
    (r"experts|fusedmoe|deepep|sparsemoe|moeblock|moe(?![a-z])|mixtral.*block",
     _roles("moe routing activation", "moe gemm collective", block="moe")),
    (r"router|(?<![a-z])gate(?![a-z_])|topk", _roles("routing", names="router route", block="moe")),
    (r"linear|conv1d|lora|dense", _roles(classes="gemm")),
    (r"decoderlayer|block|layer(?!norm)|model|forcausallm|transformer(?![a-z])|modulelist|wrapper",
     CONTAINER),
    (r"mamba|ssm|mixer|deltanet|rwkv", _roles(classes="ssm convolution pointwise norm")),
    (r"attention|attn", _roles("rope", "attention", "q_absorb value_up kv_b_proj", "attention")),
    (r"mlp|feedforward|ffn", _roles("activation", block="mlp")),
)  # fmt: skip
_COMPILED = tuple((re.compile(p, re.IGNORECASE), roles) for p, roles in _BY_CLASS)
_NUMBER = re.compile(r"_\d+$")
_ATTRIBUTE = re.compile(r"(^|\.)(layers|h|blocks)\.\d+(\.|$)|_proj$|layernorm$|^lm_head$")


@functools.lru_cache(maxsize=65536)
def roles_of(path: str) -> Roles | None:
    """Roles of the innermost module of a path; None where it implies none.

    path: classes or attributes of modules separated by "/", outermost first.
    """
    parts = [_NUMBER.sub("", part) for part in path.split("/")]
    leaf = parts[-1]
    if "." in leaf or _ATTRIBUTE.search(leaf):
        return _of_attribute(leaf)
    roles = _of_class(leaf)
    if roles is None or roles.classes != _LINEAR.classes or roles.names or roles.kinds:
        return roles
    return _of_linear(leaf, parts[:-1]) or roles


_LINEAR = _roles(classes="gemm")


def _of_attribute(path: str) -> Roles:
    """Roles of a module given by its attributes, "model.layers.3.self_attn.q_proj"."""
    above, _, attribute = path.rpartition(".")
    if attribute.isdigit():
        return CONTAINER
    names = {attribute, ATTRIBUTES.get(attribute, attribute)}
    roles = _of_class(attribute)
    if attribute.endswith("_proj") and len(names) == 1:
        roles = _roles(classes="gemm", block=_block_of(above))
    elif attribute in ATTRIBUTES and (roles is None or "norm" not in roles.classes):
        roles = Roles()
    if roles is None or roles.container:
        return CONTAINER if roles else Roles(frozenset(names))
    return Roles(frozenset(names) | roles.names, roles.kinds, roles.classes, roles.block)


def _of_class(name: str) -> Roles | None:
    return next((roles for pattern, roles in _COMPILED if pattern.search(name)), None)


def _of_linear(leaf: str, above: list[str]) -> Roles | None:
    """Roles of a linear layer by the block around it."""
    block = next((b for part in reversed(above) if (b := _block_of(part))), "")
    row_parallel = leaf.lower().startswith("rowparallel")
    if block == "attention":
        return _roles(names="o_proj attention_all_reduce") if row_parallel else \
            _roles(classes="gemm", block=block)  # fmt: skip
    if block == "mlp" and row_parallel:
        return _roles(names="down_proj mlp_all_reduce shared_experts_down_proj")
    if block == "mlp" and leaf.lower().startswith("merged"):
        return _roles(names="gate_up_proj shared_experts_gate_up_proj")
    return None


def _block_of(part: str) -> str:
    lowered = part.lower()
    if "attention" in lowered or "attn" in lowered:
        return "attention"
    return "mlp" if "mlp" in lowered or "feedforward" in lowered else ""

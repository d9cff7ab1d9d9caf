"""The format of each tensor in a named mixture of llama.cpp's quantiser ("q4_k_m", "q3_k_l").

A mixture is named after the format of most of its tensors; tensors that are more sensitive to
rounding get more bits, depending on their role and layer.  Rules: ggml-org/llama.cpp,
src/llama-quant.cpp, `llama_tensor_get_type_impl` (which tensor gets what), its `use_more_bits`
(which layers), `tensor_type_fallback` (rows that no block divides), `tensor_allows_quantization`
(routers and norms are left out), without an importance matrix.  The iq mixtures of 1 to 3 bits are
not described, since they are always made with such a matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from genz_core.errors import UnknownPrecision
from genz_core.precision import canonical
from model_registry.quantization.roles import GROUPS

#: {mixture: type of its bulk}.
_BULK: Mapping[str, str] = {
    **{"q2_k": "ggml_q2_k", "q3_k_s": "ggml_q3_k", "q3_k_m": "ggml_q3_k", "q3_k_l": "ggml_q3_k"},
    **{"q4_k_s": "ggml_q4_k", "q4_k_m": "ggml_q4_k", "q5_k_s": "ggml_q5_k", "q5_k_m": "ggml_q5_k"},
    **{name: name for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q6_k", "q8_0", "iq4_nl", "iq4_xs")},
}
MIXTURES = tuple(_BULK)
#: Replacement for a type whose blocks of 256 do not divide a row.
_FALLBACK: Mapping[str, str] = {
    **{"ggml_q2_k": "q4_0", "ggml_q3_k": "q4_0", "ggml_q4_k": "q5_0", "ggml_q5_k": "q5_1"},
    **{"q6_k": "q8_0", "iq4_xs": "iq4_nl"},
}
_LARGE_BLOCK, _SMALL_BLOCK = 256, 32
#: Query heads per key head from which the value tensors are so small that they get more bits.
_SHARED_BY = 4
#: Of models with eight experts: types of the output projection.
_WIDER_OUTPUT = frozenset({"q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_nl", "iq4_xs"})
_OUTPUT: Mapping[str, str] = {"q2_k": "ggml_q3_k", "q3_k_m": "ggml_q4_k", "q3_k_l": "ggml_q5_k"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A matrix of a layer: its role and the length of its rows.

    at, of: index of its layer and number of layers; for attention, among the layers that have
    attention.
    """

    role: str
    layer: int
    at: int
    of: int
    row: int


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """The facts that a mixture depends on.

    tensors: of all layers.  hidden: row length of the token table and the head; tied: they are one
    tensor.
    shared_by: query heads per key head.  experts: routed experts of a layer, 0 for none.
    seventy: llama.cpp treats it as a 70B model, because of its 80 layers.
    one_product: queries, keys and values are one tensor in its files.
    """

    tensors: tuple[Tensor, ...]
    hidden: int
    tied: bool
    shared_by: float = 1.0
    experts: int = 0
    seventy: bool = False
    one_product: bool = False


def is_mixture(word: str) -> bool:
    """Whether a format as a user writes it is the name of a mixture."""
    try:
        return bool(word) and canonical(word) in MIXTURES
    except UnknownPrecision:
        return False


def tensor_formats(
    name: str, layout: TensorLayout
) -> tuple[dict[str, str], dict[tuple[int, str], str]]:
    """({role: format}, {(layer, role): format}) of a mixture; the second lists layers that differ.

    name: of `MIXTURES`.
    """
    bulk = _BULK[name]
    weights = dict.fromkeys((*GROUPS, "mtp"), bulk)
    weights |= {"lm_head": _head(bulk, layout), "embedding": _fitting(bulk, layout.hidden)}
    if layout.tied:
        weights["embedding"] = weights["lm_head"]
    by_layer = {(tensor.layer, tensor.role): _of_tensor(name, tensor, layout)
                for tensor in layout.tensors}  # fmt: skip
    for role, common in _commonest(by_layer):
        weights[role] = common
    return weights, {key: form for key, form in by_layer.items() if form != weights[key[1]]}


def _commonest(by_layer: Mapping[tuple[int, str], str]) -> Iterator[tuple[str, str]]:
    """(role, the format that most of its layers have)."""
    roles: dict[str, Counter[str]] = {}
    for (_, role), form in by_layer.items():
        roles.setdefault(role, Counter())[form] += 1
    for role, counted in roles.items():
        yield role, counted.most_common(1)[0][0]


def _head(bulk: str, layout: TensorLayout) -> str:
    """Type of the LM head, which has at least six bits in every mixture."""
    if layout.hidden % _block(bulk):
        return "q8_0"
    return _fitting("q8_0" if bulk == "q8_0" else "q6_k", layout.hidden)


def _of_tensor(name: str, tensor: Tensor, layout: TensorLayout) -> str:
    kind = tensor.role.rpartition(".")[2]
    if tensor.role in ("attention.q", "attention.k") and layout.one_product:
        kind = "v"
    chosen = {"v": _values, "k": _keys, "o": _output, "down": _down}.get(kind, _bulk)
    return _fitting(chosen(name, tensor, layout), tensor.row)


def _bulk(name: str, _tensor: Tensor, _layout: TensorLayout) -> str:
    return _BULK[name]


def _values(name: str, tensor: Tensor, layout: TensorLayout) -> str:
    """Type of the value projection."""
    form, shared = _BULK[name], layout.shared_by >= _SHARED_BY
    if layout.experts == 8:
        return "q8_0"
    if name == "q2_k":
        form = "ggml_q4_k" if shared else "ggml_q3_k"
    elif name == "q3_k_m":
        form = "ggml_q5_k" if tensor.at < 2 else "ggml_q4_k"
    elif name == "q3_k_l" or (name in ("iq4_nl", "iq4_xs") and shared):
        form = "ggml_q5_k"
    elif name in ("q4_k_m", "q5_k_m") and _more_bits(tensor):
        form = "q6_k"
    elif name == "q4_k_s" and tensor.at < 4:
        form = "ggml_q5_k"
    if layout.seventy and form in ("ggml_q3_k", "ggml_q4_k"):
        return "ggml_q5_k"
    return form


def _keys(name: str, _tensor: Tensor, layout: TensorLayout) -> str:
    return "q8_0" if layout.experts == 8 else _BULK[name]


def _output(name: str, _tensor: Tensor, layout: TensorLayout) -> str:
    if layout.experts == 8:
        return "ggml_q5_k" if name in _WIDER_OUTPUT else _BULK[name]
    return _OUTPUT.get(name, _BULK[name])


def _down(name: str, tensor: Tensor, _layout: TensorLayout) -> str:
    """Type of the down projection of a feed-forward, routed and shared experts included."""
    early = tensor.at < tensor.of // 8
    if name == "q2_k":
        return "ggml_q3_k"
    if name == "q3_k_m":
        return "ggml_q5_k" if tensor.at < tensor.of // 16 else "ggml_q4_k"
    if name == "q3_k_l" or (name in ("q4_k_s", "iq4_nl", "iq4_xs") and early):
        return "ggml_q5_k"
    if name in ("q4_k_m", "q5_k_m") and _more_bits(tensor):
        return "q6_k"
    return _BULK[name]


def _more_bits(tensor: Tensor) -> bool:
    """Whether a layer is among the first or last eighth, or every third between."""
    at, eighth = tensor.at, tensor.of // 8
    return at < eighth or at >= 7 * tensor.of // 8 or (at - eighth) % 3 == 2


def _block(form: str) -> int:
    return _LARGE_BLOCK if form in _FALLBACK else _SMALL_BLOCK


def _fitting(form: str, row: int) -> str:
    """The type, or its replacement if its blocks do not divide a row."""
    if row % _block(form):
        form = _FALLBACK.get(form, form)
    return "fp16" if row % _SMALL_BLOCK else form

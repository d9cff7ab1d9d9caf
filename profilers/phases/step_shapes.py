"""Sizes of a step from the shapes of its operators: tokens, sequences, lengths, width, layers.

A product in a layer reads or writes [tokens, hidden]; the LM head has one row per sequence;
attention has [sequences, length, heads, width], or heads before length in operators called
scaled_dot_product.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profilers.operators.gemms import is_shape, products_of

#: Least rows of a vocabulary, in absolute terms and relative to the model's width.
_LEAST_VOCABULARY, _LEAST_SPREAD = 8192, 4
#: Share of the launches of all products that must read or write the model's width.
_WIDTH_SHARE = 0.6
_HEADS_FIRST = re.compile("scaled_dot_product")
_TYPES = {
    "c10::BFloat16": "bf16", "bfloat16": "bf16", "c10::Half": "fp16", "half": "fp16",
    "float": "fp32", "signed char": "int8", "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8", "c10::Float8_e5m2": "fp8", "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Sequences, new tokens per sequence and attended tokens per sequence, from the shapes of an
    operator.
    """

    sequences: int
    new_tokens: int
    attended: int
    operator: str

    @property
    def phase(self) -> str:
        """ "decode" where each sequence has one new token after cached ones, otherwise
        "prefill".
        """
        return "decode" if self.new_tokens == 1 and self.attended > 1 else "prefill"


@dataclass(frozen=True, slots=True)
class ShapeFacts:
    """What the shapes of one kind of step imply; 0 and "" where they imply nothing.

    tokens: new tokens of a step.  sequences: rows of the LM head.  layers: how often a layer's
    products or kernels run in a step; layers_seen: whether shapes of products gave that number.
    dtype: number format of the weights of the longest products.
    products: (n, k) of the products of its layers.
    """

    tokens: int = 0
    sequences: int = 0
    attention: AttentionSizes | None = None
    hidden: int = 0
    layers: int = 0
    layers_seen: bool = False
    dtype: str = ""
    vocabulary: int = 0
    products: tuple[tuple[int, int], ...] = ()

    @property
    def phase(self) -> str:
        """The phase that the shapes fit, "" where they fit both."""
        if self.attention is not None:
            return self.attention.phase
        if not (self.tokens and self.sequences):
            return ""
        return "prefill" if self.sequences < self.tokens else "decode"


def shape_facts(kernels: pd.DataFrame, steps: int = 0) -> ShapeFacts:
    """What the shapes of the kernels of one phase imply.

    Args:
        kernels: of a torch trace.  steps: number of steps that they belong to, 0 if unknown.
    """
    layers = layers_by_name(kernels, steps) if steps else 0
    products = products_of(kernels)
    products = products[(products["k"] > 1) & (products["n"] > 1) & (products["batch"] == 1)]
    if not len(products):
        return ShapeFacts(attention=attention_sizes(kernels), layers=layers)
    runs = max(steps, 1)
    head = _is_head(products, runs)
    inner, last = products[~head], products[head]
    hidden = _hidden(inner) or (int(last["k"].iloc[0]) if len(last) else 0)
    by_product = _most_common(inner["count"] / runs)
    return ShapeFacts(
        tokens=_heaviest(inner, "m"),
        sequences=int(last["m"].iloc[0]) if len(last) else 0,
        attention=attention_sizes(kernels),
        hidden=hidden,
        layers=by_product or layers,
        layers_seen=bool(by_product),
        dtype=_weight_type(kernels) if by_product else "",
        vocabulary=int(last["n"].iloc[0]) if len(last) else 0,
        products=tuple(sorted({(int(n), int(k)) for n, k in inner[["n", "k"]].to_numpy()})),
    )


def _is_head(products: pd.DataFrame, steps: int) -> pd.Series:
    """Whether a product is the LM head: it runs once a step and is much wider than the model."""
    wide = (products["n"] >= _LEAST_VOCABULARY) & (products["n"] > _LEAST_SPREAD * products["k"])
    return wide & (products["count"] <= steps)


def _heaviest(products: pd.DataFrame, column: str) -> int:
    """The value of a column with the largest total time; 0 without products."""
    if not len(products):
        return 0
    return int(products.groupby(column)["time_s"].sum().idxmax())


def _hidden(products: pd.DataFrame) -> int:
    """The width that most products read or write; 0 where there is no such width."""
    best, most = 0, 0
    for width in set(products["n"]) & set(products["k"]):
        touching = (products["n"] == width) | (products["k"] == width)
        launches = int(products["count"][touching].sum())
        if (launches, -width) > (most, -best):
            best, most = int(width), launches
    return best if most >= _WIDTH_SHARE * max(int(products["count"].sum()), 1) else 0


def _most_common(counts: Iterable[float]) -> int:
    """The most common whole number above one, the smallest of equally common ones; 0
    without any.
    """
    whole = Counter(round(c) for c in counts if c > 1.5 and abs(c - round(c)) < 1e-6)
    return min(whole, key=lambda count: (-whole[count], count)) if whole else 0


def layers_by_name(kernels: pd.DataFrame, steps: int) -> int:
    """Layers of a step, estimated from how often most kernels are launched; 0 for few kernels."""
    counts = kernels.groupby("name", observed=True)["count"].sum() / steps
    counts = counts[counts >= 2]
    return _most_common(counts) if len(counts) >= 4 else 0


def attention_phases(kernels: pd.DataFrame) -> set[str]:
    """The phases that the sizes of attention operators fit; both where both kinds occur."""
    return {sizes.phase for sizes in _all_attention(kernels)}


def attention_sizes(kernels: pd.DataFrame) -> AttentionSizes | None:
    """Sizes from the attention operator that took longest; None where no operator shows them."""
    return next(_all_attention(kernels), None)


def _all_attention(kernels: pd.DataFrame) -> Iterator[AttentionSizes]:
    """Sizes of the attention operators that show them, the longest first."""
    rows = kernels[(kernels["operator_class"] == "attention") & kernels["input_shapes"].notna()]
    pairs = rows.groupby(["operator", "input_shapes"], observed=True)["duration_s"].sum()
    for operator, shapes in pairs.sort_values(ascending=False).index:
        if (sizes := _attention_of(str(operator), str(shapes))) is not None:
            yield sizes


def _attention_of(operator: str, shapes: str) -> AttentionSizes | None:
    query, key = [*json.loads(shapes), None, None][:2]
    if not (is_shape(query) and is_shape(key) and len(query) == len(key) == 4):
        return None
    at = 2 if _HEADS_FIRST.search(operator) else 1
    if query[0] != key[0] or query[at] > key[at]:
        return None
    return AttentionSizes(query[0], query[at], key[at], operator)


def _weight_type(kernels: pd.DataFrame) -> str:
    """Number format of the weights that products spend most time on, "" where none is known."""
    rows = kernels[
        kernels["operator_class"].isin(["gemm", "gemv"]) & kernels["input_types"].notna()
    ]
    times = rows.groupby("input_types", observed=True)["duration_s"].sum()
    if not len(times) or not times.max() > 0:
        return ""
    types = [name for name in json.loads(str(times.idxmax())) if isinstance(name, str) and name]
    return _TYPES.get(types[1], "") if len(types) > 1 else ""


def median_of(values: Iterable[float]) -> float:
    """The median, NaN of no values."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan

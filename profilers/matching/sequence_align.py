"""Align the launches of a step with the order in which its predicted operators run.

Both are sequences: launches in time, operators layer by layer.  The best alignment keeps the order
of both, skips launches and operators that nothing matches, and assigns several launches to an
operator that runs as several kernels.  Layers repeat in both, which tells products apart where a
CUDA graph records no shapes.
Source: global alignment of sequences by dynamic programming, Needleman and Wunsch, J. Mol. Biol.
48 (1970) 443, here without a gap cost and with repeats on one side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profilers.matching.module_roles import Roles
from profilers.matching.program import Planned
from profilers.operators.gemms import Shape
from profilers.operators.kernel_classes import ENGINE_CLASS

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

FORBIDDEN = np.float32(-1e9)
#: Most cells of an alignment: launches of a step times operators that run in it.
MAX_CELLS = 12_000_000

_MODULE, _SHAPE, _PART, _SAME_CLASS, _PIECE = 6.0, 4.0, 3.0, 3.0, 1.0
_MODULE_OF_PIECE = 1.0
#: Score of a further launch of a product: small, because the order does not tell how many there
#: are.
_NEXT_PART = 1.5
#: Classes of kernels that may be part of an operator of another class.
WEAK = frozenset({"memory", "elementwise", "triton", "unclassified"})
#: Weak launch -> predicted kinds or classes that it may be part of, and how likely that is.
_PIECES: Mapping[str, Mapping[str, float]] = {
    "memory": {"attention": 0.4, "norm": 0.35, "rope": 0.2, "activation": 0.2, "copy": 0.6,
               "ssm": 0.3, "moe": 0.2, "sampling": 0.2},
    "elementwise": {"rope": 0.4, "norm": 0.35, "activation": 0.4, "attention": 0.2,
                    "residual": 0.6, "ssm": 0.3, "moe": 0.2, "sampling": 0.2},
    "triton": {"norm": 0.4, "activation": 0.4, "rope": 0.4, "attention": 0.2, "ssm": 0.3,
               "moe": 0.2, "routing": 0.3},
    "unclassified": {"ssm": 0.1, "moe": 0.1, "routing": 0.1},
}  # fmt: skip
#: Kinds of kernels whose predicted kind differs from their class.
_ALSO: Mapping[str, Mapping[str, float]] = {
    "kv_cache": {"attention": _PIECE},
    "moe": {"routing": 0.3},
    "routing": {"routing": _SAME_CLASS, "moe": 0.5},
    "norm": {"rope": 0.3, "residual": 1.0},
    "sampling": {"routing": 1.0},
    "gemm": {"moe": 0.4},
    "gemv": {"moe": 0.4},
    "activation": {"moe": 0.4},
}
#: Kinds of kernels that do all the work of their operator.
_WHOLE = frozenset({"norm", "rope", "activation"})
#: Kinds that are distinguished within their class.
_EXACT_KINDS = frozenset({"rope", "activation", "routing"})
#: Classes of operators that run as several kernels each.
_SEVERAL = frozenset({"attention", "moe", "ssm"})
#: Operators of torch that are parts of operators of one kind.
_HINTS: Mapping[str, str] = {
    **dict.fromkeys(("pow", "mean", "rsqrt", "var"), "norm"),
    **dict.fromkeys(("neg", "cos", "sin"), "rope"),
    **dict.fromkeys(("silu", "gelu"), "activation"),
    **dict.fromkeys(("softmax", "_softmax"), "attention"),
}
_ROUTES = re.compile(r"topk|top_k|routing|gating|bitmatrix", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Feature:
    """What is known of a launch; equal for all similar launches.

    kind: operator class of the kernel.  operator: of the framework, "" for none.  shape: of a
    matrix product.  gathers: it only sums the partial results of a product.  residual: it adds two
    equal tensors.  roles: implied by the module around it.
    """

    kind: str
    operator: str = ""
    shape: Shape | None = None
    gathers: bool = False
    residual: bool = False
    roles: Roles | None = None


def kind_of(operator_class: str, kernel: str) -> str:
    """The kind of a kernel: its class, "routing" for the choice of experts."""
    return "routing" if operator_class == "moe" and _ROUTES.search(kernel) else operator_class


def evidence(feature: Feature, operator: Planned) -> str:
    """The evidence for joining the two: "module", "shape" or "sequence"."""
    roles = feature.roles
    if roles is not None and not roles.container and roles.allow(operator):
        return "module"
    if feature.shape is not None and operator.n and operator.k:
        return "shape"
    return "sequence"


def scores(features: Sequence[Feature], operators: Sequence[Planned]) -> tuple[Floats, Floats]:
    """Scores for a launch as the first, and as a further, kernel of each operator, [features,
    operators].
    """
    fused = frozenset(f.kind for f in features if not f.operator.startswith("aten::")) & _WHOLE
    sums: dict[int, list[int]] = {}
    for at, n in partners(operators):
        sums.setdefault(at, []).append(n)
    pairs = [
        [_score(feature, one, fused, sums.get(at, ())) for at, one in enumerate(operators)]
        for feature in features
    ]
    table = np.array(pairs, dtype=np.float32).reshape(len(features), len(operators), 2)
    return table[..., 0], table[..., 1]


def _score(
    feature: Feature, operator: Planned, fused: frozenset[str], both: Sequence[int]
) -> tuple[float, float]:
    """`scores` of one feature and one operator.

    fused: kinds that have a kernel of their own, so no other kernels are part of them.
    both: see `_product_score`.
    """
    forbidden = (float(FORBIDDEN), float(FORBIDDEN))
    roles, bonus = feature.roles, 0.0
    by_module = roles is not None and not roles.container
    if roles is not None and roles.container and feature.kind in WEAK and feature.operator:
        return forbidden  # the model's own code between its modules
    if by_module:
        assert roles is not None
        if not roles.allow(operator):
            return forbidden
        bonus = _MODULE_OF_PIECE if feature.kind in WEAK else _MODULE
    if operator.operator_class == "gemm" and feature.kind in ("gemm", "gemv"):
        begins, continues = _product_score(feature, operator, both)
        continues -= bonus
    else:
        begins = _kind_score(feature, operator, frozenset() if by_module else fused)
        several = begins <= _PIECE or operator.operator_class in _SEVERAL
        continues = begins if several else 0.5 * begins
        pieces = feature.kind in WEAK and operator.operator_class != "gemm"
        if begins <= 0.0 and by_module and pieces:
            begins = continues = 0.1
    if begins <= 0.0:
        return forbidden
    return begins + bonus, continues + bonus if continues > float(FORBIDDEN) else continues


def partners(operators: Sequence[Planned]) -> dict[tuple[int, int], int]:
    """{(operator, n of both): partner} of products that one launch may do together: they have the
    same input in the same block, as the first projections of queries and keys in latent attention.
    """
    products = [(at, one) for at, one in enumerate(operators) if one.n and one.k]
    return {
        (at, one.n + other.n): beside
        for place, (at, one) in enumerate(products)
        for beside, other in products[place + 1 : place + 4]
        if (one.k, one.module, one.layers) == (other.k, other.module, other.layers)
    }


def _product_score(feature: Feature, operator: Planned, both: Sequence[int]) -> tuple[float, float]:
    """Score of a launched matrix product against a predicted one, by n and k where known.

    both: n of the operator together with a partner of it, see `partners`.
    """
    if feature.gathers:
        return 0.1, 1.5
    if feature.shape is None or not operator.n or not operator.k:
        return _SAME_CLASS, 0.2
    _, _, n, k = feature.shape
    if (n, k) == (operator.n, operator.k):
        return _SHAPE, float(FORBIDDEN)
    if k == operator.k and n < operator.n:
        return _PART, _NEXT_PART
    if k == operator.k and n in both:
        return _PART, float(FORBIDDEN)
    return 0.0, 0.0


def _kind_score(feature: Feature, operator: Planned, fused: frozenset[str]) -> float:
    """Score of a launch for an operator, by the kinds of both."""
    kind = feature.kind
    names = (operator.kind, operator.operator_class)
    hint = _HINTS.get(feature.operator.rpartition("::")[2].rstrip("_"))
    if kind in WEAK:
        if feature.residual:
            return 1.0 if operator.kind == "residual" else 0.0
        if hint in names:
            return 0.9
        if operator.kind in fused:
            return 0.0
        pieces = _PIECES[kind]
        return next((pieces[name] for name in names if name in pieces), 0.0)
    if batched(feature) and operator.operator_class == "attention":
        return _PIECE
    also = _ALSO.get(kind, {})
    if found := next((also[name] for name in names if name in also), 0.0):
        return found
    if kind in _EXACT_KINDS or operator.kind in _EXACT_KINDS:
        return _SAME_CLASS if kind == operator.kind else 0.0
    return _SAME_CLASS if ENGINE_CLASS.get(kind) == operator.operator_class else 0.0


def batched(feature: Feature) -> bool:
    """Whether a launch multiplies several pairs of matrices at once, as unfused attention does."""
    return feature.shape is not None and feature.shape[0] > 1


def align(begins: Floats, continues: Floats, launches: Rows, order: Rows) -> Rows:
    """Index in `order` of each launch, -1 for launches that match nothing.

    Args:
        begins, continues: `scores`, [features, operators].
        launches: feature of each launch, in time.  order: operator at each place.

    Raises:
        MemoryError: launches times places exceed MAX_CELLS.
    """
    count, places = len(launches), len(order)
    found = np.full(count, -1, dtype=np.int64)
    if not count or not places:
        return found
    if count * places > MAX_CELLS:
        raise MemoryError
    begins, continues = begins[:, order], continues[:, order]
    best = np.full((count + 1, places), FORBIDDEN, dtype=np.float32)
    choice = np.zeros((count, places), dtype=np.uint8)
    before = np.zeros(places, dtype=np.float32)
    for at, feature in enumerate(launches.tolist()):
        row = best[at]
        np.maximum.accumulate(row[:-1], out=before[1:])
        np.maximum(before, 0.0, out=before)
        options = np.stack([row, row + continues[feature], before + begins[feature]])
        choice[at] = options.argmax(axis=0)
        best[at + 1] = options.max(axis=0)
    place = int(best[count].argmax())
    if best[count, place] <= 0:
        return found
    return _traced_back(best, choice, place, found)


def _traced_back(best: Floats, choice: NDArray[np.uint8], place: int, found: Rows) -> Rows:
    """Places of the launches on the best path that ends at `place`."""
    for at in range(len(found) - 1, -1, -1):
        taken = choice[at, place]
        if not taken:
            continue
        found[at] = place
        if taken == 2:
            above = best[at, :place]
            if not place or above.max() <= 0:
                break
            place = int(above.argmax())
    return found

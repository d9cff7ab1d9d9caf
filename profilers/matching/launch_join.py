"""Join the launches of a phase with its predicted operators, by the strongest evidence available.

The evidence, strongest first: the modules around a launch, the shapes of its operands, its place in
the sequence that repeats from layer to layer, and the FLOPs of one run.  The first three are one
alignment (`profilers.matching.sequence_align`); a join by sequence or shape is kept only if the
operator is matched as often as it runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.matching.module_roles import Roles, roles_of
from profilers.matching.program import Planned, order_of_runs
from profilers.matching.sequence_align import (
    MAX_CELLS,
    Feature,
    align,
    evidence,
    kind_of,
    partners,
    scores,
)
from profilers.operators.gemms import gathers_parts, gemm_shape, is_shape
from profilers.timeline.step_launches import StepLaunches

#: Most cells that all alignments of a comparison may have together; further launches join as
#: similar ones did.
_MOST_CELLS = 20 * MAX_CELLS
#: Relative difference allowed between how often an operator is matched and how often it runs.
_SAME_RUNS = 0.1
#: Share of an operator's similar launches that decides for the rest.
_MAJORITY = 0.8
_SAME_FLOPS = 0.02
#: Kinds of launches that may join as similar ones did where another stream runs concurrently.
_SURE = frozenset({"gemm", "gemv", "attention", "moe", "ssm", "norm", "communication"})
_FEATURE_COLUMNS = ("operator_class", "name", "operator", "input_shapes", "module", "nvtx_path")


@dataclass(frozen=True, slots=True)
class Joined:
    """Launches joined with predicted operators.

    operator: row of each launch's predicted operator, -1 for none, [launches].
    evidence: "module", "shape", "sequence", "flops" or "none", [launches].
    met: {row of a predicted operator: how often a step matched it}.
    merged: {row of a predicted operator: row of the operator whose launches do the work of both}.
    repeats: measured over predicted launches of a step; 1 where they agree.
    """

    operator: NDArray[np.int64]
    evidence: NDArray[np.object_]
    met: dict[int, float]
    merged: dict[int, int] = field(default_factory=dict)
    repeats: float = 1.0


def join(
    launches: StepLaunches, operators: Sequence[Planned], rows: Sequence[int], steps_in_run: int = 1
) -> Joined:
    """Join the launches of a phase.

    Args:
        operators: all of the predicted step.  rows: those of them that take time.
        steps_in_run: steps that each run of `launches` holds.
    """
    codes, features = _features(launches.kernels)
    kept = [operators[row] for row in rows]
    begins, continues = scores(features, kept)
    place_of = {row: at for at, row in enumerate(rows)}
    once = [place_of[row] for row in order_of_runs(operators, rows)]
    order = np.array(once * steps_in_run, dtype=np.int64)
    places, aligned = _aligned(launches, codes, (begins, continues), order)
    column = np.where(places >= 0, order[places] if len(order) else -1, -1)
    met = _met(launches.kernels["run"].to_numpy(), places, column, aligned, steps_in_run)
    sure = np.array([feature.kind in _SURE for feature in features])[codes]
    repeats = _repeats(codes[sure & aligned], column[sure & aligned])
    column = np.where(sure | ~aligned, _with_likes(column, codes), column)
    column = _with_own_module(column, codes, features, kept)
    found = np.array(
        [evidence(features[code], kept[at]) if at >= 0 else "none"
         for code, at in zip(codes.tolist(), column.tolist(), strict=True)],
        dtype=object,
    )  # fmt: skip
    runs = np.bincount(once, minlength=len(kept))
    _drop_disagreeing(column, found, met, runs)
    _drop_shifted(launches, sure, column, found)
    steps = launches.runs * steps_in_run
    _by_flops(features, codes, kept, (column, found), runs * steps)
    taken = np.array([*rows, -1], dtype=np.int64)[column]
    merged = {rows[a]: rows[b] for a, b in _merged(features, codes, column, kept).items()}
    return Joined(taken, found, {rows[at]: times for at, times in met.items()}, merged, repeats)


def _repeats(codes: NDArray[np.int64], column: NDArray[np.int64]) -> float:
    """All launches over those that were placed, counting only features that were placed at least
    once.
    """
    if not len(codes):
        return 1.0
    placed = np.bincount(codes[column >= 0], minlength=int(codes.max()) + 1)
    everyone = np.bincount(codes, minlength=len(placed))[placed > 0]
    return float(everyone.sum() / placed.sum()) if placed.any() else 1.0


def _merged(
    features: Sequence[Feature],
    codes: NDArray[np.int64],
    column: NDArray[np.int64],
    operators: Sequence[Planned],
) -> dict[int, int]:
    """{operator without launches: the operator whose launches do the work of both}."""
    pairs = np.unique(np.stack([codes, column], axis=1)[column >= 0], axis=0).tolist()
    own = {at for _, at in pairs}
    known = partners(operators)
    merged = {}
    for code, at in pairs:
        shape = features[code].shape
        partner = known.get((at, shape[2])) if shape is not None else None
        if partner is not None and partner not in own:
            merged[partner] = at
    return merged


def _features(kernels: pd.DataFrame) -> tuple[NDArray[np.int64], list[Feature]]:
    """Code of each launch's feature, and the features."""
    columns = [kernels[name].astype("category").cat for name in _FEATURE_COLUMNS]
    codes = np.zeros(len(kernels), dtype=np.int64)
    for column in columns:
        codes, _ = pd.factorize(codes * (len(column.categories) + 1) + column.codes.to_numpy() + 1)
    first = pd.Series(np.arange(len(codes))).groupby(codes).first().to_numpy()
    keys = np.stack([column.codes.to_numpy(np.int64)[first] for column in columns], axis=1)
    named = [[*map(str, column.categories.tolist()), ""] for column in columns]  # -1: no name
    features: dict[Feature, int] = {}
    renumbered = np.empty(len(keys), dtype=np.int64)
    for at, key in enumerate(keys.tolist()):
        texts = [names[code] for names, code in zip(named, key, strict=True)]
        renumbered[at] = features.setdefault(_feature(*texts), len(features))
    return renumbered[codes], list(features)


def _feature(
    operator_class: str, name: str, operator: str, inputs: str, module: str, ranges: str
) -> Feature:
    path = module or ranges
    roles = roles_of(path) if module else _named_module(ranges)
    return Feature(
        kind_of(operator_class, name),
        operator if "::" in operator else "",
        gemm_shape(operator, inputs) if operator_class in ("gemm", "gemv") else None,
        gathers_parts(name),
        _adds_residual(operator, inputs),
        roles,
    )


def _named_module(ranges: str) -> Roles | None:
    """Roles from the innermost NVTX range, where its name is a module path."""
    leaf = ranges.rpartition("/")[2]
    return roles_of(leaf) if "." in leaf or leaf.endswith(("_proj", "layernorm")) else None


def _adds_residual(operator: str, inputs: str) -> bool:
    """Whether an operator adds two tensors of the same two or more axes."""
    if not inputs or operator.rstrip("_") not in ("aten::add",):
        return False
    shapes = json.loads(inputs)
    tensors = [shape for shape in shapes if is_shape(shape)]
    return len(tensors) == 2 and tensors[0] == tensors[1] and len(tensors[0]) in (2, 3)


def _aligned(
    launches: StepLaunches,
    codes: NDArray[np.int64],
    both: tuple[NDArray[np.float32], NDArray[np.float32]],
    order: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Position of each launch in the order of runs, and whether it was aligned; equal runs are
    aligned once.
    """
    places = np.full(len(codes), -1, dtype=np.int64)
    done = np.zeros(len(codes), dtype=bool)
    seams = np.flatnonzero(np.diff(launches.kernels["run"].to_numpy())) + 1
    known: dict[bytes, NDArray[np.int64]] = {}
    cells = 0
    for run in np.split(np.arange(len(codes)), seams):
        key = codes[run].tobytes()
        if key not in known:
            cells += len(run) * len(order)
            if len(run) * len(order) > MAX_CELLS or cells > _MOST_CELLS:
                continue
            known[key] = align(*both, codes[run], order)
        places[run], done[run] = known[key], True
    return places, done


def _met(
    run: NDArray[np.int64],
    places: NDArray[np.int64],
    column: NDArray[np.int64],
    aligned: NDArray[np.bool_],
    steps: int,
) -> dict[int, float]:
    """{operator: places met per step} of the runs that were aligned."""
    pairs = np.unique(np.stack([run, places, column], axis=1)[places >= 0], axis=0)
    counts = np.bincount(pairs[:, 2].astype(np.int64))
    share = max(len(np.unique(run[aligned])) * steps, 1)
    return {at: float(number) / share for at, number in enumerate(counts.tolist()) if number}


def _with_likes(column: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join launches that the alignment left out to the operator that most similar launches
    joined.
    """
    lost = column < 0
    if not lost.any() or lost.all():
        return column
    votes = np.zeros((int(codes.max()) + 1, int(column.max()) + 1))
    np.add.at(votes, (codes[~lost], column[~lost]), 1.0)
    cast = votes.sum(axis=1)
    decided = (cast > 0) & (votes.max(axis=1) >= _MAJORITY * cast)
    choice = np.where(decided, votes.argmax(axis=1), -1)
    return np.where(lost, choice[codes], column)


def _with_own_module(
    column: NDArray[np.int64],
    codes: NDArray[np.int64],
    features: Sequence[Feature],
    operators: Sequence[Planned],
) -> NDArray[np.int64]:
    """Launches whose module corresponds to a single operator join it wherever they run."""
    only = np.full(len(features), -1, dtype=np.int64)
    for at, feature in enumerate(features):
        roles = feature.roles
        if roles is None or roles.container:
            continue
        if feature.kind in ("gemm", "gemv") and (roles.classes or roles.kinds):
            continue  # the module holds several products
        allowed = [i for i, operator in enumerate(operators) if roles.allow(operator)]
        if len({operators[i].name for i in allowed}) == 1:
            only[at] = allowed[0]
    return np.where(column < 0, only[codes], column)


def _drop_disagreeing(
    column: NDArray[np.int64],
    found: NDArray[np.object_],
    met: dict[int, float],
    runs: NDArray[np.int64],
) -> None:
    """Unjoin launches of operators that matched more or less often than they run, unless a module
    proves the join.
    """
    for at in np.unique(column[column >= 0]).tolist():
        times = met.get(at, 0.0)
        if abs(times - runs[at]) > _SAME_RUNS * runs[at] + 1e-9:
            apart = (column == at) & (found != "module")
            column[apart], found[apart] = -1, "none"


def _drop_shifted(
    launches: StepLaunches,
    sure: NDArray[np.bool_],
    column: NDArray[np.int64],
    found: NDArray[np.object_],
) -> None:
    """Unjoin all launches that joined by position alone if more layers ran than are predicted;
    kernels of joined operators are left over in that case.
    """
    names = launches.kernels["name"].astype("category").cat.codes.to_numpy(np.int64)
    placed = sure & (found == "sequence")
    left = np.isin(names, names[placed]) & sure & (column < 0)
    if left.sum() > _SAME_RUNS * max(int(placed.sum()), 1):
        apart = found == "sequence"
        column[apart], found[apart] = -1, "none"


def _by_flops(
    features: Sequence[Feature],
    codes: NDArray[np.int64],
    operators: Sequence[Planned],
    joined: tuple[NDArray[np.int64], NDArray[np.object_]],
    runs: NDArray[np.int64],
) -> None:
    """Join a remaining product with the remaining operator that has the same FLOPs and runs as
    often.
    """
    column, found = joined
    free = [at for at, operator in enumerate(operators)
            if operator.n and operator.k and not (column == at).any()]  # fmt: skip
    for code, feature in enumerate(features):
        if feature.shape is None or feature.gathers:
            continue
        rows = (codes == code) & (column < 0)
        times = int(rows.sum())
        batch, _, n, k = feature.shape
        for at in free:
            same = abs(batch * n * k / (operators[at].n * operators[at].k) - 1.0) <= _SAME_FLOPS
            if same and times and abs(times - runs[at]) <= _SAME_RUNS * runs[at]:
                column[rows], found[rows] = at, "flops"
                free.remove(at)
                break

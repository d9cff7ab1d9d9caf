"""Mixed steps of a serving engine as the ragged batches that their ranges describe.

vLLM names a step execute_<tokens>_context_<n>(sq..sk..sqsq..sqsk..)_generation_<m>(...): over the
n prompts and m generating sequences, the sums of new tokens q, of contexts k (new tokens included),
of q * q and of q * k.  For example, 15 prompts of 1,024 tokens are sq15360sk15360, with both
product sums 15 * 1,024^2; traces of such steps confirm this reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from genz_core.phases import mixed
from genz_core.types import Group
from genz_core.workload import Estimate
from profilers.matching.predicted_step import Expected
from profilers.phases.step_names import named_step
from profilers.schema import Report

_SUMS = r"(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
_STEP = re.compile(rf"context_{_SUMS}_generation_{_SUMS}")
#: Most different steps that are priced; of more, this many evenly spaced ones.
_MOST_STEPS = 64


def mixed_batches(reports: Sequence[Report]) -> list[tuple[Group, ...]]:
    """The batch of each mixed step in the reports whose range describes it."""
    batches = []
    for report in reports:
        rows = report.kernels["step"][report.kernels["phase"] == "mixed"].dropna().unique()
        for name in report.ranges["name"].astype(object).iloc[sorted(map(int, rows))]:
            if batch := _batch_of(str(name)):
                batches.append(batch)
    return batches


def _batch_of(name: str) -> tuple[Group, ...]:
    """The batch that a range's name describes; () where its sums are incomplete."""
    if (match := _STEP.search(name)) is not None:
        return ragged_batch([float(part) for part in match.groups()])
    step = named_step(name)
    if step is None:
        return ()
    sums: list[float] = []
    for part in (step.prompts, step.answers):
        if part.new_tokens is None or part.attended is None:
            return ()
        sums += [part.count, part.new_tokens, part.attended, 0.0, 0.0]
    return ragged_batch(sums)


def ragged_batch(sums: Sequence[float]) -> tuple[Group, ...]:
    """Groups of equal sequences that have the same sums as the sequences of a step.

    Args:
        sums: n, q, k, qq, qk of the prompts, then of the generating sequences; 0 for unknown
            products, which makes the sequences of a group equally long.

    Returns:
        A group of each that is not empty.  Sequences of the group may be a fraction, so that
        its sums of q, q * q and q * k, which set the work, are those given.
    """
    return tuple(group for part in (sums[:5], sums[5:]) if (group := _group(*part)) is not None)


def _group(count: float, q: float, k: float, qq: float, qk: float) -> Group | None:
    if count < 1 or q < 1:
        return None
    new = max(min(qq / q, q), 1.0) if qq else q / count
    sequences = q / new
    cached = max((qk - qq) / q, 0.0) if qk else max((k - q) / count, 0.0)
    return Group(sequences, new, cached)


def expected_mixed(estimate: Estimate, reports: Sequence[Report]) -> Expected | None:
    """The mean predicted step over the mixed steps of the reports; None where no range describes
    them.
    """
    batches = mixed_batches(reports)
    if not batches:
        return None
    picked = {int(at) for at in np.linspace(0, len(batches) - 1, min(len(batches), _MOST_STEPS))}
    steps = [
        mixed(estimate.model, estimate.system, batches[at], estimate.parallelism, estimate.engine)
        for at in sorted(picked)
    ]
    parts = [Expected.from_step(step) for step in steps]
    longest = max(parts, key=lambda part: len(part.program))
    tables = pd.concat([_numbered(part) for part in parts], ignore_index=True)
    means = tables.groupby(_KEY, sort=False)[_MEANS].sum() / len(parts)
    rows = _numbered(longest)
    rows[_MEANS] = means.reindex(pd.MultiIndex.from_frame(rows[_KEY])).fillna(0.0).to_numpy()
    rows = rows.drop(columns="again")
    bound_s, host_s, wait_s = (
        float(np.mean([getattr(part, name) for part in parts])) for name in _SECONDS
    )
    rows["name"] = [_without_group(name) for name in rows["name"]]
    columns = {str(name): rows[name].tolist() for name in rows.columns}
    program = tuple(replace(one, name=_without_group(one.name)) for one in longest.program)
    return Expected(columns, bound_s, host_s, wait_s, program=program)


def _numbered(part: Expected) -> pd.DataFrame:
    """The operators of a step, with "again" numbering those of equal name.

    Two kinds of layers that occur equally often give their operators equal names.
    """
    rows = pd.DataFrame(dict(part.operators))
    return rows.assign(again=rows.groupby(_KEY[:-1], sort=False).cumcount())


def _without_group(name: str) -> str:
    """ "attention" of "attention_2": kernels of an engine take prompts and sequences together."""
    return re.sub(r"^(\w*attention\w*?)_\d+$", r"\1", name)


_KEY = ["name", "module", "runs", "again"]
_MEANS = ["flops", "bytes", "bound_s", "predicted_s"]
_SECONDS = ("bound_s", "host_s", "wait_s")

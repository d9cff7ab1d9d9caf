"""Kernels that the prompts of a step share.

Engines read all prompts of a step in one kernel of variable lengths: FlashAttention's
`flash_attn_varlen_func` (vLLM, vllm/v1/attention/backends/flash_attn.py), FlashInfer's ragged
prefill (SGLang, python/sglang/srt/layers/attention/flashinfer_backend.py).  A graph counts it by
groups of equal prompts.  A group with n of a kernel's N prompts gets n / N of the time of a kernel
with N such prompts, so it does not matter how equal prompts are grouped.  The kernel takes at least
as long as that of any of its groups alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from genz_core.graphs import GROWING, Op
from genz_core.latency import Pricer
from genz_core.latency.pricer import decoding
from genz_core.types import Array
from genz_core.validity import spread

_NUMBER_OF_A_GROUP = re.compile(r"_\d+$")


def share_kernels(ops: Sequence[Op], pricer: Pricer, expected: Array) -> None:
    """Change the times of the operators of prompts to their parts of the kernels that they share.

    ops: of a step; those of its groups may be numbered.  expected: of one run [s], [ops, configs].
    """
    for rows in _kernels(ops):
        prompts = np.array([_prompts(ops[row], expected.shape[1]) for row in rows])
        every = prompts.sum(0)
        share = np.divide(prompts, every, out=np.ones_like(prompts), where=prompts > 0)
        if np.all(share == 1.0):
            continue
        parts = np.array(
            [
                of_all * pricer.expected_s(_repeated(ops[row], 1.0 / of_all))
                for row, of_all in zip(rows, share, strict=True)
            ]
        )
        shared = prompts > 0
        alone = np.where(shared, expected[rows], 0.0)
        together = np.where(shared, parts, 0.0).sum(0)
        longer = np.maximum(alone.max(0) / np.maximum(together, 1e-300), 1.0)
        expected[rows] = np.where(shared, parts * longer, expected[rows])


def _kernels(ops: Sequence[Op]) -> list[list[int]]:
    """Rows of the operators that differ only in the group of sequences that they serve."""
    found: dict[object, list[int]] = defaultdict(list)
    for row, op in enumerate(ops):
        if {"sequences", "new_tokens"} <= op.dims.keys():
            name = _NUMBER_OF_A_GROUP.sub("", op.name)
            found[name, op.kind, op.module, op.layers, op.stage].append(row)
    return [rows for rows in found.values() if len(rows) > 1]


def _prompts(op: Op, size: int) -> Array:
    """Prompts of an operator's group, 0 where its sequences decode, [configs]."""
    sequences = np.where(decoding(op), 0.0, op.dims["sequences"])
    return spread(np.asarray(sequences, dtype=float), size)


def _repeated(op: Op, times: Array) -> Op:
    """The operator with this many times its sequences."""
    sizes = {name: getattr(op, name) * times for name in GROWING}
    dims = {**op.dims, "sequences": op.dims["sequences"] * times}
    return replace(op, **sizes, dims=dims)

"""Mixture of experts: time of routing, permutation and two grouped products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.gemm import MOST_VECTORS
from genz_core.latency.kernel_time import KernelTime, Stages, in_passes
from genz_core.latency.models import prices
from genz_core.latency.numerics import p_norm
from genz_core.latency.parameters import MoeParameters
from genz_core.latency.profile import product_format
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

_ROWS = np.array([16, 32, 64, 128, 256], dtype=np.float64)  # token rows of a tile
_COLUMNS = 128.0
_ACTIVATION_BYTES = 2.0


def moe_time(
    tokens: Num,
    routed_rows: Num,
    active_experts: Num,
    *,
    local_experts: Num,
    hidden: Num,
    intermediate: Num,
    gated: bool = True,
    weight_bytes: float = 2.0,
    peak_flops_per_s: float,
    device: Device,
    parameters: MoeParameters,
    floor_s: float | None = None,
    expert_s: float | None = None,
    at_random: bool = False,
    vectors: bool = False,
    vector_weights_per_s: float = 0.0,
    pass_rows: float = 0.0,
) -> KernelTime:
    """Time of the routed experts of one layer on one device [s].

    With A active experts, R rows and g = 3 (gated) or 2 projections, over row tiles BM::

        rows_of_tiles = A ceil(R/A/BM), or the tiles that random routing is expected to fill
        tiles     = rows_of_tiles ceil((g-1) I / 128)
        t_compute = rows_of_tiles BM 2 g H I / (compute_efficiency peak) wave(tiles / units)
                    (1 + 32/BM) / 1.25
        t_memory  = A g H I bytes / (memory_efficiency bandwidth) / min(1, A columns / (ramp units))
        T         = launch + min p_norm(overlap, t_compute, t_memory) + k_step (H + I) / 64
                    + (permute_passes R + token_passes T) 2 H / bandwidth + expert_s local_experts

    Matrix-vector kernels allow tiles of one row: they compute R rows, without padding, and read the
    weights of the expert for each row.

    Args:
        tokens: tokens that the layer routes, over all devices that share the experts; like the
            sizes below, a number or an array [shapes]; zero takes no time.
        routed_rows: (token, expert) pairs that this device computes; of the busiest rank if routing
        is skewed.
        active_experts: experts on this device that get at least one token (expected).
        local_experts: experts that this device holds.  hidden, intermediate: of one expert here.
        weight_bytes: per element.  peak_flops_per_s: of the arithmetic type.
        device, parameters: the datasheet, and fitted constants of device and number format.
        floor_s, expert_s: replace `launch_s` and `expert_s` (kernels of an engine).
        at_random: each token chooses its experts at random, as in a model; a benchmark distributes
            rows evenly.
        vectors: the engine has matrix-vector kernels of experts.
        vector_weights_per_s: weights that those kernels unpack and multiply a second, 0 for no
            limit.  Up to 8 tokens run on them; more tokens take at least as long.
        pass_rows: most tokens of one run, 0 for any number.

    Source: tile padding of grouped products, Gale et al., MegaBlocks (arXiv:2211.15841); the
    rows of an expert under random routing are binomial.  Matrix-vector kernels of experts: ggml's
    `mul_mat_id` (Metal and CUDA: `mul_mv_id`, `mul_mat_vec_q`) and MLX's `gather_qmv`.
    """
    stages = partial(
        _experts_stages,
        matrices=3.0 if gated else 2.0,
        weight_bytes=weight_bytes,
        peak_flops_per_s=peak_flops_per_s,
        device=device,
        parameters=parameters,
        expert_s=parameters.expert_s if expert_s is None else expert_s,
        at_random=at_random,
        vectors=vectors,
        vector_weights_per_s=vector_weights_per_s,
    )
    if pass_rows:
        stages = partial(in_passes, run=_experts_stages, rows=2, most=pass_rows, **stages.keywords)
    return KernelTime(
        stages,
        (tokens, routed_rows, active_experts, local_experts, hidden, intermediate),
        work=tokens,
        launch_s=parameters.launch_s if floor_s is None else floor_s,
        chunk=8192,
    )


def _experts_stages(
    tokens: Array,
    routed: Array,
    active: Array,
    local: Array,
    hidden: Array,
    intermediate: Array,
    *,
    matrices: float,
    weight_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: MoeParameters,
    expert_s: float,
    at_random: bool,
    vectors: bool,
    vector_weights_per_s: float,
) -> Stages:
    """Stages of the grouped products for each row tile, [tiles, shapes], and the surrounding
    passes.
    """
    routed = np.maximum(routed, 1e-9)
    active = np.clip(active, 1e-9, np.maximum(routed, 1e-9))
    size = matrices * hidden * intermediate
    columns = np.ceil((matrices - 1.0) * intermediate / _COLUMNS)
    rows = _ROWS[:, None]
    if at_random:
        tiles_m = expected_tiles(routed, active, local, rows)
    else:
        tiles_m = active * np.ceil(routed / active / rows)
    waves = tiles_m * columns / device.compute_units
    whole = np.maximum(waves + 0.5, 1.0) if at_random else np.ceil(waves)
    rounded = parameters.wave * whole + (1.0 - parameters.wave) * np.maximum(waves, 1.0)
    peak_s = tiles_m * rows * 2.0 * size / (parameters.compute_efficiency * peak_flops_per_s)
    compute = peak_s * (rounded / waves) * (1.0 + 32.0 / rows) / 1.25
    filling = np.minimum(active * columns / device.compute_units / parameters.ramp, 1.0)
    stream = (
        active * size * weight_bytes / (parameters.memory_efficiency * device.memory_bytes_per_s)
    )
    stages = {"compute": compute, "memory": np.broadcast_to(stream / filling, compute.shape)}
    one_row = 2.0 * size / (parameters.compute_efficiency * peak_flops_per_s)
    if vector_weights_per_s:
        one_row = np.maximum(one_row, size / vector_weights_per_s)
        few = routed * np.minimum(1.0, MOST_VECTORS / np.maximum(tokens, 1e-9))
        stages["compute"] = np.maximum(compute, few * size / vector_weights_per_s)
    if vectors:
        way = {"compute": routed * one_row, "memory": stream * np.maximum(routed / active, 1.0)}
        stages = {name: np.vstack([way[name], times]) for name, times in stages.items()}
    moved = parameters.permute_passes * routed + parameters.token_passes * tokens
    passes = {
        "k_loop": parameters.k_step_s * (hidden + intermediate) / 64.0,
        "permute": moved * hidden * _ACTIVATION_BYTES / device.memory_bytes_per_s,
        "experts": expert_s * local,
    }
    return Stages(stages, p_norm(parameters.overlap, *stages.values()), after=passes)


_NEAR = 3  # distance from the mean, in tiles, beyond which an expert's row count is very unlikely


def expected_tiles(routed: Array, active: Array, local: Array, rows: Array) -> Array:
    """Row tiles that random routing is expected to fill, all experts together, [tiles, shapes].

    An expert of mean m = R/local rows fills ceil(r / BM) tiles: the sum over j of the probability
    of more than j BM rows.  The first probability is that of any row, A / local.  The others are
    taken from a normal distribution of variance m (the binomial's is smaller by at most k/E); where
    its width is a tile or more, the result is m / BM + 1/2.  The result is never less than the rows
    fill.

    routed, active, local: rows, experts reached and held, [shapes].  rows: of a tile, [tiles, 1].
    """
    mean = routed / np.maximum(local, 1.0)
    width = np.sqrt(mean)
    first = np.maximum(np.floor(mean / rows) - _NEAR, 1.0)
    more = np.maximum(first - 1.0, 0.0) * np.ones_like(mean)
    for step in range(2 * _NEAR + 1):
        more = more + _normal_share((mean - (first + step) * rows - 0.5) / width)
    wide = np.maximum(mean / rows - 0.5, 0.0)  # tiles beyond the first one
    more = np.where(width > 0.8 * rows, wide, more)
    return np.maximum(active + local * more, np.maximum(routed / rows, active))


def _normal_share(deviations: Array) -> Array:
    """Share of a normal distribution below this many standard deviations, accurate to 2e-4.

    Source: Page 1977, Approximations to the cumulative normal function, Applied Statistics 26.
    """
    z = np.clip(deviations, -8.0, 8.0)
    return number(1.0 / (1.0 + np.exp(-z * (1.5976 + 0.070565 * z * z))))


def busiest_rank_rows(rows: Num, expert_ranks: Num, skew: Num, all_rows: Num) -> Array:
    """Rows of the busiest of `expert_ranks` ranks, where each gets `rows` under even routing.

    Power-law routing sends it ep^skew times the even share, at most `all_rows`.
    """
    even = np.asarray(rows, np.float64)
    return np.minimum(even * np.asarray(expert_ranks, np.float64) ** skew, all_rows)


# ------------------------------------------------------------------------------- from an operator


def _key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the experts' constants."""
    return "moe", product_format(op.weights, conditions.arithmetic(op))


@prices("moe", formula=moe_time, key=_key)
def _arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `moe_time`."""
    d = op.dims
    return {
        "tokens": d["tokens"],
        "routed_rows": d["rows"],
        "active_experts": d["active_experts"],
        "local_experts": d["experts"],
        "hidden": d["hidden"],
        "intermediate": d["intermediate"],
        "gated": bool(np.all(d["gated"])),
        "weight_bytes": float(np.max(d.get("weight_bytes", bytes_of(op.weights)))),
        "peak_flops_per_s": conditions.peak(op),
        "device": conditions.device_for(op),
        "floor_s": None if conditions.alone else conditions.moe_floor_s,
        "expert_s": None if conditions.alone else conditions.engine.expert_s,
        "at_random": not conditions.alone,
        "vectors": conditions.engine.thin_products,
        "vector_weights_per_s": conditions.vector_weights_per_s(op),
        "pass_rows": conditions.pass_rows,
    }

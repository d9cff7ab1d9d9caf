"""Operators that pass over memory once: norms, rope, activations, residuals, embedding,
sampling.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.kernel_time import KernelTime, Stages
from genz_core.latency.models import prices
from genz_core.latency.numerics import warm_share
from genz_core.latency.parameters import PointwiseParameters, ScanParameters
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num


def pointwise_time(
    moved_bytes: Num,
    *,
    device: Device,
    parameters: PointwiseParameters,
    warm_cache: bool = False,
    floor_s: float | None = None,
) -> KernelTime:
    """Time of one fused pass over `moved_bytes` (reads and writes) [s].

    T = launch + bytes / (memory_efficiency bandwidth); zero where no bytes are moved.

    Args:
        moved_bytes: a number or an array [shapes].
        device, parameters: the datasheet, and the fitted constants of the device.
        warm_cache: bytes that fit into the last-level cache are there already (a benchmark's
            repeats, or the operator before), and are read at cache bandwidth.
        floor_s: replaces `parameters.launch_s`: zero for an operator fused into its neighbour.
    """
    return KernelTime(
        partial(_stages, device=device, parameters=parameters, warm_cache=warm_cache),
        (moved_bytes,),
        work=moved_bytes,
        launch_s=parameters.launch_s if floor_s is None else floor_s,
    )


def _stages(
    moved: Array, *, device: Device, parameters: PointwiseParameters, warm_cache: bool
) -> Stages:
    """The only stage of a pass: its memory traffic, [shapes]."""
    stream = streamed_s(moved, device, parameters, warm_cache)
    return Stages({"memory": stream}, stream)


def streamed_s(
    moved_bytes: Array,
    device: Device,
    parameters: ScanParameters | PointwiseParameters,
    warm_cache: bool,
) -> Array:
    """Time to move operands once at the fitted shares of the device's bandwidths [s].

    warm_cache: operands that are still in the last-level cache are read from there.
    """
    stream = moved_bytes / (parameters.memory_efficiency * device.memory_bytes_per_s)
    if not warm_cache:
        return stream
    warm = warm_share(moved_bytes, device.l2_bytes)
    cached = moved_bytes / (parameters.cache_share * device.cache_bytes_per_s)
    return number((1.0 - warm) * stream + warm * np.minimum(cached, stream))


# ------------------------------------------------------------------------------- from an operator


def _key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants, the same for all formats."""
    return "pointwise", "default"


@prices(
    "norm", "rope", "activation", "residual", "routing", "copy", "embedding", "sampling",
    formula=pointwise_time, key=_key,
)  # fmt: skip
def _arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `pointwise_time`."""
    return {
        "moved_bytes": op.memory_bytes,
        "device": conditions.device,
        "warm_cache": conditions.warm_cache,
        "floor_s": conditions.floor_s(),
    }

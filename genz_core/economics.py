"""Money and energy per token, from the price and the power that a system's datasheet states."""

from __future__ import annotations

import numpy as np

from genz_core.types import Array, Num, System

_HOUR_S = 3600.0
_MILLION = 1e6


def usd_per_million_tokens(system: System, devices: Num, tokens_per_s: Num) -> Array | None:
    """Rent of `devices` per million tokens [USD]; None for a system without a price.

    price_per_hour * devices / (tokens_per_s * 3600) * 1e6.

    Args:
        devices, tokens_per_s: of the deployment; numbers or arrays [configs].
    """
    if system.price_usd_per_hour is None:
        return None
    hourly = system.price_usd_per_hour * np.asarray(devices, dtype=float)
    return hourly / (np.asarray(tokens_per_s, dtype=float) * _HOUR_S) * _MILLION


def joules_per_token(system: System, devices: Num, tokens_per_s: Num) -> Array | None:
    """Energy per token at thermal design power [J]; None for a system that states no power.

    tdp * devices / tokens_per_s: an upper bound of the accelerators' share.  Memory-bound phases
    draw less, and the host, the network and the cooling are not in it.

    Args:
        devices, tokens_per_s: of the deployment; numbers or arrays [configs].
    """
    if system.tdp_w is None:
        return None
    return system.tdp_w * np.asarray(devices, dtype=float) / np.asarray(tokens_per_s, dtype=float)

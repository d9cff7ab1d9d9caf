"""Notes on weights that are only stored in their format and multiplied in another.

Weights below 8 bits that are unpacked to 16 save bandwidth and cost arithmetic: where the device
multiplies 8-bit numbers faster, prompts take longer than with weights of 8 bits.
"""

from collections.abc import Iterator
from contextlib import suppress

from genz_core.common.memo import ByIdentity
from genz_core.errors import MissingSpec
from genz_core.graphs import Model
from genz_core.latency.roofline import fastest_of
from genz_core.limits import short
from genz_core.precision import bytes_of
from genz_core.systems import System
from genz_core.types import Parallelism, Step

_SIXTEEN_BIT, _EIGHT_BIT = 2.0, 1.0
#: Classes of operators that multiply with weights.
_PRODUCTS = ("gemm", "moe")
#: Weight formats whose products run in 8 bits, by their arithmetic type.
_IN_EIGHT_BITS = {"fp8": "fp8", "int8": "w8a8"}
_KEPT: ByIdentity[tuple[str, ...]] = ByIdentity()


def format_notes(model: Model, system: System, products: str) -> tuple[str, ...]:
    """A note on each weight format below 16 bits whose products run in 16 bits or more.

    products: the engine's own arithmetic type for them, see `EngineProfile`.
    """
    if products in system.peak_flops_per_s:
        return ()
    return _KEPT.get(lambda: tuple(_notes(model, system)), model, system)


def _notes(model: Model, system: System) -> Iterator[str]:
    ops = model.graph(Step.decode(1.0, 1.0), Parallelism()).ops
    with suppress(MissingSpec):  # the price refuses a forced arithmetic that the system lacks
        products = (op for op in ops if op.weights and op.operator_class in _PRODUCTS)
        pairs = dict.fromkeys((op.weights, fastest_of(op, system)) for op in products)
        for weights, runs in pairs:
            if bytes_of(weights) < _SIXTEEN_BIT <= bytes_of(runs):
                said = f"{weights} weights are unpacked to {runs} for their products"
                slower = _slower_than_eight_bits(weights, runs, system)
                yield f"{said} on {system.name}{slower}"


def _slower_than_eight_bits(weights: str, runs: str, system: System) -> str:
    """The end of a note where weights below 8 bits multiply at a lower peak than those of 8 bits.

    runs: arithmetic type of the products with these weights.
    """
    peaks = system.peak_flops_per_s
    faster = next((by for by in _IN_EIGHT_BITS if peaks.get(by, 0.0) > peaks[runs]), None)
    if bytes_of(weights) >= _EIGHT_BIT or faster is None:
        return ""
    times = short(peaks[faster] / peaks[runs], 2)
    return (
        f", whose peak is {times} times as high in {faster}: prompts take longer than with "
        f"{_IN_EIGHT_BITS[faster]} weights"
    )

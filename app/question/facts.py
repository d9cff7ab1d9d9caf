"""Facts of a configuration that can be compared with measured runs: numbers and words."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.graphs import Model
from genz_core.models.model_kinds import model_kind
from genz_core.precision import FORMATS, arithmetic, bytes_of
from genz_core.serving import Traffic
from genz_core.systems import System
from genz_core.types import Num, Parallelism, Step

#: Parameters of a split that matter only for a mixture of experts.
_OF_EXPERTS = ("ep", "expert_imbalance", "redundant_experts", "overlap")
#: It follows from the other degrees.
_IMPLIED = ("moe_tp",)
#: The kind of systems whose makers share neither architecture nor software.
_OWN_DESIGN = "npu"
#: Fields of `Traffic` that are not facts of their own: the load itself, and the protocol of a run.
_PROTOCOL = ("concurrency", "rate_per_s", "waves")


def split_facts(split: Parallelism, mixed: bool) -> tuple[dict[str, Num], dict[str, str]]:
    """Numbers and words of a split.  mixed: whether the model is a mixture of experts."""
    numbers: dict[str, Num] = {"devices": split.devices}
    words: dict[str, str] = {}
    for entry in fields(split):
        value = getattr(split, entry.name)
        if entry.name in _IMPLIED or (not mixed and entry.name in _OF_EXPERTS):
            continue
        if isinstance(value, bool | str | tuple):
            words[entry.name] = " ".join(value) if isinstance(value, tuple) else str(value)
        else:
            numbers[entry.name] = value
    return numbers, words


def device_kind(system: System) -> str:
    """The kind of a device whose runs tell something about it: "gpu", "igpu", "tpu", "cpu", or an
    NPU with its maker, "Intel npu", since the NPUs of two makers have nothing in common.
    """
    return f"{system.vendor} {system.kind}" if system.kind == _OWN_DESIGN else system.kind


def formats_of(model: Model) -> Mapping[str, str]:
    """{kind of tensor: number format} of a model; all 16-bit floats count as one format.

    "experts" is absent for a model without experts.
    """
    return _KEPT.get(lambda: _formats_of(model), model)


_KEPT: ByIdentity[Mapping[str, str]] = ByIdentity()


def _formats_of(model: Model) -> Mapping[str, str]:
    precision = model.precision
    held: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for op in model.graph(Step.decode(1.0, 1.0), Parallelism()).ops:
        if op.weights:
            parameters = float(np.max(op.held_weight_bytes)) * op.count / bytes_of(op.weights)
            held[op.kind == "moe"][op.weights] += int(parameters)
    plain, experts = (
        precision.mixture or max(held[kind], key=held[kind].__getitem__, default="")
        for kind in (False, True)
    )
    natural = arithmetic(plain, precision.activations)
    forced = arithmetic(plain, precision.activations, precision.compute)
    found = {
        "weights": plain,
        "kv": precision.kv,
        "activations": precision.activations,
        "compute": precision.compute if _alike(forced) != _alike(natural) else "",
    }
    if held[True]:
        found["experts"] = experts
    return {name: _alike(value) for name, value in found.items()}


def _alike(fmt: str) -> str:
    """A format's name; "16 bit" for 16-bit floats, which cost the same."""
    return "16 bit" if fmt in FORMATS and FORMATS[fmt].bits == 16 else fmt


def input_facts(model: Model) -> dict[str, str]:
    """Kind of a model and its inputs beside text, in words."""
    found: dict[str, str] = {"kind": model_kind(model)}
    inputs = getattr(model, "inputs", None)
    for entry in fields(inputs) if inputs is not None else ():
        if entry.name not in ("width", "height") and getattr(inputs, entry.name):
            found[entry.name] = "asked"
    return found


def traffic_numbers(traffic: Traffic) -> Iterator[tuple[str, Num]]:
    """(name, value) of the numbers of a load beside its users."""
    for entry in fields(traffic):
        if entry.name not in (*_PROTOCOL, "pause_s", "sharing", "spill"):
            yield entry.name, getattr(traffic, entry.name)

"""Latency of an operator on a system under an engine, in seconds or broken down.

Only `Pricer` decides which formula, constants, format and device price an operator: graphs,
intervals, worked examples and measured points all get their latencies from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from genz_core.engine import EngineProfile
from genz_core.graphs import Op, picked
from genz_core.latency import (  # noqa: F401
    collectives,
    decode_attention,
    gemm,
    moe,
    pointwise,
    prefill_attention,
    scan,
)
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.kernel_time import KernelTime, seconds_of
from genz_core.latency.models import LatencyModel, Phase, depends_on_phase, latency_model
from genz_core.latency.parameters import Parameters
from genz_core.latency.profile import Fit, LatencyProfile
from genz_core.latency.residual import Shapes, has_features
from genz_core.latency.roofline import Roofline, roofline
from genz_core.symbolic.symbols import Symbol, number
from genz_core.systems import System
from genz_core.types import Array, Mask, Num


@dataclass(frozen=True, slots=True)
class ConstantsUsed:
    """The fitted constants behind a price.

    operator, fmt: class and format, as a profile keys them.  parameters: the constants.
    fit: record of their fit.  borrowed: they were fitted on another format, for lack of a fit on
    this one.
    engine_rate: the device's rate is scaled by a factor of the engine that no operator benchmark
    measured.
    """

    operator: str
    fmt: str
    parameters: Parameters
    fit: Fit
    borrowed: bool
    engine_rate: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The price of one run of an operator broken down, [configs] where it is an array.

    seconds: the price.  bound: its least time per resource.  terms: parts that sum to `seconds`,
    by cause.  stages: times of overlapping stages.
    formula: the function whose docstring states the equation.  constants: see `ConstantsUsed`.
    arithmetic: type that it runs in.
    device, peak_flops_per_s: figures of the datasheet that the formula used, at the rates that the
    engine reaches.
    """

    seconds: Array
    bound: Roofline
    terms: Mapping[str, Array]
    stages: Mapping[str, Array]
    formula: Callable[..., KernelTime]
    constants: ConstantsUsed
    arithmetic: str
    peak_flops_per_s: float
    device: Device

    def mean(self, weights: tuple[float, ...]) -> Explanation:
        """The explanation of an average step: weighted averages over [nodes], numbers instead of
        arrays.
        """

        def average(values: Any) -> Any:
            flat = np.broadcast_to(np.asarray(values, dtype=float).reshape(-1), (len(weights),))
            return np.float64(flat @ np.asarray(weights))

        least = self.bound
        resources = (least.compute_s, least.memory_s, least.communication_s, least.far_s)
        return replace(
            self,
            seconds=average(self.seconds),
            bound=Roofline(*map(average, resources)),
            terms={name: average(time) for name, time in self.terms.items()},
            stages={name: average(time) for name, time in self.stages.items()},
        )


@dataclass(frozen=True, slots=True)
class Pricer:
    """Prices operators on one system as one engine runs them.

    alone, warm_cache: kernels as a benchmark times them, see `Conditions`.
    """

    system: System
    engine: EngineProfile
    alone: bool = False
    warm_cache: bool = False
    conditions: Conditions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        conditions = Conditions(self.system, self.engine, self.alone, self.warm_cache)
        object.__setattr__(self, "conditions", conditions)

    @property
    def profile(self) -> LatencyProfile:
        """The fitted constants of the system, or typical ones if it has no profile."""
        return self.conditions.profile

    def expected_s(
        self, op: Op, parameters: Parameters | None = None, least: Roofline | None = None
    ) -> Array:
        """Latency of one run of `op` [s], [configs]; zero where there is no work.

        A launch that takes the host longer than the kernel takes the device hides the kernel.
        In an engine's graphs operands are cold, and no latency lies below the bound.

        Args:
            op: numbers, or arrays with one value per configuration.
            parameters: constants to price with in place of the profile's.
            least: `roofline(op, system)`, where the caller has it.

        Raises:
            MissingSpec: the system states no peak or link that the operator needs.
        """
        time = _by_phase(op, lambda model, part: self._kernel_s(model, part, parameters))
        return self._launched(time, least or roofline(op, self.system))

    def expected_of(self, ops: Sequence[Op], least: Sequence[Roofline]) -> list[Array]:
        """`expected_s` of each operator.

        Operators with the same formula and constants are priced in one call where they have few
        configurations; collectives that send nothing are not priced.

        least: `roofline(op, system)` of each.
        """
        if self.alone:
            return [self.expected_s(op, least=of_op) for op, of_op in zip(ops, least, strict=True)]
        times = [np.zeros(np.shape(op.message_bytes)) for op in ops]
        phases = [_one(phases_of(op)) for op in ops]
        for at, phase in enumerate(phases):
            if phase is None:
                times[at] = self.expected_s(ops[at], least=least[at])
        kernels = self.kernels_of(ops, phases)
        seconds = seconds_of(list(kernels.values()))
        for at, time in zip(kernels, seconds, strict=True):
            times[at] = self._launched(time, least[at])
        return times

    def kernels_of(
        self, ops: Sequence[Op], phases: Sequence[Phase | None]
    ) -> dict[int, KernelTime]:
        """The kernel of each operator that has a single phase, by index; none for a collective that
        sends nothing.
        """
        return {
            at: self._kernel(latency_model(op.kind, phase), op)
            for at, (op, phase) in enumerate(zip(ops, phases, strict=True))
            if phase and not _sends_nothing(op)
        }

    def launch_s(self, op: Op) -> Array:
        """Time of one run of `op` before its kernel starts working, or time that the host takes to
        launch it [s].

        In the shape of its configurations; zero where there is no work.
        """
        if _sends_nothing(op):
            return np.zeros(np.shape(op.message_bytes))

        def of_phase(model: LatencyModel, part: Op) -> Array:
            kernel = self._kernel(model, part)
            launch = np.maximum(kernel.launch_s, self.engine.launch_s)
            return np.broadcast_to(np.where(np.asarray(kernel.work) > 0, launch, 0.0), kernel.shape)

        return _by_phase(op, of_phase)

    def arithmetic_over_memory_s(self, op: Op) -> Array:
        """Priced arithmetic time of one run of `op`, minus its priced memory time [s].

        In the shape of its configurations; zero where its kernel lacks either stage.
        """

        def of_phase(model: LatencyModel, part: Op) -> Array:
            kernel = self._kernel(model, part)
            stages = kernel.terms().stages
            if not {"compute", "memory"} <= stages.keys():
                return np.zeros(kernel.shape)
            return (stages["compute"] - stages["memory"]).reshape(kernel.shape)

        return _by_phase(op, of_phase)

    def constants(self, op: Op) -> ConstantsUsed:
        """The constants that price `op`; prefill's constants if an array holds both phases."""
        operator, fmt = latency_model(op.kind, phases_of(op)[0]).key(self.conditions, op)
        return ConstantsUsed(
            operator,
            fmt,
            self.profile.constants(operator, fmt),
            self.profile.fit(operator, fmt),
            borrowed=fmt not in self.profile.parameters[operator],
            engine_rate=self.conditions.device_for(op) is not self.conditions.device,
        )

    def explain(self, op: Op) -> Explanation:
        """The latency of one run of `op` broken down; its seconds equal those of `expected_s`.

        All configurations of `op` must be of one phase.
        """
        model, constants = latency_model(op.kind, phases_of(op)[0]), self.constants(op)
        arguments = model.arguments(self.conditions, op)
        parts = model.formula(**arguments, parameters=constants.parameters).terms()
        least = roofline(op, self.system)
        kernel = self._as_measured(model, op, parts.total_s)
        if self.alone:
            parts = parts.plus(measured_kernels=kernel - parts.total_s)
        waited = np.where(kernel > 0, np.maximum(kernel, self.engine.launch_s), 0.0)
        near = waited if self.alone else np.maximum(waited, least.near_bound_s)
        seconds = self._launched(kernel, least)
        parts = parts.plus(host_launch=waited - kernel, to_the_bound=near - waited)
        if np.any(seconds > near):
            parts = parts.plus(second_memory=seconds - near)
        return Explanation(
            seconds=seconds,
            bound=least,
            terms=parts.terms,
            stages=parts.stages,
            formula=model.formula,
            constants=constants,
            arithmetic=self.conditions.arithmetic(op),
            peak_flops_per_s=self.conditions.peak(op),
            device=arguments.get("device", self.conditions.device),
        )

    def _kernel(
        self, model: LatencyModel, op: Op, parameters: Parameters | None = None
    ) -> KernelTime:
        """The kernel that prices `op`, before the engine's launch is taken into account."""
        if parameters is None:
            parameters = self.profile.constants(*model.key(self.conditions, op))
        return model.formula(**model.arguments(self.conditions, op), parameters=parameters)

    def _kernel_s(self, model: LatencyModel, op: Op, parameters: Parameters | None) -> Array:
        """Time of the kernel that prices `op` [s], with the residual where the profile's own
        constants price it.
        """
        seconds = self._kernel(model, op, parameters).seconds()
        return seconds if parameters is not None else self._as_measured(model, op, seconds)

    def _as_measured(self, model: LatencyModel, op: Op, seconds: Array) -> Array:
        """The time of a kernel that runs alone, corrected by the residual of measured kernels [s],
        [configs].

        At least its bound, unless the equation lies below: a warm cache may hold the operands.
        """
        residual = self.profile.residual if self.alone else None
        kernels = residual(*model.key(self.conditions, op)) if residual else None
        collective = op.operator_class == "collective"
        if kernels is None or not (collective or has_features(op.kind)):
            return seconds
        least = roofline(op, self.system)
        bound = least.compute_s if self.warm_cache and not collective else least.bound_s
        shapes = Shapes(op.kind, op.dims, self.conditions.device.compute_units)
        corrected = kernels.corrected_s(seconds, shapes)
        return np.asarray(np.maximum(corrected, np.minimum(seconds, bound)))

    def _launched(self, time: Array, least: Roofline) -> Array:
        """The time of a kernel [s] that the engine launches: at least its launch, and at least its
        bound.

        Reads from a second memory that its arithmetic does not hide are added.
        """
        time = launched(time, self.engine.launch_s)
        if self.alone:
            return time
        level = self.system.second_memory
        if level is None or not np.any(least.far_s):
            return np.maximum(time, least.bound_s)
        far = (least.bound_s - least.near_bound_s) / (level.reached or 1.0)
        return np.asarray(np.maximum(time, least.near_bound_s) + far)


def phases_of(op: Op) -> tuple[Phase, ...]:
    """The phases whose models price `op`: "decode" for sequences that generate, see `Group`.

    ("prefill",) for an operator whose kind has one model for both.
    """
    if "new_tokens" not in op.dims or not depends_on_phase(op.kind):
        return ("prefill",)
    decodes = decoding(op)
    if np.all(decodes):
        return ("decode",)
    return ("prefill", "decode") if np.any(decodes) else ("prefill",)


def _one(phases: tuple[Phase, ...]) -> Phase | None:
    return phases[0] if len(phases) == 1 else None


def decoding(op: Op) -> Mask:
    """Whether each configuration of `op` consists of sequences that generate."""
    return number(op.dims["new_tokens"]) <= 1.0 + op.dims.get("drafted", 0.0)


def _sends_nothing(op: Op) -> bool:
    """Whether `op` is a collective without a message."""
    known = not isinstance(op.message_bytes, Symbol)
    return known and op.operator_class == "collective" and not np.any(op.message_bytes)


def launched(time: Num, launch_s: float) -> Array:
    """Times of kernels [s], each at least the time that the host takes to launch it."""
    if not launch_s:
        return number(time)
    return np.where(number(time) > 0, np.maximum(time, launch_s), 0.0)


def _by_phase(op: Op, price: Callable[[LatencyModel, Op], Array]) -> Array:
    """Latencies `price(model, op)`, each configuration priced by the model of its phase,
    [configs].
    """
    phases = phases_of(op)
    if len(phases) == 1:
        return price(latency_model(op.kind, phases[0]), op)
    decodes = decoding(op)
    time = np.empty(decodes.shape)
    for phase, chosen in zip(phases, (~decodes, decodes), strict=True):
        time[chosen] = price(latency_model(op.kind, phase), picked(op, chosen))
    return time

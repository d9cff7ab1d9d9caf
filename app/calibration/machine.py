"""Calibrate this machine with microbenchmarks: a system, a latency profile and an engine.

`calibrate` runs the microbenchmarks and fits; `save` writes three files to the user's data folder,
where the hardware database reads them like shipped files: systems/this-machine.yaml,
profiles/this-machine.yaml and engines/hf-this-machine.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hardware_db
from genz_core.calibration.operator_calibration import Calibration
from genz_core.calibration.operator_calibration import calibrate as fit
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.eager import eager_engine, mean_of
from genz_core.engine import EagerFacts, EngineProfile
from genz_core.errors import InvalidValue, MeasurementError, RidgelineError
from genz_core.latency.measured_operators import OperatorPoints
from genz_core.latency.parameters import GemmParameters, describe
from genz_core.latency.profile import LatencyProfile
from genz_core.systems import System
from hardware_db import engine_schema, profile_schema, user_files
from profilers.collect import machine
from profilers.collect.machine_document import ENGINE, SLUG, system_document
from profilers.collect.microbenchmarks import Suite

#: Constants of the shipped engine that were fitted on other machines; here the kernels themselves
#: are measured.
_OF_OTHER_MACHINES = (
    "launch_us",
    "moe_floor_us",
    "expert_us",
    "compute_efficiency",
    "memory_efficiency",
    "attention_efficiency",
    "four_bit_efficiency",
    "vector_weights",
    "products",
    "on_cpu",
)


@dataclass(frozen=True, slots=True)
class MachineMeasurements:
    """Measurements of a machine, operator by operator.

    device: its name in torch.  suite: the microbenchmarks.  eager: host times and passes of eager
    execution.  contention: wall time over processor time of all cores before the run.
    """

    device: str
    suite: Suite
    eager: EagerFacts
    contention: float

    def joined(self, later: MachineMeasurements) -> MachineMeasurements:
        """Both measurements together: a machine drifts while it is measured."""
        return MachineMeasurements(
            self.device,
            self.suite.joined(later.suite),
            mean_of(self.eager, later.eager),
            max(self.contention, later.contention),
        )


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """A calibrated machine.

    system: with its fitted latency profile.  engine: eager transformers as measured here.
    prior: the profile before the fit.  document, engine_document: the YAML of system and engine as
    mappings.  measurements: the data of the fit.
    """

    system: System
    engine: EngineProfile
    prior: LatencyProfile
    calibration: Calibration
    document: Mapping[str, Any]
    engine_document: Mapping[str, Any]
    measurements: MachineMeasurements

    @property
    def suite(self) -> Suite:
        """The microbenchmarks."""
        return self.measurements.suite

    @property
    def points(self) -> tuple[OperatorPoints, ...]:
        """The microbenchmarks as points of the fit."""
        return self.suite.operator_points()

    @property
    def contention(self) -> float:
        """Wall time over processor time of all cores before the run."""
        return self.measurements.contention


def calibrate(
    device: str = "auto",
    threads: int = 0,
    progress: Progress = silent,
    cancelled: Cancel = never,
    anyway: bool = False,
) -> ThisMachine:
    """Measure and fit this machine; takes ten seconds to two minutes.

    threads: CPU threads; 0 for all cores if they are idle and one if they are shared.
    anyway: measure even if other programs use the cores.

    Raises:
        MeasurementError: torch is missing, the GPU is not in the hardware database, or the machine
            is or was too busy.
        Cancelled: `cancelled` returned True.
    """
    return fit_machine(measure_machine(device, threads, progress, cancelled, anyway))


def calibrate_with(
    settings: Mapping[str, Any], progress: Progress = silent, cancelled: Cancel = never
) -> ThisMachine:
    """`calibrate` as a background job.  settings: device and threads by name."""
    return calibrate(settings["device"], settings["threads"], progress, cancelled)


def measure_machine(
    device: str = "auto",
    threads: int = 0,
    progress: Progress = silent,
    cancelled: Cancel = never,
    anyway: bool = False,
) -> MachineMeasurements:
    """Run the microbenchmarks; arguments and errors as `calibrate`."""
    from profilers.collect.clock import refuse_overload, use_threads
    from profilers.collect.eager_pieces import measure_eager
    from profilers.collect.measured_model import pick_device
    from profilers.collect.microbenchmarks import run_suite

    chosen = pick_device(device)
    busy = use_threads(chosen, threads)
    if not anyway:
        refuse_overload(busy, threads or 1)
    suite = run_suite(chosen, progress=part(progress, 0.0, 0.6), cancelled=cancelled)
    rate = max(suite.results_of("pointwise"), key=lambda result: result.moved)
    facts = measure_eager(chosen, rate.moved / rate.median_s, part(progress, 0.6, 1.0))
    return MachineMeasurements(str(chosen), suite, facts, busy)


def fit_machine(measurements: MachineMeasurements) -> ThisMachine:
    """Fit system, latency profile and engine of this machine to its measurements.

    Raises:
        MeasurementError: the GPU is not in the hardware database, or the machine was so busy that
            its measured peaks contradict some of its points.
    """
    suite = measurements.suite
    document = _system_document(measurements.device, suite)
    # Under another name, so that the fit starts from typical constants, not from the previous fit.
    bare = replace(hardware_db.load({**document, "id": "uncalibrated"}), slug=SLUG)
    if bare.latency is None:
        raise MeasurementError(f"{bare.name} has no latency profile to start the fit from")
    day = str(suite.facts["day"])
    try:
        result = fit(bare.latency, bare, suite.operator_points(), date=day)
    except InvalidValue as error:
        raise MeasurementError(
            f"{error}; the measurements contradict each other: calibrate again while nothing else "
            f"runs on this machine (repeats differ by {suite.spread:.0%}, busy threads took "
            f"{measurements.contention:.1f} times their processor time)"
        ) from None
    if bare.kind == "cpu":
        result = replace(result, profile=_every_product(result.profile, suite))
    engine_document = _engine_document(measurements.eager, suite)
    return ThisMachine(
        system=replace(bare, latency=result.profile),
        engine=engine_schema.EngineRecord.model_validate(engine_document).profile(),
        prior=bare.latency,
        calibration=result,
        document=document,
        engine_document=engine_document,
        measurements=measurements,
    )


def _every_product(profile: LatencyProfile, suite: Suite) -> LatencyProfile:
    """The profile with products of narrower weight formats adjusted to the products measured here.

    The same core and memory feed all of them, so the rate at which the fastest one-row product
    reads its weights, and the overlap of arithmetic with it, are taken from the machine.  The other
    constants keep their typical values.
    """
    measured, day = profile.parameters["gemm"]["bf16"], profile.fits["gemm.bf16"].date
    rows = [result for result in suite.results_of("gemm") if result.dims["m"] == 1]
    assert isinstance(measured, GemmParameters)
    fastest = max(result.moved / result.median_s for result in rows)
    bounds = next(at for at in describe(GemmParameters) if at.name == "memory_efficiency")
    reached = min(max(fastest / suite.memory_bytes_per_s, bounds.low), bounds.high)
    formats, fits = dict(profile.parameters["gemm"]), dict(profile.fits)
    for fmt, constants in profile.parameters["gemm"].items():
        if fits[f"gemm.{fmt}"].tier == "measured":
            continue
        assert isinstance(constants, GemmParameters)
        formats[fmt] = replace(constants, memory_efficiency=reached, overlap=measured.overlap)
        source = "memory efficiency and overlap of matrix products measured here, others typical"
        fits[f"gemm.{fmt}"] = replace(
            profile.fits[f"gemm.{fmt}"], tier="measured", data_set=source, date=day
        )
    return replace(profile, parameters={**profile.parameters, "gemm": formats}, fits=fits)


def _system_document(device: str, suite: Suite) -> dict[str, Any]:
    if device == "cpu":
        return system_document(machine.cpu(), suite)
    from profilers.collect.measured_model import device_facts, pick_device

    try:
        record = hardware_db.facts(device_facts(pick_device(device)).name)
    except RidgelineError as error:
        raise MeasurementError(
            f"{error}; calibration needs the device's peaks: write a system YAML for it"
        ) from None
    return {
        "include": record.id,
        "id": SLUG,
        "name": f"This machine ({record.name})",
        "aliases": ["localhost", "this machine"],
    }


def _engine_document(facts: EagerFacts, suite: Suite) -> dict[str, Any]:
    """The engine's YAML as a mapping: eager transformers with measured host times and passes."""
    from dataclasses import fields

    note = f"microbenchmark, {suite.facts['library']}, {suite.facts['threads']} threads"
    profile = eager_engine(hardware_db.load_engine("hf"), facts)

    def measured(value: float) -> dict[str, Any]:
        rounded = float(f"{value:.5g}")
        return {"value": rounded, "source": "measured", "kind": "measured", "note": note}

    document = hardware_db.engine_facts("hf").model_dump(mode="json", exclude_none=True)
    for figure in _OF_OTHER_MACHINES:
        document.pop(figure, None)
    sources = {
        **document["sources"],
        "measured": {"title": f"Measured on this machine, {suite.facts['day']}"},
    }
    return {
        **document,
        "id": ENGINE,
        "name": "Hugging Face transformers, eager, on this machine",
        "aliases": ["hf on this machine"],
        "sources": sources,
        "kernel_floor_us": measured(profile.kernel_floor_s * 1e6),
        "host_step_us": measured(profile.host_step_s * 1e6),
        "host_sequence_us": measured(0.0),
        "thin_products": profile.thin_products,
        "extra": {entry.name: measured(getattr(facts, entry.name)) for entry in fields(EagerFacts)},
    }


# ------------------------------------------------------------------------------- the files


def save(calibrated: ThisMachine) -> list[Path]:
    """Write system, engine and profile to the data folder; each file is written completely or not
    at all.

    Raises:
        MeasurementError: the folder cannot be written.
    """
    heading = "Fitted by ridgeline calibrate machine."
    return [
        user_files.write_system(calibrated.document),
        user_files.write_engine(calibrated.engine_document),
        user_files.write_profile(user_profile(calibrated.calibration, SLUG), heading),
    ]


def user_profile(result: Calibration, slug: str) -> profile_schema.FittedProfile:
    """The profile to write: only constants that were fitted now or measured before.

    The others are the typical ones, to which every profile falls back.
    """
    profile = result.profile
    keys = [
        tuple(key.split(".", 1))
        for key, entry in profile.fits.items()
        if key in result.after or entry.tier == "measured"
    ]
    return profile_schema.FittedProfile(
        name=slug,
        family="",  # one machine says nothing about others of its family
        systems=(slug,),
        parameters={(op, fmt): profile.parameters[op][fmt] for op, fmt in keys},
        fits={(op, fmt): profile.fits[f"{op}.{fmt}"] for op, fmt in keys},
        note=profile.note,
    )

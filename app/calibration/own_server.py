"""Compare a real serving engine on this machine with a simulation calibrated by one number.

transformers' server with a small model of random weights is measured in closed loops.
Microbenchmarks calibrate the machine, the mean TPOT of one loop calibrates the steps, and the
simulation predicts all other figures of all loops.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.calibration import from_one_run
from app.calibration.machine import ThisMachine, calibrate
from app.question.question import Question
from app.scenario.scenario import Resolved, asking, resolve
from app.simulation.run import run
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.errors import InvalidValue
from genz_core.serving.simulation import Simulation
from genz_core.serving.simulation.answers import percentiles
from hardware_db.recipes import StepScale
from profilers.collect.serving import closed_loop, own_server, prompts, result_file
from profilers.collect.serving.closed_loop import ClosedLoop, ServedLoad
from profilers.collect.serving.own_server import RunningServer, ServerSettings

#: The scheduling policy equivalent to the server's `FIFOScheduler` while its cache is not full.
SCHEDULER = "vllm"
_LENGTHS = Question(isl=128, osl=64, length_ratio=0.5)
_RATES = ("requests_per_s", "output_tokens_per_s")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    users: of each loop.  rounds: how often every loop is measured, alternating with the others so
    that other activity on the machine affects all of them.  calibrate_at: the concurrency whose
    mean TPOT sets the step scale.  lengths: the question with isl, osl and length_ratio.
    """

    users: tuple[int, ...] = (1, 2, 4, 8)
    rounds: int = 3
    calibrate_at: int = 1
    lengths: Question = _LENGTHS
    server: ServerSettings = field(default_factory=ServerSettings)

    def __post_init__(self) -> None:
        if self.calibrate_at not in self.users:
            listed = ", ".join(map(str, self.users))
            raise InvalidValue(
                f"calibrate_at = {self.calibrate_at} is not one of the measured loads: {listed}"
            )
        if not 1 <= self.rounds <= 100:
            raise InvalidValue(f"rounds = {self.rounds}: give 1 to 100")
        for number in self.users:
            load = self.load(number, 0)
            held = load.isl + load.osl + self.server.block_tokens
            if number * held > self.server.kv_tokens:
                raise InvalidValue(
                    f"{number} requests of {load.isl}/{load.osl} tokens do not fit the server's "
                    f"cache of {self.server.kv_tokens:,} tokens: take fewer or shorter ones"
                )

    def load(self, concurrency: int, number: int) -> ClosedLoop:
        """One round of a loop: at least eight requests, and six per user."""
        return self._loop(concurrency, max(8, 6 * concurrency), self.lengths.osl, number)

    def warm_up(self) -> ClosedLoop:
        """Two short requests per user of the largest loop, before any measurement."""
        most = max(self.users)
        return self._loop(most, 2 * most, 4, 0)

    def _loop(self, concurrency: int, count: int, osl: int, seed: int) -> ClosedLoop:
        ratio = self.lengths.length_ratio or 1.0
        return ClosedLoop(concurrency, count, self.lengths.isl, osl, ratio, seed)


@dataclass(frozen=True, slots=True)
class MeasuredLoop:
    """All rounds of a loop.  core_share: processor time of the server over threads x wall time."""

    served: ServedLoad
    core_share: float


@dataclass(frozen=True, slots=True)
class OwnServer:
    """Measured and simulated figures of every loop by concurrency, with the setup.

    contention: wall time over processor time of busy cores before the run.
    """

    plan: Plan
    resolved: Resolved
    contention: float
    scale: StepScale
    measured: Mapping[int, Mapping[str, float]]
    simulated: Mapping[int, Mapping[str, float]]
    core_share: Mapping[int, float]


def compare(plan: Plan, progress: Progress = silent, cancelled: Cancel = never) -> OwnServer:
    """Calibrate this machine, measure the server, and simulate the same loads; takes some minutes.

    Raises:
        MeasurementError: the server cannot run here, a request failed, or the machine was too busy
            to calibrate.
        InvalidValue: no step scale gives the measured TPOT.
        Cancelled: `cancelled` returned True.
    """
    own_server.check_installed()
    machine = calibrate("cpu", plan.server.threads, part(progress, 0.0, 0.3), cancelled)
    loops = measure(plan, part(progress, 0.3, 0.95), cancelled)
    resolved, rest = deployment(machine), part(progress, 0.95, 1.0)
    return simulated(plan, resolved, loops, machine.contention, rest, cancelled)


def deployment(machine: ThisMachine) -> Resolved:
    """The server's model on this machine with eager transformers.

    The time between client and scheduler is taken from the shipped engine `hf`, because the machine
    was calibrated without a server.  Even a short delay makes the next request of a closed loop
    miss the step after an answer.
    """
    objects = {"model": own_server.CONFIG, "system": machine.system, "engine": machine.engine}
    return resolve(Question(), objects)


def measure(
    plan: Plan, progress: Progress = silent, cancelled: Cancel = never
) -> dict[int, MeasuredLoop]:
    """Start the server and measure every loop, round by round.

    Raises:
        MeasurementError, Cancelled: as `compare`.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-server-") as name:
        folder = Path(name)
        progress(0.0, "building the model")
        own_server.write_model(folder / "model")
        progress(0.02, "starting the server")
        log = folder / "server.log"
        with own_server.running(folder / "model", plan.server, log, cancelled) as started:
            return _measured(plan, started, part(progress, 0.05, 1.0), cancelled)


def _measured(
    plan: Plan, started: RunningServer, progress: Progress, cancelled: Cancel
) -> dict[int, MeasuredLoop]:
    server, asked = prompts.probe(started.server)
    closed_loop.serve(server, asked, plan.warm_up(), cancelled=cancelled)
    turns = [(number, at) for number in range(plan.rounds) for at in plan.users]
    served: dict[int, ServedLoad] = {}
    cpu_s = dict.fromkeys(plan.users, 0.0)
    for turn, (number, at) in enumerate(turns):
        share = part(progress, turn / len(turns), (turn + 1) / len(turns))
        before = started.cpu_s()
        load = closed_loop.serve(server, asked, plan.load(at, number), share, cancelled)
        cpu_s[at] += started.cpu_s() - before
        served[at] = served[at].then(load) if at in served else load
    threads = plan.server.threads
    return {
        at: MeasuredLoop(load, cpu_s[at] / (load.seconds * threads)) for at, load in served.items()
    }


def simulated(
    plan: Plan,
    resolved: Resolved,
    loops: Mapping[int, MeasuredLoop],
    contention: float = 1.0,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> OwnServer:
    """Scale the steps to one measured mean TPOT and simulate every loop.

    Raises:
        InvalidValue, Cancelled: as `compare`.
    """
    measured = {at: result_file.figures(loop.served) for at, loop in loops.items()}
    fit = from_one_run.fit(
        asked_of(plan, resolved, plan.calibrate_at, 0),
        measured[plan.calibrate_at]["tpot_mean_s"],
        progress=progress,
        cancelled=cancelled,
    )
    return OwnServer(
        plan,
        resolved,
        contention,
        fit.scale,
        measured,
        {at: _figures(_rounds(plan, resolved, at, fit.scale.scale)) for at in plan.users},
        {at: loop.core_share for at, loop in loops.items()},
    )


def asked_of(
    plan: Plan, resolved: Resolved, concurrency: int, number: int, scale: float | None = None
) -> Resolved:
    """The question for one round of a loop; all users start together, as in the measurement.

    resolved: the server on its machine.  scale: of the steps, None while it is being fitted.
    """
    load = plan.load(concurrency, number)
    question = replace(
        resolved.scenario,
        concurrency=concurrency,
        burst_start=True,
        requests=load.count,
        isl=load.isl,
        osl=load.osl,
        length_ratio=load.length_ratio,
        seed=load.seed,
        scheduler=SCHEDULER,
        max_num_batched_tokens=plan.server.batch_tokens,
        kv_tokens=float(plan.server.kv_tokens),
        step_scale=scale,
    )
    return asking(resolved, question)


def _rounds(plan: Plan, resolved: Resolved, concurrency: int, scale: float) -> list[Simulation]:
    return [
        run(asked_of(plan, resolved, concurrency, number, scale)).simulation
        for number in range(plan.rounds)
    ]


def _figures(rounds: Sequence[Simulation]) -> dict[str, float]:
    """Figures of several simulations as if they were one after the other."""
    each = [simulation.summary() for simulation in rounds]
    seconds = sum(f["seconds"] for f in each)
    named = {name: sum(f[name] * f["seconds"] for f in each) / seconds for name in _RATES}
    named |= {"requests": sum(f["requests"] for f in each), "seconds": seconds}
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        values, weights = map(
            np.concatenate, zip(*(s.latencies()[name] for s in rounds), strict=True)
        )
        named |= dict(_statistics(name.removesuffix("_s"), values, weights))
    return named


def _statistics(name: str, values: Any, weights: Any) -> Iterator[tuple[str, float]]:
    yield f"{name}_mean_s", float(np.average(values, weights=weights))
    found = percentiles(values, weights, result_file.PERCENTILES)
    for percent, value in zip(result_file.PERCENTILES, found, strict=True):
        yield f"{name}_p{percent}_s", float(value)

"""Threads of runs on a CPU, and how contended its cores were."""

from dataclasses import replace
from typing import Any

from app.measuring.prediction import calibrated_threads
from profilers import Measurement
from profilers.collect.clock import contention_note, use_threads
from profilers.collect.machine import cpu
from profilers.collect.measured_model import device_facts
from profilers.runs.run_config import RunConfig


def ready_threads(device: Any, config: RunConfig) -> float:
    """Set the CPU threads of a run; returns the contention of the cores (1: none).

    By default those that this machine was calibrated with, so that the two are comparable.
    """
    threads = config.run.threads
    if device.type == "cpu" and not threads:
        name = device_facts(device).name
        threads = min(calibrated_threads(name, config.predict.system), cpu().cores)
    return use_threads(device, threads)


def with_contention(measurement: Measurement, device: Any, busy: float) -> Measurement:
    """A measurement on a CPU with the contention of its cores among its facts and notes."""
    if device.type != "cpu":
        return measurement
    facts = {**measurement.facts, "contention": round(busy, 3)}
    return replace(measurement, facts=facts, notes=(*measurement.notes, contention_note(busy)))

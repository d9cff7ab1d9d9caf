"""The data of a run that its artifacts are written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from profilers.comparison.compare import Comparison
from profilers.schema import Measurement


@dataclass(frozen=True, slots=True)
class Material:
    """A measured run with its settings, its prediction and everything else that was collected.

    inputs: the run configuration as a mapping.  comparison: None where nothing was predicted.
    static: rows of the static analysis (operators with their FLOPs and bytes).
    kernels: a kernel table, None where no launch was recorded.  assumptions: sentences.
    commands: argument lists.  metrics: further figures (MFU, power ...) for metrics.json.
    steps: rows of a sweep, measured and predicted.  prompts: rows of a run over prompts.
    """

    measurement: Measurement
    inputs: Mapping[str, Any] = field(default_factory=dict)
    comparison: Comparison | None = None
    static: Sequence[Mapping[str, Any]] = ()
    kernels: pd.DataFrame | None = None
    assumptions: Sequence[str] = ()
    commands: Sequence[Sequence[str]] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Mapping[str, Any]] = ()
    prompts: Sequence[Mapping[str, Any]] = ()

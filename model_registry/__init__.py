"""Models: from a name, a file or a config.json to the operators of a step.

model = model_registry.load("meta-llama/Llama-3.1-8B", weights="fp8")
graph = model.graph(Step.decode(1, 1024), Parallelism(tp=8))
"""

from __future__ import annotations

from model_registry.finding.loading import (
    describe,
    in_formats,
    is_trace_missing,
    listed,
    load,
    names,
    traced,
)

__all__ = ["describe", "in_formats", "is_trace_missing", "listed", "load", "names", "traced"]

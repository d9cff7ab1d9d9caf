"""Priced steps of models with each kind of block."""

from typing import Any

from app.model_inside import builder_and_trace
from app.question.question import Question
from app.scenario.scenario import resolve
from genz_core.steps.step_estimate import StepEstimate

#: One model of each kind of block.
SOME = (
    "meta-llama/Llama-3.1-8B",
    "openai-community/gpt2",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "Qwen/Qwen3.5-35B-A3B",
    "nvidia/Nemotron-H-56B-Base-8K",
    "state-spaces/mamba-2.8b-hf",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "google/gemma-4-26B-A4B",
    "Zyphra/Zamba2-1.2B",
    "openai/gpt-oss-20b",
)


def step_of(name: str, phase: str = "decode", **scenario: Any) -> StepEstimate:
    """One step of a shipped model in a scenario."""
    resolved = resolve(Question(model=name, **scenario))
    return builder_and_trace.priced_step(resolved, resolved.model, phase)

"""What traces and what does not, as a Markdown table: `python -m model_registry.tracing.table`.

Shipped configs first, with the builder beside the trace where there is one, then the default
configs of further model types.  Arguments are paths of further config.json files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from genz_core.errors import RidgelineError
from genz_core.types import Model, Parallelism, Step
from model_registry.reports.symbolic import sums
from model_registry.tracing import trace

#: Types beyond those that ship, each traced at the default config of its class.
FURTHER = (
    "apertus", "arcee", "bitnet", "biogpt", "blenderbot-small", "codegen", "cohere2", "csm",
    "ctrl", "cwm", "deepseek_v2", "diffllama", "doge", "dots1", "ernie4_5", "ernie4_5_moe",
    "exaone4", "falcon_h1", "falcon_mamba", "flex_olmo", "fuyu", "glm", "glm4", "glm4_moe",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "gptj", "granite", "granitemoe",
    "granitemoehybrid", "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe",
    "hyperclovax", "jais2", "jamba", "jetmoe", "kimi_linear", "lfm2", "lfm2_moe",
    "longcat_flash", "mamba", "mamba2", "minimax", "ministral", "modernbert-decoder", "moshi",
    "mpt", "nanochat", "nemotron", "olmo", "olmo3", "olmoe", "openai-gpt", "persimmon", "phi",
    "phimoe", "qwen3_next", "recurrent_gemma", "rwkv", "seed_oss", "smollm3", "stablelm",
    "starcoder2", "vaultgemma", "xglm", "xlstm", "youtu", "zamba", "zamba2",
)  # fmt: skip

#: Behind this line of a document stands the table.
MARKER = "<!-- python -m model_registry.tracing.table --write docs/tracing.md -->"
_STEPS = {"prefill": Step.prefill(1.0, 2048.0), "decode": Step.decode(1.0, 2048.0)}
_CLASSES = ("gemm", "moe", "attention", "ssm", "convolution")


@dataclass(frozen=True, slots=True)
class Result:
    """One config: its trace's figures, or the sentence that refused it.  seconds: of one core."""

    name: str
    model_type: str
    parameters: float = 0.0
    active: float = 0.0
    gflop: Mapping[str, float] | None = None
    builder: str = ""
    seconds: float = 0.0
    refusal: str = ""


def result(name: str, config: Mapping[str, Any]) -> Result:
    """Trace one config, without the cache."""
    kind, start = str(config.get("model_type", "")), time.process_time()
    try:
        model = trace(config, name=name, use_cache=False)
    except RidgelineError as error:
        return Result(name, kind, refusal=str(error))
    seconds = time.process_time() - start
    gflop = _gflop(model)
    agreed = _beside_builder(config, model)
    return Result(name, kind, model.parameters, model.active_parameters, gflop, agreed, seconds)


def _gflop(model: Model) -> dict[str, float]:
    return {
        phase: sums(model.graph(step, Parallelism()), "flops", _CLASSES) / 1e9
        for phase, step in _STEPS.items()
    }


def _beside_builder(config: Mapping[str, Any], traced: Model) -> str:
    """Largest difference of the builder from the trace, in per cent; "" without a builder."""
    from model_registry.finding.loading import load
    from model_registry.graph.model import DecoderModel

    try:
        built = load(config)
    except RidgelineError:
        return ""
    if not isinstance(built, DecoderModel):
        return ""
    worst = abs(built.parameters / traced.parameters - 1.0)
    for step in _STEPS.values():
        one, other = (model.graph(step, Parallelism()) for model in (built, traced))
        for figure, classes in (
            ("flops", _CLASSES),
            ("weight_bytes", ()),
            ("kv_read_bytes", ()),
            ("kv_write_bytes", ()),
        ):
            a, b = sums(one, figure, classes), sums(other, figure, classes)
            worst = max(worst, abs(a - b) / max(abs(a), abs(b), 1.0))
    return f"{worst * 100:.3f} %"


def configs(paths: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Shipped configs, those at `paths`, and the default ones of further types."""
    from model_registry.finding.catalog import records

    if not paths:
        for name, shipped in records().items():
            yield name, shipped.config()
        for model_type in FURTHER:
            yield f"default {model_type}", default(model_type)
    for path in paths:
        yield Path(path).stem, json.loads(Path(path).read_text(encoding="utf-8"))


def default(model_type: str) -> dict[str, Any]:
    """The config that a type's class has where nobody says otherwise, written out."""
    from transformers import CONFIG_MAPPING

    from model_registry.tracing.building import quiet, require_torch

    require_torch()
    with quiet():
        settings = CONFIG_MAPPING[model_type]()
    written: dict[str, Any] = json.loads(settings.to_json_string(use_diff=False))
    return {**written, "model_type": model_type}


def markdown(results: list[Result]) -> str:
    """The table, with a line of counts above it."""
    done = [one for one in results if not one.refusal]
    times = [one.seconds for one in done]
    lines = [
        f"{len(done)} of {len(results)} configs trace; the others are refused with the reason. "
        f"Median trace {median(times):.2f} s of one core, longest {max(times):.2f} s."
        if done
        else "None.",
        "",
        "| config | type | parameters | active | prefill 2048 GFLOP | decode at 2048 GFLOP "
        "| builder differs by |",
        "| :-- | :-- | --: | --: | --: | --: | :-- |",
    ]
    return "\n".join([*lines, *(_line(one) for one in results)])


def _line(one: Result) -> str:
    if one.refusal:
        return f"| {one.name} | {one.model_type} | refused: {one.refusal} | | | | |"
    gflop = one.gflop or {}
    sizes = f"{one.parameters / 1e9:.3f} B | {one.active / 1e9:.3f} B"
    return (
        f"| {one.name} | {one.model_type} | {sizes} "
        f"| {gflop['prefill']:,.1f} | {gflop['decode']:,.2f} | {one.builder or 'no builder'} |"
    )


def main() -> None:
    """Print the table, or with `--write FILE` put it behind the marker of that document."""
    arguments = sys.argv[1:]
    target = arguments[1] if arguments[:1] == ["--write"] else ""
    rest = arguments[2:] if target else arguments
    table = markdown([result(name, config) for name, config in configs(rest)])
    if not target:
        print(table)
        return
    path = Path(target)
    head, marker, _ = path.read_text(encoding="utf-8").partition(MARKER)
    path.write_text(f"{head}{marker or MARKER}\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""docs/tracing.md: the configs that trace and those that are refused, as a Markdown table.

`python -m model_registry.reports.traces_page --write docs/tracing.md` renews it.  Shipped configs
come first, compared with the builder where there is one, then the default configs of further model
types.  Other arguments are paths of config.json files to trace instead.
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

from genz_core.common.cells import markdown_row
from genz_core.errors import RidgelineError
from genz_core.graphs import Model
from genz_core.types import Parallelism, Step
from model_registry.finding.catalog import shipped_models
from model_registry.finding.loading import load
from model_registry.graph.model import DescribedModel
from model_registry.reports.symbolic import graph_total
from model_registry.tracing import trace
from model_registry.tracing.meta_model import default_config

#: Further types, each traced at the default config of its class.
FURTHER = (
    "apertus", "arcee", "bitnet", "biogpt", "codegen", "cohere2", "csm",
    "ctrl", "cwm", "deepseek_v2", "diffllama", "doge", "dots1", "ernie4_5", "ernie4_5_moe",
    "exaone4", "falcon_h1", "falcon_mamba", "flex_olmo", "fuyu", "glm", "glm4", "glm4_moe",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "gptj", "granite", "granitemoe",
    "granitemoehybrid", "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe",
    "hyperclovax", "jais2", "jamba", "jetmoe", "kimi_linear", "lfm2", "lfm2_moe",
    "longcat_flash", "mamba", "mamba2", "minimax", "ministral", "modernbert-decoder",
    "mpt", "nanochat", "nemotron", "olmo", "olmo3", "olmoe", "openai-gpt", "persimmon", "phi",
    "phimoe", "qwen3_next", "recurrent_gemma", "rwkv", "seed_oss", "smollm3", "stablelm",
    "starcoder2", "vaultgemma", "xglm", "xlstm", "youtu", "zamba", "zamba2",
)  # fmt: skip

#: The line of the document after which the table stands.
MARKER = "<!-- python -m model_registry.reports.traces_page --write docs/tracing.md -->"
_STEPS = {"prefill": Step.prefill(1.0, 2048.0), "decode": Step.decode(1.0, 2048.0)}
_CLASSES = ("gemm", "moe", "attention", "ssm", "convolution")


@dataclass(frozen=True, slots=True)
class TraceResult:
    """Figures of a config's trace, or the error that refused it.

    gflop: by phase.  builder: largest difference of the builder's figures, "" without a builder.
    seconds: on one core.
    """

    name: str
    model_type: str
    parameters: float = 0.0
    active: float = 0.0
    gflop: Mapping[str, float] | None = None
    builder: str = ""
    seconds: float = 0.0
    refusal: str = ""


def trace_result(name: str, config: Mapping[str, Any]) -> TraceResult:
    """The result of tracing a config, without the cache of programs."""
    kind, start = str(config.get("model_type", "")), time.process_time()
    try:
        model = trace(config, name=name, use_cache=False)
    except RidgelineError as error:
        return TraceResult(name, kind, refusal=str(error))
    seconds = time.process_time() - start
    gflop = {
        phase: graph_total(model.graph(step, Parallelism()), "flops", _CLASSES) / 1e9
        for phase, step in _STEPS.items()
    }
    agreed = _beside_builder(config, model)
    return TraceResult(
        name, kind, model.parameters, model.active_parameters, gflop, agreed, seconds
    )


def _beside_builder(config: Mapping[str, Any], traced: Model) -> str:
    """Largest difference of the builder from the trace, in per cent; "" without a builder."""
    try:
        built = load(config)
    except RidgelineError:
        return ""
    if not isinstance(built, DescribedModel):
        return ""
    worst = abs(built.parameters / traced.parameters - 1.0)
    for step in _STEPS.values():
        graphs = [model.graph(step, Parallelism()) for model in (built, traced)]
        for figure, classes in (
            ("flops", _CLASSES),
            ("weight_bytes", ()),
            ("kv_read_bytes", ()),
            ("kv_write_bytes", ()),
        ):
            built_total, traced_total = (graph_total(graph, figure, classes) for graph in graphs)
            largest = max(abs(built_total), abs(traced_total), 1.0)
            worst = max(worst, abs(built_total - traced_total) / largest)
    return f"{worst * 100:.3f} %"


def configs(paths: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, config) of the files at `paths`, otherwise of every shipped model and of further
    types.
    """
    if not paths:
        for name, shipped in shipped_models().items():
            yield name, shipped.config()
        for model_type in FURTHER:
            yield f"default {model_type}", default_config(model_type)
    for path in paths:
        yield Path(path).stem, json.loads(Path(path).read_text(encoding="utf-8"))


def markdown(results: list[TraceResult]) -> str:
    """The table, with a line of counts above it."""
    done = [result for result in results if not result.refusal]
    times = [result.seconds for result in done]
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
    return "\n".join([*lines, *map(_line, results)])


def _line(result: TraceResult) -> str:
    if result.refusal:
        return f"| {result.name} | {result.model_type} | refused: {result.refusal} | | | | |"
    gflop = result.gflop or {}
    sizes = (f"{count / 1e9:.3f} B" for count in (result.parameters, result.active))
    work = f"{gflop['prefill']:,.1f}", f"{gflop['decode']:,.2f}"
    return markdown_row(
        [result.name, result.model_type, *sizes, *work, result.builder or "no builder"]
    )


def main() -> None:
    """Print the table, or with `--write FILE` insert it after the marker in that document."""
    arguments = sys.argv[1:]
    target = arguments[1] if arguments[:1] == ["--write"] else ""
    rest = arguments[2:] if target else arguments
    table = markdown([trace_result(name, config) for name, config in configs(rest)])
    if not target:
        print(table)
        return
    path = Path(target)
    head, marker, _ = path.read_text(encoding="utf-8").partition(MARKER)
    path.write_text(f"{head}{marker or MARKER}\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

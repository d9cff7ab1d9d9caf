"""Options that several commands share, spelled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from app.tables import Format

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Form = Annotated[Format, typer.Option("--format", help="text, markdown, csv or json.")]
ModelName = Annotated[
    str, typer.Argument(help="Registry name, Hugging Face id, or path to a config.json.")
]
SystemName = Annotated[str, typer.Option("--system", help="Slug, alias or path to a YAML.")]
Engine = Annotated[str, typer.Option(help="trtllm, vllm, sglang, hf, hf-compile, llama.cpp ...")]
Weights = Annotated[str, typer.Option(help="Weight format; default: the checkpoint's.")]
MoeWeights = Annotated[str, typer.Option(help="Format of the experts' weights.")]
Kv = Annotated[str, typer.Option(help="KV cache format.")]
Activations = Annotated[str, typer.Option(help="Activation format.")]
Compute = Annotated[str, typer.Option(help="Force an arithmetic type.")]
Tp = Annotated[int, typer.Option(help="Tensor parallel degree.")]
Pp = Annotated[int, typer.Option(help="Pipeline stages.")]
Dp = Annotated[int, typer.Option(help="Attention data parallel degree.")]
Ep = Annotated[int, typer.Option(help="Expert parallel degree.")]
Cp = Annotated[int, typer.Option(help="Context parallel degree.")]
MoeTp = Annotated[int | None, typer.Option(help="Tensor parallel degree of the experts.")]
Parallel = Annotated[str, typer.Option(help='All degrees at once: "TP{4}_EP{2}_PP{1}".')]
Batch = Annotated[int, typer.Option(help="Sequences in a step.")]
Isl = Annotated[int, typer.Option(help="Prompt tokens.")]
Osl = Annotated[int, typer.Option(help="Output tokens.")]


def form(chosen: Format, json: bool) -> Format:
    """--json is short for --format json."""
    return Format.json if json else chosen


def rendered(rows: Sequence[Mapping[str, Any]], chosen: Format) -> str:
    """Rows of predictions: numbers for a program, intervals in one cell for a reader."""
    from app import intervals
    from app.tables import render

    if chosen in (Format.text, Format.markdown):
        rows = [intervals.folded(row) for row in rows]
    return render(rows, chosen)

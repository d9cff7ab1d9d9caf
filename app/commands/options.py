"""Options that several commands share, spelled once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.wording.tables import TableFormat

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Form = Annotated[TableFormat, typer.Option("--format", help="text, markdown, csv or json.")]
ModelName = Annotated[
    str, typer.Argument(help="Registry name, hf:owner/name, or path to a config.json.")
]
SystemName = Annotated[str, typer.Option("--system", help="Slug, alias or path to a YAML.")]
Engine = Annotated[
    str,
    typer.Option(help='trtllm, vllm, sglang, hf, llama.cpp ..., or with a version: "vllm 0.9".'),
]
Weights = Annotated[
    str, typer.Option(help="Weight format, or a pair (w8a8); default: the checkpoint's.")
]
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
Imbalance = Annotated[
    float,
    typer.Option("--expert-imbalance", help="Rows of the busiest ep rank over the mean of all."),
]
Redundant = Annotated[
    int, typer.Option("--redundant-experts", help="Copies of busy experts; ep divides all of them.")
]
Overlap = Annotated[
    str, typer.Option(help="Beside the exchange of tokens: none, shared_experts or two_batch.")
]
Parallel = Annotated[
    str, typer.Option(help='All degrees at once, placed in this order, inner first: "TP{4}_PP{2}".')
]
Batch = Annotated[int, typer.Option(help="Sequences in a step.")]
Isl = Annotated[int, typer.Option(help="Prompt tokens.")]
Osl = Annotated[int, typer.Option(help="Output tokens.")]
Images = Annotated[int, typer.Option(help="Images of each request; their tokens add to the isl.")]
ImageSize = Annotated[str, typer.Option(help='Their width and height in pixels: "1024x768".')]
Audio = Annotated[float, typer.Option("--audio-seconds", help="Seconds of sound of each request.")]
Steps = Annotated[
    int,
    typer.Option("--diffusion-steps", help="Passes of a diffusion model; default: one a token."),
]
Block = Annotated[
    int, typer.Option("--block-length", help="Tokens that a diffusion model refines together.")
]
LengthRatio = Annotated[
    float, typer.Option(help="Real lengths are uniform from this share of nominal to 1.")
]

_SHARED = "What requests share"
PrefixHits = Annotated[
    float,
    typer.Option(
        help="Share of every prompt that is found in the cache: 0.6.", rich_help_panel=_SHARED
    ),
]
SharedPrompt = Annotated[
    int,
    typer.Option(
        "--shared-prompt",
        help="Tokens that all requests start with, on top of isl.",
        rich_help_panel=_SHARED,
    ),
]
Turns = Annotated[
    int,
    typer.Option(
        help="Turns of a session; each prompt repeats what was said.", rich_help_panel=_SHARED
    ),
]
PrefixTier = Annotated[
    str,
    typer.Option(help="Where found prefixes lie: device or host.", rich_help_panel=_SHARED),
]
Samples = Annotated[
    int, typer.Option(help="Answers to each prompt, all wanted.", rich_help_panel=_SHARED)
]
Beams = Annotated[
    int, typer.Option(help="Beams of a search, one answer wanted.", rich_help_panel=_SHARED)
]
LoraRank = Annotated[
    int, typer.Option(help="Rank of LoRA adapters; 0: none.", rich_help_panel=_SHARED)
]
LoraAdapters = Annotated[
    int, typer.Option(help="Adapters that requests name, evenly.", rich_help_panel=_SHARED)
]


def typed(ctx: typer.Context) -> frozenset[str]:
    """Names of the options and arguments that a user gave, in place of their defaults."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = ("COMMANDLINE", "ENVIRONMENT")
    return frozenset(name for name, source in sources.items() if source and source.name in given)


def sized(name: str, label: str) -> Callable[[int | None], int | None]:
    """A callback that refuses numbers beyond a limit of `genz_core.limits`.

    label: the option as it is typed.
    """

    def check(value: int | None) -> int | None:
        from genz_core.limits import checked_size

        return value if value is None else checked_size(name, value, label)

    return check


def lasting(label: str) -> Callable[[float], float]:
    """A callback that refuses durations that are none.  label: the option as it is typed."""

    def check(value: float) -> float:
        from genz_core.limits import checked_duration

        return checked_duration(label, value)

    return check


def measured_model(typed: str) -> dict[str, str]:
    """The fields of a run's model: the path of a file of this machine, or a name."""
    from app.scenario.local_files import model_source
    from genz_core.errors import InvalidValue

    source = model_source(typed)
    if isinstance(source, Mapping):
        raise InvalidValue("give a name or the path of a config.json, not its text")
    if isinstance(source, Path):
        return {"name": "", "path": str(source.absolute())}
    return {"name": typed, "path": ""}


def writable_file(path: Path | None) -> Path | None:
    """The path of an option, checked before the minutes of work whose result goes there.

    Raises:
        InvalidValue: its folder is not there or cannot be written, or it is a folder.
    """
    from genz_core.errors import InvalidValue

    if path is None:
        return None
    if not path.parent.is_dir():
        raise InvalidValue(f"{path}: {path.parent} is no folder; make it, or name another")
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidValue(f"{path} cannot be written: permission denied")
    return path


def write_text(path: Path, text: str) -> None:
    """Write the output of a command to a file.

    Raises:
        InvalidValue: the file cannot be written.
    """
    from genz_core.errors import InvalidValue

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from None


def table_format(chosen: TableFormat, json: bool) -> TableFormat:
    """The format of --format, or JSON where --json is given."""
    return TableFormat.json if json else chosen


def rendered(rows: Sequence[Mapping[str, Any]], chosen: TableFormat) -> str:
    """Rows of predictions as text; in tables for a reader an interval is one cell."""
    from app.scenario import intervals
    from app.wording.tables import render

    if chosen in (TableFormat.text, TableFormat.markdown):
        rows = [intervals.folded(row) for row in rows]
    return render(rows, chosen)

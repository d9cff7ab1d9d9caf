"""ridgeline measure: run a model on this machine; measured against predicted times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app.answers.table import to_json
from app.commands import group_of
from app.commands import options as opt
from app.commands.measured.measure_endpoint import endpoint, metrics
from app.commands.measured.measure_serving import own_server, serving
from app.commands.progress_bar import running
from app.commands.question_options import Given, takes
from app.wording import quantities
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from app.measuring.outcome import Outcome
    from profilers.runs.run_config import RunConfig

    BeforeKeeping = Callable[[Outcome, Path], None]

Dtype = Annotated[str, typer.Option(help="bfloat16, float16 or float32.")]
Attention = Annotated[str, typer.Option(help="sdpa, eager, flash_attention_2, flex_attention ...")]
Threads = Annotated[
    int, typer.Option(help="CPU threads; 0: all if the cores are free, otherwise one.")
]
System = Annotated[
    str,
    typer.Option(
        help="System to predict with; auto: this machine's calibration, otherwise "
        "the GPU's datasheet."
    ),
]
Checkpoint = Annotated[
    bool, typer.Option("--checkpoint", help="Load the hub's weights instead of random ones.")
]
Keep = Annotated[bool, typer.Option(help="Keep the run with its artifacts.")]


class RunByDefault(TyperGroup):
    """`measure MODEL` is `measure run MODEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def register(cli: typer.Typer) -> None:
    group = group_of(
        "Run a model on this machine: `measure MODEL`, or one of the commands below.",
        run, sweep, ranks, serving, own_server, endpoint, metrics, infer, cls=RunByDefault,
    )  # fmt: skip
    cli.add_typer(group, name="measure")


@takes(batch=1, isl=512, osl=16)
def run(
    model: opt.ModelName,
    sizes: Given,
    dtype: Dtype = "bfloat16",
    device: opt.Device = "auto",
    attention: Attention = "sdpa",
    compile_: Annotated[bool, typer.Option("--compile", help="torch.compile the model.")] = False,
    layers: Annotated[
        int, typer.Option(help="Run only this many layers; times are scaled back.")
    ] = 0,
    warmup: Annotated[int, typer.Option(help="Warm-up runs.")] = 1,
    repeats: Annotated[int, typer.Option(help="Timed runs.")] = 5,
    profile: Annotated[bool, typer.Option(help="Time operators with torch's profiler.")] = True,
    trace: Annotated[Path | None, opt.target("File for the trace: .json or .json.gz.")] = None,
    nvtx: Annotated[bool, typer.Option("--nvtx", help="An NVTX range around modules.")] = False,
    threads: Threads = 0,
    system: System = "auto",
    checkpoint: Checkpoint = False,
    prompts: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSONL of prompts that run one at a time: isl and osl, token_ids or text."
        ),
    ] = None,
    lengths: Annotated[
        str, typer.Option(help='Random prompts: "lognormal:mean=512,spread=0.6,osl=64,n=32".')
    ] = "",
    samples: Annotated[int, typer.Option(help="Number of prompts; 0: all.")] = 0,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Shuffle the prompts.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the order and of random prompts.")] = 0,
    keep: Keep = True,
    tag: opt.Tag = None,
    json: opt.Json = False,
) -> None:
    """Measure one workload repeatedly (the default command)."""
    from app.commands.measured.measure_output import print_prompts, print_run
    from app.measuring.live import copy_trace
    from profilers.runs import run_config

    over_prompts = bool(prompts or lengths)
    if trace is not None and over_prompts:
        raise InvalidValue("--trace works for a single workload: leave out --prompts and --lengths")
    if trace is not None and not profile:
        raise InvalidValue("--trace stores the profiler's trace: leave out --no-profile")
    config = run_config.compose().with_fields(
        model={**opt.measured_model(model), "checkpoint": checkpoint, "layers": layers},
        run={
            **sizes, "device": device, "dtype": dtype, "attention": attention,
            "compile": compile_, "nvtx": nvtx, "warmup": warmup, "repeats": repeats,
            "threads": threads,
        },
        torch_profiler={"enable": profile, "trace": trace is not None},
        prompts={
            "files": [str(path.absolute()) for path in prompts or []], "lengths": lengths,
            "samples": samples, "shuffle": shuffle, "seed": seed,
        },
        predict={"system": system},
    )  # fmt: skip
    if over_prompts:
        print_prompts(*_measured(config, "measuring", keep, tag), json)
        return

    def save_trace(outcome: Outcome, scratch: Path) -> None:
        if trace is not None:
            copy_trace(scratch, trace)

    print_run(*_measured(config, "measuring", keep, tag, save_trace), json)


def sweep(
    model: opt.ModelName,
    batches: Annotated[str, typer.Option(help='"1:16:x2" or "1,2,4".')] = "1:8:x2",
    lengths: Annotated[
        str, typer.Option(help="Prompt lengths and contexts in tokens.")
    ] = "128:1024:x2",
    phases: Annotated[str, typer.Option(help="prefill, decode or both.")] = "prefill,decode",
    rounds: Annotated[int, typer.Option(help="Repeats of every point.")] = 3,
    dtype: Dtype = "bfloat16",
    device: opt.Device = "auto",
    attention: Attention = "sdpa",
    layers: Annotated[
        int, typer.Option(help="Run only this many layers, without scaling; 0: all.")
    ] = 0,
    threads: Threads = 0,
    system: System = "auto",
    checkpoint: Checkpoint = False,
    output: Annotated[Path | None, opt.target("Write the rows to this CSV.")] = None,
    keep: Keep = True,
    tag: opt.Tag = None,
    json: opt.Json = False,
) -> None:
    """Measure a grid of batch sizes and lengths."""
    from app.commands.measured.measure_output import print_sweep
    from app.measuring.sweep import sweep_points
    from profilers.runs import run_config

    sweep_points(batches, lengths, phases)
    config = run_config.compose().with_fields(
        model={**opt.measured_model(model), "checkpoint": checkpoint, "layers": layers},
        run={"device": device, "dtype": dtype, "attention": attention, "threads": threads},
        sweep={"batches": batches, "lengths": lengths, "phases": phases, "rounds": rounds},
        predict={"system": system},
    )

    def save_rows(outcome: Outcome, scratch: Path) -> None:
        if outcome.swept is not None:
            opt.write_rows(output, outcome.swept.rows)

    outcome, identity = _measured(config, "sweeping", keep, tag, save_rows)
    if outcome.swept is not None:
        print_sweep(outcome.swept, identity, json)


@takes(tp=2, batch=1, isl=128, osl=8)
def ranks(
    model: opt.ModelName,
    sizes: Given,
    dtype: Dtype = "bfloat16",
    device: opt.Device = "auto",
    layers: Annotated[int, typer.Option(help="Run only this many layers; 0: all.")] = 0,
    warmup: Annotated[int, typer.Option(help="Warm-up runs.")] = 1,
    repeats: Annotated[int, typer.Option(help="Timed runs.")] = 5,
    timeout_s: Annotated[float, typer.Option(help="Time limit of the ranks in seconds.")] = 1800.0,
    keep: Keep = True,
    tag: opt.Tag = None,
    json: opt.Json = False,
) -> None:
    """Measure tensor parallelism over processes of this machine."""
    from app.commands.measured.measure_output import print_ranks
    from profilers.runs import run_config

    processes = sizes.pop("tp")
    config = run_config.compose().with_fields(
        model={**opt.measured_model(model), "layers": layers},
        run={**sizes, "device": device, "dtype": dtype, "warmup": warmup, "repeats": repeats},
        ranks={"tp": processes, "timeout_s": timeout_s},
    )
    print_ranks(*_measured(config, "measuring", keep, tag), json)


def infer(
    checkpoint: Annotated[str, typer.Argument(help="Folder or hub id with weights.")],
    prompts: Annotated[Path, typer.Argument(help="Prompts: .txt with one per line, or .jsonl.")],
    output: Annotated[Path, typer.Option(help="Folder for predictions.jsonl.")] = Path("infer"),
    epochs: Annotated[int, opt.sized("epochs", "Passes over the prompts.")] = 1,
    samples_per_epoch: Annotated[int, opt.sized("prompts", "Of them; 0: all.")] = 0,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Shuffle the prompts in each epoch.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the order.")] = 0,
    subset: Annotated[str, typer.Option(help="Only prompts with these ids: a,b,c.")] = "",
    max_new_tokens: Annotated[int, opt.sized("new_tokens", "Most output tokens per prompt.")] = 128,
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0: greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Probability mass to sample from (top-p).")] = 1.0,
    dtype: Dtype = "bfloat16",
    device: opt.Device = "auto",
    json: opt.Json = False,
) -> None:
    """Run inference on prompts from a file, without profiling."""
    from profilers.collect import inference

    sampling = inference.Sampling(
        epochs, samples_per_epoch, shuffle, seed, tuple(filter(None, subset.split(",")))
    )
    plan = list(inference.schedule(inference.read_prompts(prompts), sampling))
    generation = inference.Generation(max_new_tokens, temperature, top_p, dtype, device)
    with running("answering") as job:
        done = inference.run_inference(
            checkpoint, plan, output, generation, job.progress, job.cancelled
        )
    if json:
        typer.echo(to_json({**asdict(done), "path": str(done.path)}))
        return
    tokens_per_s = done.output_tokens / max(done.seconds, 1e-9)
    stopped = " before it was stopped" if done.cancelled else ""
    medians = "".join(
        f", {name} {quantities.seconds(value)}"
        for name, value in (("TTFT", done.ttft_s), ("TPOT", done.tpot_s)) if value > 0
    )  # fmt: skip
    typer.echo(
        f"{done.count} answers{stopped}, {tokens_per_s:.1f} tokens/s{medians} (medians) -> "
        f"{done.path}"
    )


def _measured(
    config: RunConfig,
    activity: str,
    keep: bool,
    tags: Sequence[str] | None,
    before_keeping: BeforeKeeping | None = None,
) -> tuple[Outcome, str]:
    """Measure under a progress bar; returns the outcome and the id of the kept run ("" if not
    kept).

    activity: label of the progress bar.  before_keeping: called with the outcome and the folder of
    its files, which move away when the run is kept.
    """
    from app.measuring import run_store
    from app.measuring.run_form import check_run

    if tags and not keep:
        raise InvalidValue("--tag names a kept run: leave out --no-keep")
    check_run(config)
    with run_store.scratch(keep) as scratch:
        with running(activity) as job:
            outcome = run_store.perform(config, scratch, job.progress, job.cancelled)
        if before_keeping is not None:
            before_keeping(outcome, scratch)
        if not keep or outcome.out_of_memory:
            return outcome, ""
        return outcome, run_store.keep(outcome, config, scratch, tags or ())

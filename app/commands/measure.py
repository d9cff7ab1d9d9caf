"""ridgeline measure: run a model here, and see prediction and measurement side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.commands import options as opt
from app.commands.options import Json

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Dtype = Annotated[str, typer.Option(help="bfloat16, float16 or float32.")]
Attention = Annotated[str, typer.Option(help="sdpa, eager, flash_attention_2 ...")]
Threads = Annotated[
    int, typer.Option(help="CPU threads; 0: all where the cores are free, else one.")
]
System = Annotated[
    str, typer.Option(help="What to predict with; auto: this machine, or the GPU's datasheet.")
]
Checkpoint = Annotated[
    bool, typer.Option("--checkpoint", help="Load the hub's weights instead of random ones.")
]
ModelArgument = Annotated[
    str, typer.Argument(help="Registry name, hf:owner/name, folder, or path to a config.json.")
]


class RunByDefault(TyperGroup):
    """`measure MODEL` is `measure run MODEL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def register(cli: typer.Typer) -> None:
    group = typer.Typer(
        cls=RunByDefault,
        help="Run a model on this machine: `measure MODEL`, or one of the commands below.",
        no_args_is_help=True,
    )
    group.command("run", help="One workload, repeated; the default.")(run)
    group.command("sweep", help="Batches and lengths in powers of two.")(sweep)
    group.command("ranks", help="Tensor parallel over processes of this machine.")(ranks)
    group.command("infer", help="Answer prompts from a file; nothing is profiled.")(infer)
    cli.add_typer(group, name="measure")


def run(
    model: ModelArgument,
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    isl: Annotated[int, typer.Option(help="Prompt tokens.")] = 512,
    osl: Annotated[int, typer.Option(help="Output tokens.")] = 16,
    dtype: Dtype = "bfloat16",
    device: Device = "auto",
    attention: Attention = "sdpa",
    compile_: Annotated[bool, typer.Option("--compile", help="torch.compile the model.")] = False,
    layers: Annotated[int, typer.Option(help="Cut to so many layers, scaled back.")] = 0,
    warmup: Annotated[int, typer.Option(help="Runs that do not count.")] = 1,
    repeats: Annotated[int, typer.Option(help="Runs that count.")] = 5,
    profile: Annotated[bool, typer.Option(help="Time operators with torch's profiler.")] = True,
    trace: Annotated[
        Path | None,
        typer.Option(help="Where the trace goes: .json, or .json.gz.", callback=opt.target),
    ] = None,
    nvtx: Annotated[bool, typer.Option("--nvtx", help="An NVTX range around modules.")] = False,
    threads: Threads = 0,
    system: System = "auto",
    checkpoint: Checkpoint = False,
    keep: Annotated[bool, typer.Option(help="Keep the run with its artifacts.")] = True,
    tag: Annotated[list[str] | None, typer.Option(help="Tag of the kept run.")] = None,
    json: Json = False,
) -> None:
    from app import kept_runs
    from app.commands.running import running
    from app.live_runs import copy_trace
    from genz_core.errors import InvalidValue
    from profilers import runfile

    if trace is not None and not profile:
        raise InvalidValue("--trace keeps what the profiler saw: leave out --no-profile")
    if tag and not keep:
        raise InvalidValue("--tag names a kept run: leave out --no-keep")
    tree = runfile.compose()
    tree["model"].update(name=model, checkpoint=checkpoint, layers=layers)
    tree["run"].update(
        batch=batch, isl=isl, osl=osl, device=device, dtype=dtype, attention=attention,
        compile=compile_, nvtx=nvtx, warmup=warmup, repeats=repeats, threads=threads,
    )  # fmt: skip
    tree["torch_profiler"].update(enable=profile, trace=trace is not None)
    tree["predict"]["system"] = system
    with kept_runs.scratch(keep) as scratch:
        with running("measuring") as way:
            outcome = kept_runs.perform(tree, scratch, way.progress, way.cancelled)
        if trace is not None:
            copy_trace(scratch, trace)
        whole = keep and not outcome.out_of_memory
        kept = kept_runs.keep(outcome, tree, scratch, tag or ()) if whole else ""
    _print_run(outcome, kept, json)


def sweep(
    model: ModelArgument,
    batches: Annotated[str, typer.Option(help='"1:16:x2" or "1,2,4".')] = "1:8:x2",
    lengths: Annotated[str, typer.Option(help="Prompts and contexts, in tokens.")] = "128:1024:x2",
    phases: Annotated[str, typer.Option(help="prefill, decode or both.")] = "prefill,decode",
    rounds: Annotated[int, typer.Option(help="Times that every point is measured.")] = 3,
    dtype: Dtype = "bfloat16",
    device: Device = "auto",
    attention: Attention = "sdpa",
    layers: Annotated[int, typer.Option(help="Cut to so many layers, not scaled; 0: all.")] = 0,
    threads: Threads = 0,
    system: System = "auto",
    checkpoint: Checkpoint = False,
    output: Annotated[
        Path | None, typer.Option(help="Write the rows to this CSV.", callback=opt.target)
    ] = None,
    json: Json = False,
) -> None:
    from app.commands.running import running
    from app.measured_sweep import sweep as measure
    from app.tables import to_csv
    from profilers import runfile

    tree = runfile.compose()
    tree["model"].update(name=model, checkpoint=checkpoint, layers=layers)
    tree["run"].update(device=device, dtype=dtype, attention=attention, threads=threads)
    tree["predict"]["system"] = system
    asked = {"tree": tree, "batches": batches, "lengths": lengths, "phases": phases}
    with running("sweeping") as way:
        done = measure({**asked, "rounds": rounds}, way.progress, way.cancelled)
    if output is not None:
        opt.write(output, to_csv(done.rows) + "\n")
    _print_sweep(done, json)


def ranks(
    model: ModelArgument,
    tp: Annotated[int, typer.Option(help="Processes that share the model.")] = 2,
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    isl: Annotated[int, typer.Option(help="Prompt tokens.")] = 128,
    osl: Annotated[int, typer.Option(help="Output tokens.")] = 8,
    dtype: Dtype = "bfloat16",
    device: Device = "auto",
    layers: Annotated[int, typer.Option(help="Cut to so many layers; 0: all.")] = 0,
    warmup: Annotated[int, typer.Option(help="Runs that do not count.")] = 1,
    repeats: Annotated[int, typer.Option(help="Runs that count.")] = 5,
    timeout_s: Annotated[float, typer.Option(help="Seconds until the ranks are ended.")] = 1800.0,
    json: Json = False,
) -> None:
    from app.measuring import raw_config
    from profilers.collect.building import RunSettings
    from profilers.collect.distributed import run_ranks

    settings = RunSettings(
        raw_config(model), batch, isl, osl, device, dtype, layers=layers, warmup=warmup,
        repeats=repeats, profile=False,
    )  # fmt: skip
    _print_ranks(run_ranks(settings, tp, timeout_s), json)


def infer(
    checkpoint: Annotated[str, typer.Argument(help="Folder or hub id with weights.")],
    prompts: Annotated[Path, typer.Argument(help="Prompts: .txt a line, or .jsonl.")],
    output: Annotated[Path, typer.Option(help="Folder for predictions.jsonl.")] = Path("infer"),
    epochs: Annotated[int, typer.Option(help="Times through the prompts.")] = 1,
    samples_per_epoch: Annotated[int, typer.Option(help="Of them; 0: all.")] = 0,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="New order each epoch.")] = False,
    seed: Annotated[int, typer.Option(help="Of the order.")] = 0,
    subset: Annotated[str, typer.Option(help="Only these ids: a,b,c.")] = "",
    max_new_tokens: Annotated[int, typer.Option(help="Tokens of an answer at most.")] = 128,
    temperature: Annotated[float, typer.Option(help="0: the likeliest token.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Share of likelihood drawn from.")] = 1.0,
    dtype: Dtype = "bfloat16",
    device: Device = "auto",
    json: Json = False,
) -> None:
    from dataclasses import asdict

    from app.commands.running import running
    from app.tables import to_json
    from profilers.collect import inference

    sampling = inference.Sampling(
        epochs, samples_per_epoch, shuffle, seed, tuple(filter(None, subset.split(",")))
    )
    plan = list(inference.schedule(inference.read_prompts(prompts), sampling))
    how = inference.Generation(max_new_tokens, temperature, top_p, dtype, device)
    with running("answering") as way:
        done = inference.run_inference(checkpoint, plan, output, how, way.progress, way.cancelled)
    if json:
        typer.echo(to_json({**asdict(done), "path": str(done.path)}))
        return
    rate = done.output_tokens / max(done.seconds, 1e-9)
    stopped = " before it was stopped" if done.cancelled else ""
    typer.echo(f"{done.count} answers{stopped}, {rate:.1f} tokens/s -> {done.path}")


def _print_run(outcome: Any, kept: str, json: bool) -> None:
    from app.measuring import phase_rows
    from app.reports import folded
    from app.tables import Format, render, to_json

    done, known = outcome.live, outcome.known
    rows = phase_rows(done, known)
    operators = done.measurement.operators
    notes = [*outcome.measurement.notes, *known.notes]
    status = "out_of_memory" if done.out_of_memory else "ok"
    if json:
        table = operators.astype(object).where(operators.notna(), None)
        facts = {
            "status": "cancelled" if done.cancelled else status,
            "model": done.measurement.model,
            "parameters": done.parameters,
            "device": done.measurement.system.name if done.measurement.system else None,
            "engine": done.measurement.engine,
            "batch": done.settings.batch,
            "isl": done.settings.isl,
            "osl": done.settings.osl,
            "phases": rows,
            "samples_s": {k: list(v.samples_s) for k, v in done.measurement.phases.items()},
            "operators": table.to_dict("records"),
            "use": done.use.summary() if done.use else None,
            "facts": dict(done.facts),
            "notes": notes,
            "run": kept or None,
        }
        typer.echo(to_json(facts))
        return
    if rows:
        typer.echo(render(list(map(folded, rows)), Format.text))
    if len(operators):
        columns = ["phase", "name", "kind", "count", "time_s"]
        typer.echo("\n" + render(operators[columns].head(12).to_dict("records"), Format.text))
    if done.use:
        typer.echo("\n" + render([done.use.summary()], Format.text))
    for note in notes:
        typer.echo(f"note: {note}")
    if kept:
        typer.echo(f"kept as {kept[:8]}: `ridgeline runs show {kept[:8]}`")


def _print_ranks(done: Any, json: bool) -> None:
    from app.tables import Format, render, to_json

    rows = [
        {
            "phase": name,
            "samples": len(timing.samples_s),
            "p50_s": timing.median_s,
            "mean_s": timing.mean_s,
            "std_s": timing.std_s,
        }
        for name, timing in done.measurement.phases.items()
    ]
    if json:
        facts = {
            "phases": rows,
            "ranks": [{k: list(v) for k, v in rank.items()} for rank in done.ranks],
            "skew": done.skew,
            "collectives": [dict(row) for row in done.collectives],
            "facts": dict(done.measurement.facts),
            "notes": list(done.measurement.notes),
        }
        typer.echo(to_json(facts))
        return
    typer.echo(render(rows, Format.text))
    typer.echo(f"\n{done.measurement.notes[0]}; slowest over fastest rank +{done.skew:.0%}")
    if done.collectives:
        columns = ("format", "shape", "time_s", "spread")
        shown = [{key: row[key] for key in columns} for row in done.collectives]
        typer.echo("\n" + render(shown, Format.text))


def _print_sweep(done: Any, json: bool) -> None:
    from app.reports import folded
    from app.tables import Format, render, to_json

    rows, agreed, notes = done.rows, done.agreement, list(done.notes)
    if json:
        fits = {name: found.row() for name, found in agreed.items()}
        typer.echo(to_json({"rows": rows, "agreement": fits, "notes": notes}))
        return
    typer.echo(render(list(map(folded, rows)), Format.text))
    shown = [{"phase": name, **found.row()} for name, found in agreed.items() if found.points]
    if shown:
        typer.echo("\n" + render(shown, Format.text))
    for note in notes:
        typer.echo(f"note: {note}")

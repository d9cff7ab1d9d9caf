"""Third-party load clients, run as programs: AIPerf, GuideLLM and vLLM's own.

Sources of the options: ai-dynamo/aiperf, docs/reference/command-line-options (0.7 to 0.13);
vllm-project/guidellm, `guidellm run --help` of 0.8.1 and docs/getting-started/benchmark (0.2 to
0.7); vllm-project/vllm, vllm/benchmarks/serve.py at 009e6d4.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from genz_core.common.progress import Cancel, never
from genz_core.errors import MeasurementError, ReportError
from profilers.collect import programs
from profilers.collect.serving.client import Server
from profilers.collect.serving.endpoint_load import EndpointLoad
from profilers.serving_results import read_results

_LONGEST_RUN_S = 6 * 3600.0
#: Exit code of a program that does not know its arguments, because it is another version.
_UNKNOWN_USE = 2


@dataclass(frozen=True, slots=True)
class Task:
    """The load that a client is to send.

    tokenizer: name or folder, "" for the model's.  folder: an empty one for its files.
    """

    server: Server
    load: EndpointLoad
    folder: Path
    tokenizer: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """A load client.

    arguments: its command lines, that of the newest version first.
    results: names of its result files, the most informative first.
    """

    name: str
    program: str
    arguments: tuple[Callable[[Task], Sequence[str]], ...]
    results: tuple[str, ...]


def _aiperf(task: Task) -> list[str]:
    load, server = task.load, task.server
    arrivals = (
        ["--concurrency", str(load.concurrency)]
        if load.concurrency
        else ["--request-rate", f"{load.rate:g}"]
    )
    return [
        "profile", "--model", server.model, "--url", _root(server), "--endpoint-type",
        "completions", "--streaming", "--synthetic-input-tokens-mean", str(load.isl),
        "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean", str(load.osl),
        "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true",
        "--request-count", str(load.count), *arrivals, "--random-seed", str(load.seed),
        "--artifact-dir", str(task.folder), "--ui", "none",
        *(["--tokenizer", task.tokenizer] if task.tokenizer else []),
    ]  # fmt: skip


def _guidellm(task: Task) -> list[str]:
    """GuideLLM 0.8, where every part of a run is given as a kind with its settings."""
    load, server = task.load, task.server
    profile = (
        f"kind=concurrent,streams={load.concurrency}"
        if load.concurrency
        else f"kind=poisson,rate={load.rate:g}"
    )
    return [
        "run", "--backend",
        f"kind=openai_http,target={_root(server)},model={server.model},"
        "request_format=/v1/completions",
        "--profile", profile, "--constraint", f"kind=max_requests,count={load.count}",
        "--data", f"kind=synthetic_text,prompt_tokens={load.isl},output_tokens={load.osl}",
        "--seed", f"kind=static,value={load.seed}",
        "--output", f"kind=json,path={task.folder / 'benchmarks.json'}", "--disable-progress",
        *(["--tokenizer", f"kind=hf_auto,model={task.tokenizer}"] if task.tokenizer else []),
    ]  # fmt: skip


def _guidellm_to_0_7(task: Task) -> list[str]:
    load, server = task.load, task.server
    kind, rate = ("concurrent", load.concurrency) if load.concurrency else ("poisson", load.rate)
    data = f"prompt_tokens={load.isl},output_tokens={load.osl}"
    return [
        "benchmark", "--target", _root(server), "--model", server.model, "--rate-type", kind,
        "--rate", f"{rate:g}", "--max-requests", str(load.count), "--data", data,
        "--random-seed", str(load.seed), "--output-path", str(task.folder / "benchmarks.json"),
        *(["--processor", task.tokenizer] if task.tokenizer else []),
    ]  # fmt: skip


def _vllm(task: Task) -> list[str]:
    load, server = task.load, task.server
    arrivals = (
        ["--max-concurrency", str(load.concurrency)]
        if load.concurrency
        else ["--request-rate", f"{load.rate:g}"]
    )
    return [
        "bench", "serve", "--backend", "openai", "--base-url", _root(server), "--model",
        server.model, "--dataset-name", "random", "--random-input-len", str(load.isl),
        "--random-output-len", str(load.osl), "--num-prompts", str(load.count), *arrivals,
        "--seed", str(load.seed), "--ignore-eos", "--save-result", "--save-detailed",
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99",
        "--result-dir", str(task.folder), "--result-filename", "result.json",
        *(["--tokenizer", task.tokenizer] if task.tokenizer else []),
    ]  # fmt: skip


#: The order in which installed clients are preferred.
CLIENTS = (
    Client("aiperf", "aiperf", (_aiperf,), ("profile_export_aiperf.json", "profile_export.jsonl")),
    Client(
        "guidellm",
        "guidellm",
        (_guidellm, _guidellm_to_0_7),
        ("benchmarks.json", "benchmarks.yaml"),
    ),
    Client("vllm", "vllm", (_vllm,), ("result.json",)),
)


def _root(server: Server) -> str:
    return server.address.rstrip("/").removesuffix("/v1")


def installed() -> list[Client]:
    """The clients that are on the PATH."""
    return [client for client in CLIENTS if shutil.which(client.program)]


def named(name: str) -> Client:
    """A client by its name.

    Raises:
        MeasurementError: there is none of that name, or it is not installed.
    """
    client = next((client for client in CLIENTS if client.name == name), None)
    known = ", ".join(client.name for client in CLIENTS)
    if client is None:
        raise MeasurementError(f"no client is called {name!r}; there are auto, own, {known}")
    if not shutil.which(client.program):
        raise MeasurementError(f"{client.program} is not on the PATH; install it, or use own")
    return client


def drive(client: Client, task: Task, cancelled: Cancel = never) -> Path:
    """Run a client on a task; returns its result file.

    Raises:
        MeasurementError: it failed or left no readable result; the message quotes its last output.
        Cancelled: `cancelled` returned True.
    """
    log = task.folder / f"{client.name}.log"
    code, found = _UNKNOWN_USE, None
    for arguments in client.arguments:
        if code == _UNKNOWN_USE and found is None:
            argv = [client.program, *arguments(task)]
            code = programs.run(argv, log, client.name, _LONGEST_RUN_S, cancelled)
            found = _result(client, task.folder)
    if code != 0 or found is None:
        what = f"ended with {code}" if code else "wrote no result"
        raise MeasurementError(
            f"{client.name} {what}: {_last_words(log)} (its tokenizer may be missing: name one "
            "with --tokenizer, or use --client own)"
        )
    return found


def _result(client: Client, folder: Path) -> Path | None:
    """The most informative readable result file that a client left."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    best = {name: rank for rank, name in enumerate(client.results)}
    for path in sorted(files, key=lambda path: best.get(path.name, len(best))):
        if path.suffix not in (".json", ".jsonl", ".yaml", ".csv"):
            continue
        try:
            read_results(path)
        except ReportError:
            continue
        return path
    return None


def _last_words(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.casefold() or "failed" in line.casefold()]
    return (told or lines or ["no output"])[-1][:300]

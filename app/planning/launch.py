"""Launch lines of a plan: how vLLM, SGLang and TensorRT-LLM are started as planned, and checked.

Options are data (`engine_flags.yaml`), each read in the documentation or the source that it names.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from app.planning.demand import Demand
from app.planning.families import Family
from genz_core.deployment import bulk_format
from genz_core.types import System

_FLAGS = Path(__file__).parent / "engine_flags.yaml"
_PORT = 8000
_NODE = 8  # devices of a node where a system states no domain
_CONTEXT_STEP = 1024
_SIXTEEN_BITS = ("bf16", "fp16", "fp32")
_PER_USER = 10


@dataclass(frozen=True, slots=True)
class Launch:
    """How a plan is started and checked.

    lines: commands, one a replica or worker.  notes: what they leave open.  benchmark: the
    command that measures what was predicted.  version: of the engine whose options these are.
    sources: where they were read.
    """

    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()
    benchmark: str = ""
    version: str = ""
    sources: tuple[Mapping[str, str], ...] = ()


@cache
def engine_flags() -> Mapping[str, Any]:
    """Options of every engine that can be started, by its name."""
    loaded: Mapping[str, Any] = yaml.safe_load(_FLAGS.read_text(encoding="utf-8"))
    return loaded


def launch(model: str, family: Family, row: Mapping[str, float], demand: Demand) -> Launch:
    """The launch of a plan.

    Args:
        model: as an engine is told it, a name of the hub or a path.
        row: the plan's columns.
    """
    engine = family.resolved.engine.name
    flags = engine_flags().get(engine)
    if flags is None:
        return Launch((), (f"no launch lines are kept for {engine}",))
    lines: list[str] = []
    notes: list[str] = []
    for pool in _pools(family, row):
        words, said = _words(flags, family, pool, demand)
        notes += said
        command = " ".join([flags["command"].format(model=shlex.quote(model)), *words])
        lines += _numbered(command, flags, pool, len(lines))
    if family.prefill is not None:
        notes.append(f"in front: {flags['router']}")
    elif len(lines) > 1:
        notes.append("in front: a router that sends each request to the least loaded replica")
    return Launch(
        tuple(lines),
        tuple(dict.fromkeys([*_formats(model, family, flags), *notes])),
        benchmark(model, demand, row),
        str(flags["version"]),
        tuple(flags["sources"]),
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    """Equal servers: their role ("", "prefill" or "decode"), number and degrees."""

    role: str
    count: int
    tp: int
    pp: int
    dp: int
    ep: int
    max_num_seqs: int
    nodes: int

    @classmethod
    def of(
        cls, role: str, count: int, row: Mapping[str, float], of: str, limit: int, system: System
    ) -> _Pool:
        """The pool of the columns that start with `of`."""
        tp, pp, dp, ep = (int(row[f"{of}{name}"]) for name in ("tp", "pp", "dp", "ep"))
        node = (system.links[0].domain if system.links else 1) or _NODE
        return cls(role, count, tp, pp, dp, ep, limit, math.ceil(tp * pp * dp / node))


def _pools(family: Family, row: Mapping[str, float]) -> list[_Pool]:
    limit = int(row["max_num_seqs"])
    own = _Pool.of("", int(row["replicas"]), row, "", limit, family.system)
    if family.prefill is None:
        return [own]
    workers = int(row["prefill_workers"])
    first = _Pool.of("prefill", workers, row, "prefill_", limit, family.prefill.system)
    return [first, replace(own, role="decode")]


def _words(
    flags: Mapping[str, Any], family: Family, pool: _Pool, demand: Demand
) -> tuple[list[str], list[str]]:
    """The options of a server, and notes on what they cannot say."""
    options, engine = flags["options"], family.resolved.engine
    ranks = pool.tp * pool.dp
    asked: dict[str, Any] = {
        "ranks": ranks if ranks > 1 else None,
        "tp": pool.tp if pool.tp > 1 else None,
        "pp": pool.pp if pool.pp > 1 else None,
        "dp": pool.dp if pool.dp > 1 else None,
        "ep": pool.ep if pool.ep > 1 else None,
        "experts_on_all_ranks": pool.ep if pool.ep > 1 else None,
        "max_num_seqs": pool.max_num_seqs,
        "max_num_seqs_of_all": pool.max_num_seqs * pool.dp,
        "max_num_batched_tokens": engine.chunk_tokens or None,
        "context": _context(demand),
        "memory_fraction": f"{engine.memory_fraction:g}",
        "several_nodes": pool.nodes if pool.nodes > 1 else None,
        f"{pool.role}_role": pool.role or None,
        **_format_words(family),
    }
    if family.speculation is not None:
        asked[family.speculation.method] = family.speculation.draft_tokens
    settings = _settings(flags, asked)
    words = [
        options[name].format(value=value)
        for name, value in asked.items()
        if value is not None and name in options
    ]
    notes = []
    if settings:
        words.append(options["settings"].format(value=f"{pool.role or 'serve'}.yaml"))
        notes.append(f"{pool.role or 'serve'}.yaml: {json.dumps(settings)}")
    if pool.nodes > 1:
        notes.append(f"a {pool.role or 'replica'} spans {pool.nodes} nodes")
    method = family.speculation.method if family.speculation else ""
    if method and method not in options and method not in flags.get("settings", {}):
        notes.append(f"this version has no option kept here for {method}: see its documentation")
    return words, notes


def _settings(flags: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """What this engine reads from a file instead of options."""
    kept = flags.get("settings", {})
    merged: dict[str, Any] = {}
    for name, value in asked.items():
        if value is not None and name in kept:
            merged |= kept[name]
    return merged


def _format_words(family: Family) -> dict[str, Any]:
    """Formats that an engine is told, because the checkpoint does not say them."""
    words: dict[str, Any] = {}
    if family.weights.startswith("fp8"):
        words["quantize_fp8"] = family.weights
    if family.kv.startswith("fp8"):
        words["kv_fp8"] = family.kv
    return words


def _formats(model: str, family: Family, flags: Mapping[str, Any]) -> list[str]:
    """Notes on formats that need a checkpoint of their own."""
    weights = family.weights
    if not weights or weights in _SIXTEEN_BITS:
        return []
    if weights.startswith("fp8") and "quantize_fp8" in flags["options"]:
        return ["weights are quantised when they are loaded: check the answers"]
    return [f"{model} has to be a checkpoint with {bulk_format(family.resolved.model)} weights"]


def _context(demand: Demand) -> int:
    longest = demand.isl + demand.osl
    if demand.trace is not None:
        requests = demand.trace.requests
        longest = int((requests.input_tokens + requests.output_tokens).max())
    return math.ceil(longest / _CONTEXT_STEP) * _CONTEXT_STEP


def _numbered(command: str, flags: Mapping[str, Any], pool: _Pool, start: int) -> list[str]:
    """The command once for each server, each with a port of its own."""
    port = flags["port"]
    lines = [f"{command} {port.format(value=_PORT + start + at)}" for at in range(pool.count)]
    return lines


def benchmark(model: str, demand: Demand, row: Mapping[str, float]) -> str:
    """vLLM's benchmark client under the demand, for any server with OpenAI's interface.

    Its range is symmetrical around the mean, [1 - r, 1 + r].
    Source: https://docs.vllm.ai/en/v0.11.2/cli/bench/serve/
    """
    ratio = demand.length_ratio
    spread = (1.0 - ratio) / (1.0 + ratio)
    isl, osl = (max(round(n * (1.0 + ratio) / 2.0), 1) for n in (demand.isl, demand.osl))
    words = [
        "vllm bench serve --backend openai --base-url http://localhost:8000",
        f"--model {shlex.quote(model)} --dataset-name random",
        f"--random-input-len {isl} --random-output-len {osl}",
    ]
    if spread:
        words.append(f"--random-range-ratio {spread:.3g}")
    if demand.closed:
        words.append(
            f"--max-concurrency {demand.concurrency} --num-prompts {_PER_USER * demand.concurrency}"
        )
    else:
        prompts = max(round(demand.rate * 60.0), 200)
        words.append(f"--request-rate {demand.rate:.6g} --num-prompts {prompts}")
    words.append(
        "--ignore-eos --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,90,95,99"
    )
    words.append("--save-result --result-filename plan.json")
    return " ".join(words)

"""Launch commands of a plan: how to start vLLM, SGLang and TensorRT-LLM as planned, and how to
check them.

Options are data (`engine_flags.yaml`); each was taken from the documentation or source named there.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from app.planning import demand
from app.planning.check_commands import benchmark, guard
from app.planning.families import Family
from app.planning.launch_options import filled, first_port, in_front
from app.planning.space import DEGREES
from app.question.parameters import PARAMETERS
from app.question.query import Query
from app.question.question import Question, nominal_lengths
from app.scenario.gate import experts_of
from genz_core.deployment import bulk_format
from genz_core.engine import EngineProfile
from genz_core.models.adapters import AdaptedModel
from genz_core.serving.whole_prompts import over_budget
from genz_core.systems import System
from model_registry.finding.hub import HubModel, hub_id
from model_registry.finding.lookup import resolve_name

_FLAGS = Path(__file__).parent / "engine_flags.yaml"
_NODE = 8  # devices of a node where a system states no domain
_CONTEXT_STEP = 1024
_SIXTEEN_BITS = ("bf16", "fp16", "fp32")
#: LoRA ranks that vLLM supports, see `launch_options.csv`.
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
#: Descriptions of features for which an engine may have no option, by option key.
_UNSAID: Mapping[str, str] = {
    "lora_adapters": "LoRA adapters",
    "batch_wait_of_ranks": "waits of attention ranks for one another",
    "weights_offload_gb": "weights on the host",
    "experts_offload_gb": "experts on the host",
    "kv_offload_gb": "caches of running sequences on the host",
    "host_prefixes": "a prefix cache on the host",
    "host_cache": "a prefix cache on the host",
    "disk_cache": "a prefix cache on disk",
    "disk_cache_alone": "a prefix cache on disk",
}
#: Limits of an engine that a launch line contains if the question states them.
_LIMITS = (
    "kv_tokens", "stream_interval", "recv_interval", "batch_wait", "scheduler",
    "prefix_caching", "redundant_experts", "moe_weights", "activations", "compute",
    "cache_writes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    """Equal servers of a plan.

    role: "", "prefill" or "decode".  count: servers.  nodes: of each.  devices_per_node: of those.
    command: that starts one, without its port.
    """

    role: str
    count: int
    nodes: int
    devices_per_node: int
    system: str
    vendor: str
    command: str

    @property
    def words(self) -> tuple[str, ...]:
        """The command, word by word."""
        return tuple(shlex.split(self.command))


@dataclass(frozen=True, slots=True)
class Launch:
    """How a plan is started and checked.

    lines: commands, one per replica or worker, plus the router in front of them if the engine has
    one.
    notes: on what the commands leave open.  benchmark: the command that measures the predicted
    figures.
    guard: the command that judges its result; "" if no measurement validates the prediction.
    version: of the engine that has these options.  checked: how they were verified.  sources: of
    the options.
    files: texts that the lines refer to, by file name.  servers: the servers that the lines start,
    without ports.  model: the name by which the engine loads it.
    """

    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()
    benchmark: str = ""
    guard: str = ""
    version: str = ""
    checked: str = ""
    sources: tuple[Mapping[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[Server, ...] = ()
    model: str = ""


@cache
def engine_flags() -> Mapping[str, Any]:
    """Options of every engine that can be started, by its name."""
    loaded: Mapping[str, Any] = yaml.safe_load(_FLAGS.read_text(encoding="utf-8"))
    return loaded


def launch(family: Family, row: Mapping[str, float], query: Query) -> Launch:
    """The launch commands of a plan.

    Args:
        row: the plan's columns.
        query: the question that it answers, whose model is passed to the engine by its id.
    """
    engine, model = family.resolved.engine.name, checkpoint_id(query)
    longest = _Longest.of(family, query)
    flags = engine_flags().get(engine)
    if flags is None:
        return Launch((), (f"no launch commands are known for {engine}",), model=model)
    lines: list[str] = []
    notes: list[str] = []
    files: dict[str, str] = {}
    servers: list[Server] = []
    pools = _pools(family, row)
    first = first_port(sum(pool.count for pool in pools))
    ports: dict[str, list[int]] = {}
    for pool in pools:
        words, said, written = _words(flags, family, pool, longest, row)
        notes += said
        files |= written
        command = " ".join([flags["command"].format(model=shlex.quote(model)), *words])
        servers.append(pool.server(command))
        ports[pool.role] = [first + len(lines) + at for at in range(pool.count)]
        lines += [f"{command} {flags['port'].format(value=port)}" for port in ports[pool.role]]
    answer, told = longest.context - longest.prompt, family.question.max_num_batched_tokens
    if refused := over_budget(family.resolved.engine, told, longest.prompt, answer):
        notes.append(refused)
    line, said, written = in_front(flags, ports)
    return Launch(
        tuple([*lines, *line]),
        tuple(dict.fromkeys([*_formats(model, family, flags), *notes, *said])),
        benchmark(family.question, model),
        guard(family, row, model),
        str(flags["version"]),
        str(flags["checked"]),
        tuple(flags["sources"]),
        files | written,
        tuple(servers),
        model,
    )


def checkpoint_id(query: Query) -> str:
    """The name by which an engine loads a question's model: its id on the hub where the typed name
    is one of the registry's, otherwise as typed.
    """
    source, typed = query.objects.get("model"), query.question.model
    if source is not None:
        return source.id if isinstance(source, HubModel) else typed
    if address := hub_id(typed):
        return address
    match = resolve_name(typed)
    if "/" not in typed and match.matched in ("name", "beginning"):
        return match.id
    known = (one for one in (match.id, *match.model.aliases) if _is_short_for(typed, one))
    return next(known, typed)


def _is_short_for(typed: str, id_: str) -> bool:
    """Whether a typed name is an id, or an id without its account, in any case."""
    return typed.casefold() in (id_.casefold(), id_.casefold().rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class _Longest:
    """The longest sequence of a question [tokens].

    prompt: of its longest prompt.  context: that a server must support for prompt and answer, in
    whole steps, limited by the model's positions.
    """

    prompt: int
    context: int

    @classmethod
    def of(cls, family: Family, query: Query) -> _Longest:
        prompt, answer = demand.longest(query)
        if demand.trace_of(query) is None:
            q = family.question
            isl, osl, _ = nominal_lengths(q.isl, q.osl, q.length_ratio)
            turn, answer = round(isl) + round(osl), round(osl)
            prompt = q.shared_tokens + q.turns * turn - answer
        room = math.ceil((prompt + answer) / _CONTEXT_STEP) * _CONTEXT_STEP
        return cls(prompt, min(room, family.resolved.model.max_context or room))


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
    system: System

    @classmethod
    def of(
        cls, role: str, count: int, row: Mapping[str, float], of: str, limit: int, system: System
    ) -> _Pool:
        """The pool of the columns that start with `of`."""
        tp, pp, dp, ep = (int(row[f"{of}{name}"]) for name in DEGREES)
        node = (system.links[0].domain if system.links else 1) or _NODE
        nodes = math.ceil(tp * pp * dp / node)
        return cls(role, count, tp, pp, dp, ep, limit, nodes, system)

    def server(self, command: str) -> Server:
        """A server of this pool, started by a command."""
        each = math.ceil(self.tp * self.pp * self.dp / self.nodes)
        system = self.system
        return Server(self.role, self.count, self.nodes, each, system.slug, system.vendor, command)


def _pools(family: Family, row: Mapping[str, float]) -> list[_Pool]:
    limit = int(row["max_num_seqs"])
    own = _Pool.of("", int(row["replicas"]), row, "", limit, family.system)
    if family.prefill is None:
        return [own]
    workers = int(row["prefill_workers"])
    first = _Pool.of("prefill", workers, row, "prefill_", limit, family.prefill.system)
    return [first, replace(own, role="decode")]


def _words(
    flags: Mapping[str, Any],
    family: Family,
    pool: _Pool,
    longest: _Longest,
    row: Mapping[str, float],
) -> tuple[list[str], list[str], dict[str, str]]:
    """The options of a server, notes on settings that no option expresses, and the file that they
    refer to.
    """
    options, kept = flags["options"], flags.get("settings", {})
    settings = {**_asked(family, pool, longest), **_shared(family, pool, row)}
    values = _values(family, pool, longest.context)
    merged: dict[str, Any] = {}
    for name, value in settings.items():
        if name in kept:
            merged |= filled(kept[name], {**values, "value": value})
    words = [
        options[name].format(**{**values, "value": value})
        for name, value in settings.items()
        if name in options
    ]
    said_of = {name: said for name, said in flags.get("notes", {}).items() if name in settings}
    notes = [str(said).format(value=settings[name]) for name, said in said_of.items()]
    named = {**_UNSAID, **{name: f"{name} = {settings.get(name)}" for name in _LIMITS}}
    if family.question.memory_fraction:
        named["memory_fraction"] = f"memory_fraction = {settings['memory_fraction']}"
    known = {*options, *kept, *said_of}
    unsaid = [said for name, said in named.items() if name in settings and name not in known]
    notes += [
        f"the option for {said} is not known here: see the engine's documentation"
        for said in unsaid
    ]
    if pool.nodes > 1:
        notes.insert(0, f"a {pool.role or 'replica'} spans {pool.nodes} nodes")
    if "DRAFT" in values["draft"] and any("DRAFT" in text for text in (*words, str(merged))):
        notes.append("DRAFT stands for the checkpoint of the draft head")
    if not merged:
        return words, notes, {}
    name = f"{pool.role or 'serve'}.yaml"
    words.append(options["settings"].format(value=name))
    return words, notes, {name: yaml.safe_dump(merged, sort_keys=False)}


def _asked(family: Family, pool: _Pool, longest: _Longest) -> dict[str, Any]:
    """Settings of a server by key of the data file; defaults are left out."""
    engine, q, ranks = family.resolved.engine, family.question, pool.tp * pool.dp
    fraction = q.memory_fraction or engine.memory_fraction
    copies = 0 if pool.role == "prefill" else q.redundant_experts
    limits = {**{name: getattr(q, name) for name in _LIMITS}, "redundant_experts": copies}
    if pool.ep > 1:  # the memory that an engine fills must be stated
        held = experts_of(family.resolved.model) + copies
        limits["redundant_experts"] = copies + -held % pool.ep
    settings: dict[str, Any] = {
        "ranks": ranks if ranks > 1 else None,
        "tp": pool.tp if pool.tp > 1 else None,
        "pp": pool.pp if pool.pp > 1 else None,
        "dp": pool.dp if pool.dp > 1 else None,
        "ep": pool.ep if pool.ep > 1 else None,
        "experts_on_all_ranks": pool.ep if pool.ep > 1 else None,
        "max_num_seqs": pool.max_num_seqs,
        "max_num_seqs_of_all": pool.max_num_seqs * pool.dp,
        **_step_tokens(engine, q, longest),
        "context": longest.context,
        "memory_fraction": f"{fraction:g}",
        **{name: v for name, v in limits.items() if v != PARAMETERS[name].default},
        "several_nodes": pool.nodes if pool.nodes > 1 else None,
        f"{pool.role}_role": pool.role or None,
        **_format_words(family),
    }
    # ranks that wait for one another use a different flag
    if pool.dp > 1 and "batch_wait" in settings:
        settings["batch_wait_of_ranks"] = settings.pop("batch_wait")
    if family.speculation is not None:
        settings[family.speculation.method] = family.speculation.draft_tokens
    return {name: value for name, value in settings.items() if value is not None}


def _step_tokens(engine: EngineProfile, q: Question, longest: _Longest) -> dict[str, Any]:
    """The token budget of a step, and whether prompts are cut to fit it."""
    told = q.max_num_batched_tokens
    if engine.chunked_prefill is False:
        tokens = told or engine.whole_tokens or engine.chunk_tokens
        return {"whole_tokens": max(tokens, longest.context) if engine.mixed_steps else tokens}
    cut = {"chunked_prefill": True} if q.chunked_prefill == "yes" else {}
    own = engine.chunk_tokens
    if engine.whole_prompts and 0 < own < longest.prompt:  # refused otherwise, see `over_budget`
        own = longest.context
    return {"max_num_batched_tokens": told or own or None, **cut}


def _shared(family: Family, pool: _Pool, row: Mapping[str, float]) -> dict[str, Any]:
    """Server settings for adapters, offload to the host, and the prefix caches on host and disk."""
    model, question = family.resolved.model, family.question
    adapters = model.adapters if isinstance(model, AdaptedModel) else None
    gigabytes = math.ceil(row["offloaded_bytes"] / 2**30)
    host, disk = question.host_cache_gib, question.disk_cache_gib
    settings = {
        "lora_adapters": adapters.active if adapters else None,
        "lora_rank": _lora_rank(adapters.rank) if adapters else None,
        f"{family.spill}_offload_gb": gigabytes or None,
        "host_prefixes": (question.prefix_tier == "host" and not host) or None,
        "host_cache": f"{host / pool.dp:.6g}" if host else None,
        "disk_cache" if host else "disk_cache_alone": f"{disk:.6g}" if disk else None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _lora_rank(rank: int) -> int:
    """The smallest rank supported by servers that is at least `rank`."""
    return next((most for most in _LORA_RANKS if most >= rank), rank)


def _values(family: Family, pool: _Pool, context: int) -> dict[str, Any]:
    """Values for placeholders of options, other than the option's own value."""
    drafting, ranks = family.speculation, pool.tp * pool.pp * pool.dp
    named = drafting is not None and drafting.method == "draft_model" and drafting.draft
    return {
        "context": context,
        "verified": drafting.draft_tokens + 1 if drafting else 1,
        "draft": named.name if named else "DRAFT",
        "host_gb_of_rank": max(int(family.question.host_cache_gib * 2**30 / 1e9 / ranks), 1),
    }


def _format_words(family: Family) -> dict[str, Any]:
    """Formats that must be passed to the engine because the checkpoint does not state them."""
    words: dict[str, Any] = {}
    q = family.question
    if q.weights.startswith("fp8"):
        words["quantize_fp8"] = q.weights
    if q.kv.startswith("fp8"):
        words["kv_fp8"] = q.kv
    return words


def _formats(model: str, family: Family, flags: Mapping[str, Any]) -> list[str]:
    """Notes on formats that need a special checkpoint."""
    weights = family.question.weights
    if not weights or weights in _SIXTEEN_BITS:
        return []
    if weights.startswith("fp8") and "quantize_fp8" in flags["options"]:
        return ["weights are quantised when they are loaded: check the quality of the outputs"]
    return [f"{model} has to be a checkpoint with {bulk_format(family.resolved.model)} weights"]

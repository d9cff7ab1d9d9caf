"""Pages of a simulated server in the formats of vLLM, SGLang or llama.cpp, to test a watch.

Sources: as of `profilers.serving_results.prometheus`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.question.query import ask
from app.scenario.scenario import resolve
from app.simulation.run import run
from app.watching.pages import Look
from genz_core.engine import EngineProfile
from genz_core.types import Array

ENGINES = ("vllm", "sglang", "llama.cpp")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
#: Names of counters, gauges and histograms by engine; "" if it has none.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting",
        "requests": "vllm:request_success_total", "prompt": "vllm:prompt_tokens_total",
        "output": "vllm:generation_tokens_total", "preemptions": "vllm:num_preemptions_total",
        "hits": "vllm:prefix_cache_hits_total", "queries": "vllm:prefix_cache_queries_total",
        "ttft": "vllm:time_to_first_token_seconds",
        "tpot": "vllm:request_time_per_output_token_seconds",
        "e2e": "vllm:e2e_request_latency_seconds", "isl": "vllm:request_prompt_tokens",
        "osl": "vllm:request_generation_tokens",
    },
    "sglang": {
        "running": "sglang:num_running_reqs", "waiting": "sglang:num_queue_reqs",
        "requests": "sglang:num_requests_total", "prompt": "sglang:prompt_tokens_total",
        "output": "sglang:generation_tokens_total", "hit_rate": "sglang:cache_hit_rate",
        "ttft": "sglang:time_to_first_token_seconds",
        "tpot": "sglang:inter_token_latency_seconds",
        "e2e": "sglang:e2e_request_latency_seconds", "isl": "sglang:prompt_tokens_histogram",
        "osl": "sglang:generation_tokens_histogram",
    },
    "llama.cpp": {
        "running": "llamacpp:requests_processing", "waiting": "llamacpp:requests_deferred",
        "prompt": "llamacpp:prompt_tokens_total", "output": "llamacpp:tokens_predicted_total",
        "decode_seconds": "llamacpp:tokens_predicted_seconds_total",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """Requests answered by a simulated server, all columns [requests], times on one clock."""

    arrival_s: Array
    first_s: Array
    last_s: Array
    isl: Array
    osl: Array
    cached: Array
    preemptions: Array

    def then(self, other: Served) -> Served:
        """These requests, followed by others."""
        return Served(
            *(
                np.concatenate([getattr(one, name) for one in (self, other)])
                for name in self.__dataclass_fields__
            )  # type: ignore[arg-type]
        )


def served(given: Mapping[str, Any], start_s: float, seconds: float, steps: float = 1.0) -> Served:
    """Requests in some seconds of a question of the verb "simulate" with a rate.

    start_s: of the first.  steps: factor on the priced time of every step.
    """
    count = max(int(float(given["rate"]) * seconds), 1)
    asked = ask("simulate", {**given, "requests": count})
    resolved = resolve(asked.question, asked.objects)
    if steps != 1.0:
        recipe = resolved.engine.recipe
        scales = replace(
            recipe, tpot_scale=recipe.tpot_scale * steps, ttft_scale=recipe.ttft_scale * steps
        )
        engine: EngineProfile = replace(resolved.engine, recipe=scales)
        resolved = replace(resolved, engine=engine)
    found = run(resolved, asked.objects).simulation
    ended = found.ended
    arrival = found.arrival_s + start_s
    each = found.preemptions / max(len(arrival), 1)
    columns = (
        arrival, arrival + found.ttft_s, arrival + found.e2e_s,
        found.requests.input_tokens.astype(float), found.requests.output_tokens.astype(float),
        found.cached_tokens.astype(float), np.full(len(arrival), each),
    )  # fmt: skip
    return Served(*(column[ended] for column in columns))


def in_turn(
    parts: Sequence[tuple[Mapping[str, Any], float, float]], start_s: float = 0.0
) -> Served:
    """Parts of a load one after another: (question, seconds, factor on steps)."""
    found, at = None, start_s
    for given, seconds, steps in parts:
        new = served(given, at, seconds, steps)
        found = new if found is None else found.then(new)
        at += seconds
    assert found is not None
    return found


def looks(
    found: Served, engine: str, until_s: float, every_s: float = 5.0, since_s: float = 0.0
) -> Iterator[Look]:
    """Samples of the page of the server that answered the requests.  since_s: when it started."""
    for number in range(int((until_s - since_s) / every_s) + 1):
        at = since_s + number * every_s
        yield Look(at, page(found, engine, at, since_s))


def page(found: Served, engine: str, at: float, since_s: float = 0.0) -> str:
    """The page of a server at a moment; its counters start when the server does."""
    names, lines = _NAMES[engine], list[str]()
    ours = found.arrival_s >= since_s
    first = ours & (found.first_s <= at)
    done = ours & (found.last_s <= at)
    open_ = ours & (found.arrival_s <= at) & ~done
    gaps = np.maximum(found.osl - 1.0, 0.0)
    span = np.maximum(found.last_s - found.first_s, 1e-9)
    share = np.clip((at - found.first_s) / span, 0.0, 1.0)
    written = np.where(first, 1.0 + gaps * share, 0.0)
    label = '{engine="0",model_name="model"}' if engine != "llama.cpp" else ""

    def say(name: str, value: float, kind: str) -> None:
        if name in names:
            lines.append(f"# TYPE {names[name]} {kind}")
            lines.append(f"{names[name]}{label} {value:.9g}")

    say("running", float((open_ & first).sum()), "gauge")
    say("waiting", float((open_ & ~first).sum()), "gauge")
    say("requests", float(done.sum()), "counter")
    say("prompt", float(found.isl[first].sum()), "counter")
    say("output", float(written.sum()), "counter")
    say("preemptions", float(np.floor(found.preemptions[done].sum())), "counter")
    say("hits", float(found.cached[first].sum()), "counter")
    say("queries", float(found.isl[first].sum()), "counter")
    recent = first & (found.first_s > at - 60.0)
    asked = float(found.isl[recent].sum())
    say("hit_rate", float(found.cached[recent].sum()) / asked if asked else 0.0, "gauge")
    say("decode_seconds", float((np.where(first, span * share, 0.0)).sum()), "counter")
    answered = done & (gaps > 0)
    tpot = span[answered] / gaps[answered]
    weights = gaps[answered] if engine == "sglang" else np.ones(len(tpot))
    _histogram(lines, names.get("ttft", ""), label, (found.first_s - found.arrival_s)[first])
    _histogram(lines, names.get("tpot", ""), label, tpot, weights)
    _histogram(lines, names.get("e2e", ""), label, (found.last_s - found.arrival_s)[done])
    for name, values in (("isl", found.isl[done]), ("osl", found.osl[done])):
        _histogram(lines, names.get(name, ""), label, values)
    return "\n".join(lines) + "\n"


def _histogram(
    lines: list[str], name: str, label: str, values: Array, weights: Array | None = None
) -> None:
    if not name:
        return
    counted = np.ones(len(values)) if weights is None else weights
    scale = 1.0 if name.endswith("seconds") else 1e5
    inside = label[1:-1]
    for bound in (*_SECONDS, np.inf):
        le = "+Inf" if np.isinf(bound) else f"{bound * scale:g}"
        below = float(counted[values <= bound * scale].sum())
        lines.append(f'{name}_bucket{{{inside},le="{le}"}} {below:.9g}')
    lines.append(f"{name}_sum{label} {float((values * counted).sum()):.9g}")
    lines.append(f"{name}_count{label} {float(counted.sum()):.9g}")

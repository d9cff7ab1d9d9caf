"""The /metrics page of vLLM, SGLang or llama.cpp: Prometheus' text of a serving process.

Counters and histograms accumulate from the start of the process; gauges are momentary values.
Quantiles are interpolated within the buckets of a histogram, as Prometheus' `histogram_quantile`
does.
Sources: prometheus.io, "Exposition formats" (text 0.0.4); vllm-project/vllm,
vllm/v1/metrics/loggers.py (0.6 to 0.26; the names before 0.10 as well); sgl-project/sglang,
python/sglang/srt/managers/scheduler_metrics and observability/metrics_collector.py (0.4 to 0.5);
ggml-org/llama.cpp, tools/server/README.md, "GET /metrics" (`--metrics`): it has no histograms, so
the time per token is the sum of seconds over the sum of tokens.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from genz_core.errors import ReportError
from profilers.serving_results import fields
from profilers.serving_results.documents import Content
from profilers.serving_results.measurement import (
    LATENCIES,
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)

NAME = "server metrics page"
_SAMPLE = re.compile(
    r"((?:vllm|sglang|llamacpp)[:_][A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+"
    r"([-+]?(?:[\d.][\d.eE+-]*|Inf|NaN))(?:\s+\d+)?$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MOST_SAMPLES = 500_000
_PERCENTS = (50.0, 90.0, 95.0, 99.0)
#: Histograms -> fields; the names of vLLM and SGLang, newest first.
_HISTOGRAMS = {
    "ttft_s": ("time_to_first_token_seconds",),
    "tpot_s": ("request_time_per_output_token_seconds",),
    "itl_s": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    "e2e_s": ("e2e_request_latency_seconds",),
    "queue_s": ("request_queue_time_seconds", "queue_time_seconds"),
    "prefill_s": ("request_prefill_time_seconds",),
    "decode_s": ("request_decode_time_seconds",),
    "isl": ("request_prompt_tokens", "prompt_tokens_histogram"),
    "osl": ("request_generation_tokens", "generation_tokens_histogram"),
}
#: Gauges and counters -> names in `ServingMeasurement.server`, and how series are combined.
_GAUGES = {
    "requests_running": (
        ("num_requests_running", "num_running_reqs", "requests_processing"),
        sum,
    ),
    "requests_waiting": (
        ("num_requests_waiting", "num_queue_reqs", "requests_deferred"),
        sum,
    ),
    "kv_cache_use": (
        ("kv_cache_usage_perc", "gpu_cache_usage_perc", "token_usage", "kv_cache_usage_ratio"),
        max,
    ),
    "cache_hit_rate": (("cache_hit_rate", "gpu_prefix_cache_hit_rate"), max),
    "output_tokens_per_s_now": (("gen_throughput",), sum),
    "preemptions": (("num_preemptions_total", "num_preemptions"), sum),
    "prefix_cache_hits": (("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"), sum),
    "prefix_cache_queries": (("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"), sum),
    "prompt_tokens": (("prompt_tokens_total",), sum),
    "output_tokens": (("generation_tokens_total", "tokens_predicted_total"), sum),
    "requests": (("request_success_total", "num_requests_total"), sum),
    "prefill_seconds": (("prompt_seconds_total",), sum),
    "decode_seconds": (("tokens_predicted_seconds_total",), sum),
    "spec_accept_length": (("spec_accept_length",), max),
}
_DEFINITIONS = {
    "ttft_s": "from the arrival at the server to its first token; quantiles between buckets",
    "tpot_s": "(E2E - TTFT) / (OSL - 1) of each request, in the server; quantiles between buckets",
    "itl_s": "gaps between the tokens of all requests, in the server; quantiles between buckets",
    "e2e_s": "from the arrival at the server to the last token; quantiles between buckets",
}


@dataclass(slots=True)
class Page:
    """The samples of a page.  values: name without "vllm:" -> one value per series."""

    engine: str
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    buckets: dict[str, dict[float, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    models: set[str] = field(default_factory=set)
    config: dict[str, str] = field(default_factory=dict)


def knows_text(head: str) -> bool:
    """Whether a text is a page with samples of vLLM or SGLang."""
    return any(_SAMPLE.match(line.strip()) for line in head.splitlines())


def read_text(content: Content) -> list[ServingMeasurement]:
    """The single process of a page; errors as `Content.text`."""
    return [of_page(parse(content.text))]


def parse(text: str) -> Page:
    """The samples of a page.

    Raises:
        ReportError: more samples than any server has.
    """
    page = Page("")
    count = 0
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        value = fields.number_or_infinity(match[3].replace("+", "")) if match else None
        if match is None or value is None:
            continue
        count += 1
        if count > _MOST_SAMPLES:
            raise ReportError(f"the page has more than {_MOST_SAMPLES:,} samples")
        labels = {name: raw for name, raw in _LABEL.findall(match[2] or "")}
        engine, name = re.split(r"[:_]", match[1], maxsplit=1)
        page.engine = "llama.cpp" if engine == "llamacpp" else engine
        _keep(page, name, labels, value)
    return page


def _keep(page: Page, name: str, labels: dict[str, str], value: float) -> None:
    if model := labels.get("model_name"):
        page.models.add(model)
    if name == "cache_config_info":
        page.config |= labels
    elif name.endswith("_bucket") and "le" in labels:
        bound = fields.number_or_infinity(labels["le"].replace("+", ""))
        if bound is not None:
            page.buckets[name.removesuffix("_bucket")][bound] += value
    elif math.isfinite(value):
        page.values[name].append(value)


def of_page(
    page: Page, before: Page | None = None, seconds: float | None = None
) -> ServingMeasurement:
    """The measurement of a page, or of the difference between two pages.

    before: the same process's page `seconds` earlier.
    """
    found = {name: _histogram(page, before, names) for name, names in _HISTOGRAMS.items()}
    server = _server(page, before)
    server |= {
        f"{name.removesuffix('_s')}_mean_s": entry.mean
        for name in ("queue_s", "prefill_s", "decode_s")
        if (entry := found[name]).mean is not None
    }
    since = "between two samples of the page" if before else "since the process started"
    gap_s = fields.ratio(server.get("decode_seconds"), server.get("output_tokens"))
    if not found["tpot_s"] and gap_s:
        found["tpot_s"] = Percentiles(gap_s)
    rates = {name: fields.ratio(server.get(name), seconds) for name in _COUNTED}
    return ServingMeasurement(
        format=NAME,
        subject=Subject(
            tool=NAME,
            engine=page.engine or None,
            model=page.models.pop() if len(page.models) == 1 else None,
            kv_precision=_stated(page.config.get("cache_dtype")),
        ),
        load=MeasuredLoad(
            concurrency_mean=server.get("requests_running"),
            completed=fields.count(server.get("requests")),
            duration_s=seconds,
        ),
        lengths=Lengths(_mean_only(found["isl"]), _mean_only(found["osl"])),
        throughput=Throughput(rates["requests"], rates["prompt_tokens"], rates["output_tokens"]),
        definitions=_DEFINITIONS,
        server={name: value for name, value in server.items() if value is not None},
        notes=(
            f"counters and histograms are of all requests {since}; running and waiting requests "
            "and the use of the cache are those of the moment",
        ),
    ).with_latencies({name: found[name] for name in LATENCIES})


_COUNTED = ("requests", "prompt_tokens", "output_tokens")
_SINCE_START = (
    *_COUNTED,
    "preemptions",
    "prefix_cache_hits",
    "prefix_cache_queries",
    "prefill_seconds",
    "decode_seconds",
)


def _stated(value: str | None) -> str | None:
    return None if value in (None, "auto") else fields.text(value)


def _mean_only(found: Percentiles) -> Percentiles:
    """Lengths with their mean only: a histogram's buckets are too wide for quantiles of tokens."""
    return Percentiles(found.mean, count=found.count)


def _server(page: Page, before: Page | None) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, (theirs, together) in _GAUGES.items():
        value = _together(page, theirs, together)
        if value is not None and before is not None and name in _SINCE_START:
            value -= _together(before, theirs, together) or 0.0
        found[name] = value
    hits, asked = found["prefix_cache_hits"], found["prefix_cache_queries"]
    if hits is not None and asked:
        found["cache_hit_rate"] = hits / asked
    return found


def _together(page: Page, names: Iterable[str], together: object) -> float | None:
    for name in names:
        if page.values.get(name):
            return float(sum(page.values[name]) if together is sum else max(page.values[name]))
    return None


def _histogram(page: Page, before: Page | None, names: Iterable[str]) -> Percentiles:
    for name in names:
        buckets = dict(page.buckets.get(name, {}))
        total = _together(page, (f"{name}_sum",), sum)
        count = _together(page, (f"{name}_count",), sum)
        if before is not None:
            earlier = before.buckets.get(name, {})
            buckets = {bound: n - earlier.get(bound, 0.0) for bound, n in buckets.items()}
            total = (
                None if total is None else total - (_together(before, (f"{name}_sum",), sum) or 0)
            )
            count = (
                None if count is None else count - (_together(before, (f"{name}_count",), sum) or 0)
            )
        if count:
            at = {percent: quantile(buckets, percent / 100) for percent in _PERCENTS}
            known = {percent: value for percent, value in at.items() if value is not None}
            return Percentiles(fields.ratio(total, count), at=known, count=int(count))
    return Percentiles()


def quantile(buckets: dict[float, float], share: float) -> float | None:
    """A quantile of a histogram, linear within its bucket.

    buckets: upper bound -> number of samples up to it.  None where there are no samples, or where
    the quantile lies above the last finite bound.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    wanted, lower, below = share * total, 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= wanted:
            if math.isinf(bound):
                return None
            inside = buckets[bound] - below
            return lower + (bound - lower) * ((wanted - below) / inside if inside else 1.0)
        lower, below = bound, buckets[bound]
    return None

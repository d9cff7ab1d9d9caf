"""Every figure of an answer: one declaration per column, found by name.

Tables of the command line, pages, files and programs take names, headings, units, help and the
better direction from here.  Names end in their unit and are the keys of JSON and the headings of
CSV.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from app.question.parameters import PARAMETERS
from app.wording import quantities

Better = Literal["low", "high", ""]
#: Ends of an 80 % interval.
_ENDS = ("low", "high")
#: Percentiles of a latency over the requests of a simulation.
PERCENTILES = (50, 90, 95, 99)
#: Formatter of a value by its unit; other units are shown with four digits and the unit.
WRITERS: Mapping[str, Callable[[float], str]] = {
    "s": quantities.seconds,
    "bytes": quantities.size,
    "tok/s": quantities.tokens_rate,
    "seq/s": partial(quantities.rate, unit="sequences/s"),
    "J": partial(quantities.rate, unit="J"),
    "$": quantities.dollars,
    "$/h": quantities.dollars,
    "share": quantities.percent,
    "tokens": quantities.count,
    "count": quantities.count,
}


_FORMATS: Mapping[str, str] = {
    "bytes": "compact",
    "count": "localized",
    "share": "percent",
    "tokens": "localized",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer.

    name: key in JSON and CSV, ending in its unit.  head: title of the column, without its unit.
    unit: "s", "bytes", "tok/s", "seq/s", "req/s", "$", "$/h", "J", "share" (of one), "tokens",
    "count", "factor", or "" for texts and truths.  help: one sentence.
    statistic: of many requests ("p95"), "bound", or an end of the 80 % interval ("low", "high").
    better: whether a low or a high value is better, "" for neither.
    base: name of the column that an end of an interval belongs to.
    """

    name: str
    head: str
    unit: str = ""
    help: str = ""
    statistic: str = ""
    better: Better = ""
    base: str = ""

    @property
    def title(self) -> str:
        """The heading with its unit, unless it already contains it: "TTFT [s]", "$/h"."""
        if self.unit in ("", "count", "factor", "share") or self.unit in self.head.split():
            return self.head
        return f"{self.head} [{self.unit}]"

    @property
    def smaller(self) -> bool:
        """Whether a smaller value is better."""
        return self.better == "low"

    @property
    def clause(self) -> str:
        """The help within a sentence: "mean time to the first token"."""
        return self.help[:1].lower() + self.help[1:].rstrip(".")

    @property
    def format(self) -> str:
        """Streamlit's format of its numbers: four digits; counts whole, bytes with a prefix."""
        return _FORMATS.get(self.unit, "%.4g")

    def words(self, value: float | None) -> str:
        """A value for a reader: "4.52 ms", "142 tok/s", "–" for none."""
        return in_words(value, self.unit)

    def span(self, low: float, high: float) -> str:
        """An 80 % interval for a reader: "18.3 to 41.7 ms", or "not validated"."""
        return span_words(low, high, self.unit)


def in_words(value: float | None, unit: str) -> str:
    """A value with its unit for a reader, a dash for none; without a formatter four digits."""
    if value is None:
        return "–"
    if unit in WRITERS:
        return WRITERS[unit](value)
    if not math.isfinite(value):
        return "–"
    return f"{value:,.4g} {'' if unit == 'factor' else unit}".rstrip()


def span_words(low: float, high: float, unit: str) -> str:
    """An interval of a unit: "18.3 to 41.7 ms"; "not validated" where its ends are NaN."""
    if unit == "s":
        return quantities.span(low, high)
    if math.isnan(low):
        return quantities.NOT_VALIDATED
    first, last = in_words(low, unit), in_words(high, unit)
    return f"{first.removesuffix(f' {unit}')} to {last}"


def ends(name: str) -> tuple[str, str]:
    """Names of the ends of a figure's interval: "ttft_s" -> "ttft_low_s", "ttft_high_s".

    For rates and costs the suffix comes last: "output_tokens_per_s_low".
    """
    if name.endswith("_s") and not name.endswith("_per_s"):
        plain = name.removesuffix("_s")
        return f"{plain}_low_s", f"{plain}_high_s"
    return f"{name}_low", f"{name}_high"


#: Names of the throughput's columns.
THROUGHPUT_ENDS = ends("output_tokens_per_s")


# ------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, slots=True)
class Latency:
    """A latency, from which its columns are made.

    name: of its columns, before the statistic.  head, said: title, and description.
    stated: "" for the figure itself, "median", "mean" and the percentiles ("p95").
    trusted: those among them with an 80 % interval.  bound: whether it has a bound.
    """

    name: str
    head: str
    said: str
    stated: tuple[str, ...]
    trusted: tuple[str, ...] = ()
    bound: bool = False

    def columns(self) -> Iterator[Column]:
        """Every column of the latency: statistics, ends of intervals, the bound."""
        for what in self.stated:
            words = _STATISTIC_WORDS.get(what, f"{what[1:]}th percentile of ")
            named = f"{self.name}_{what}_s" if what else f"{self.name}_s"
            shown = f"{self.head} {what}".rstrip()
            one = Column(named, shown, "s", _sentence(words + self.said), what or "mean", "low")
            yield from _interval(one) if what in self.trusted else (one,)
        if self.bound:
            said = _sentence(f"lower bound of the {self.said}")
            yield Column(f"bound_{self.name}_s", f"{self.head}, bound", "s", said, "bound", "low")


_STATISTIC_WORDS: Mapping[str, str] = {"": "mean ", "mean": "mean ", "median": "median "}
_SIMULATED = ("mean", *(f"p{percent}" for percent in PERCENTILES))
_BOTH = ("", "median")
#: Every latency by the name of its columns, in the order of a request's life.
LATENCIES: Mapping[str, Latency] = {
    one.name: one
    for one in (
        Latency("queue", "Queueing", "time from arrival to the first step", ("", *_SIMULATED)),
        Latency("ttft", "TTFT", "time to the first token", (*_BOTH, *_SIMULATED), _BOTH, True),
        Latency("tpot", "TPOT", "time between tokens", (*_BOTH, *_SIMULATED), _BOTH, True),
        Latency("itl", "ITL", "time between two tokens of one request", _SIMULATED),
        Latency(
            "e2e", "E2E", "time from sending a request to its last token", ("", *_SIMULATED), ("",)
        ),
        Latency("latency", "Latency", "time of one pass over the input", _BOTH, _BOTH, True),
        Latency("prefill", "Prefill", "time to prefill the prompts", ("",), ("",), True),
        Latency(
            "decode_step", "Decode step", "time of one decode step of the batch", ("",), ("",), True
        ),
    )
}


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _interval(one: Column) -> Iterator[Column]:
    """A figure, and the ends of its 80 % interval."""
    yield one
    for name, end in zip(ends(one.name), _ENDS, strict=True):
        said = f"{end.capitalize()} end of the 80 % interval: {one.clause}."
        shown = f"{one.head}, 80 % {end}"
        yield replace(one, name=name, head=shown, help=said, statistic=end, base=one.name)


#: Throughput, rent, energy and memory: head, unit, better direction, and help by name.
_FIGURES: Mapping[str, tuple[str, str, Better, str]] = {
    "devices": ("Devices", "count", "low", "Number of devices."),
    "output_tokens_per_s": ("Output throughput", "tok/s", "high", "Output tokens per second."),
    "output_tokens_per_s_per_device": (
        "Output per device",
        "tok/s",
        "high",
        "Output tokens per second per device.",
    ),
    "sequences_per_s": ("Sequences", "seq/s", "high", "Sequences per second."),
    "sequences_per_s_per_device": (
        "Sequences per device",
        "seq/s",
        "high",
        "Sequences per second per device.",
    ),
    "requests_per_s": ("Requests", "req/s", "high", "Requests per second."),
    "input_tokens_per_s": ("Input throughput", "tok/s", "high", "Prompt tokens per second."),
    "total_tokens_per_s": (
        "Total throughput",
        "tok/s",
        "high",
        "Prompt and output tokens per second.",
    ),
    "interactivity": (
        "Interactivity",
        "tok/s",
        "high",
        "Tokens per second that one user sees, 1 / TPOT.",
    ),
    "good_requests_per_s": (
        "Goodput",
        "req/s",
        "high",
        "Requests per second that meet all targets.",
    ),
    "good_share": ("Meet all targets", "share", "high", "Share of requests that meet all targets."),
    "share": ("While all serve", "share", "high", "Share that meets all targets without losses."),
    "share_with_lost": (
        "With losses",
        "share",
        "high",
        "Share that meets all targets while the stated number of replicas is lost.",
    ),
    "share_on_average": (
        "On average",
        "share",
        "high",
        "Share that meets all targets on average over losses.",
    ),
    "audio_seconds_per_s": (
        "Audio per second",
        "factor",
        "high",
        "Seconds of audio processed per second.",
    ),
    "usd_per_million_tokens": ("$ per Mtok", "$", "low", "Rent per million billed tokens."),
    "joules_per_token": ("J per token", "J", "low", "Energy per token at full power."),
    "usd_per_mtok": ("$ per Mtok out", "$", "low", "Rent per million output tokens."),
    "usd_per_hour": ("$/h", "$/h", "low", "Rent of all devices."),
    "usd_per_month": ("Cost a month", "$", "low", "Rent of all devices in a month."),
    "usd": ("Cost", "$", "low", "Rent while replicas start, serve and stop."),
    "replica_hours": ("Replica-hours", "h", "low", "Billed time of all replicas together."),
    "memory_bytes_per_device": (
        "Memory per device",
        "bytes",
        "low",
        "Total memory in use on the fullest device.",
    ),
    "memory_bytes": (
        "Memory under load",
        "bytes",
        "low",
        "Memory in use on the fullest device under load.",
    ),
    "weights_bytes": ("Weights per device", "bytes", "low", "Weights on the fullest device."),
    "kv_bytes": ("KV cache per device", "bytes", "low", "KV cache on the fullest device."),
    "activations_bytes": ("Activations", "bytes", "low", "Activations on the fullest device."),
    "reserve_bytes": (
        "Reserve",
        "bytes",
        "low",
        "Memory that the runtime reserves on each device.",
    ),
    "offloaded_bytes": ("Offloaded", "bytes", "low", "Bytes moved from the devices to the host."),
    "usable_bytes": ("Usable", "bytes", "high", "Memory that the engine may use on each device."),
}
_TRUSTED = (
    "output_tokens_per_s", "sequences_per_s", "usd_per_million_tokens", "joules_per_token",
)  # fmt: skip
#: Names and sentences: head and help by name.
_TEXTS: Mapping[str, tuple[str, str]] = {
    "id": ("Id", "Id of the row in the points file."),
    "kind": ("Kind", "Kind of the model, or of the deployment."),
    "status": ("Status", '"ok", or the reason why it cannot run.'),
    "message": ("Message", "Assumptions, and the reason why it cannot run."),
    "fits": ("Fits", "Whether everything fits in the memory of a device."),
    "profile": ("Profile", "Measurements that the system's constants were fitted to."),
    "not_validated": ("Not validated", "Latencies without an interval."),
    "latency": ("Latency", "The latency that a row of statistics describes."),
    "good": ("Good", "Whether the request met all targets."),
    "load": ("Load", "The requested load."),
    "targets": ("Targets", "Limits on latencies."),
    "prefill": ("Prefill pool", "Workers that only prefill."),
    "beyond_measurements": ("Beyond", "Properties that no measured run had."),
    "probability_validated": ("Validated", "Whether runs validate the probability."),
    "margins": ("Margins", "Distance below each target, as a share of it."),
    "percentiles": ("Percentiles", "Where the percentiles come from."),
    "choices_like_it": (
        "Choices like it",
        "Share of the best measured throughput that similar choices lost.",
    ),
    "cache_tiers": ("Cache tiers", "Where cached prefixes are stored beyond device memory."),
    "worth": ("Worth", "The value of each cache tier and router."),
    "case": ("Case", "What was simulated."),
    "tier": ("Tier", "Where the cached prefixes are stored."),
    "launch": ("Launch", "Commands that start the deployment."),
    "launch_notes": ("Launch notes", "What the launch commands leave to you."),
    "launch_files": ("Launch files", "Files that the launch commands read."),
    "launch_servers": ("Launch servers", "The servers that the launch commands start."),
    "launch_version": ("Launch version", "Engine release of the launch commands."),
    "launch_checked": ("Launch checked", "How the launch commands were checked."),
    "launch_sources": ("Launch sources", "Where the options are documented."),
    "benchmark": ("Benchmark", "The command that measures the deployment."),
    "guard": ("Guard", "The command that compares a measurement with the prediction."),
    "notes": ("Notes", "Assumptions behind the figures."),
    "name": ("Name", "Name of the model in the fleet."),
    "machine": ("Machine", "Kind of machine that it runs on."),
    "each": ("Layout", "Degrees of each replica."),
    "load_each": ("Load of a replica", "Its share of the load, in the unit of the load."),
    "most_each": ("Maximum load of a replica", "Most that it serves alone within the targets."),
    "unit": ("Unit of load", "Users or requests per second."),
}
#: Given or counted numbers: heading, unit and help by name.
_NUMBERS: Mapping[str, tuple[str, str, str]] = {
    "image_tokens": ("Image", "tokens", "Tokens of one image."),
    "prompt_tokens": ("Whole prompt", "tokens", "Tokens of a prompt including its images."),
    "input_tokens": ("Input", "tokens", "Tokens of the request's prompt."),
    "output_tokens": ("Output", "tokens", "Output tokens of the request."),
    "cached_tokens": ("Cached", "tokens", "Tokens of the prompt found in the cache."),
    "running": ("Running", "count", "Requests that run concurrently."),
    "capacity": ("Fit in memory", "count", "Requests that fit in the KV cache at the same time."),
    "rank": ("Rank", "count", "Data-parallel rank that served the request."),
    "requests": ("Requests sent", "count", "Requests that were sent."),
    "request": ("Request", "count", "Number of the request."),
    "ended": ("Ended", "count", "Requests that were answered."),
    "refused": ("Refused", "count", "Requests too large for the KV cache of a device."),
    "preemptions": ("Preemptions", "count", "Times that a request was preempted to free KV cache."),
    "steps": ("Steps", "count", "Steps of the engine."),
    "waiting": ("Waiting", "count", "Requests in the queue."),
    "prompt_scale": (
        "Prompt scale",
        "factor",
        "Measured over predicted time that prompts add to a step.",
    ),
    "request_wait_s": ("Request wait", "s", "Measured wait before the engine receives a request."),
    "utilisation": ("Utilisation", "share", "Request rate over the highest sustainable rate."),
    "prompt_share": (
        "Time on prompts",
        "share",
        "Time that prompts add to a decode step, as a share of it.",
    ),
    "cached_share": ("Cached share", "share", "Share of prompt tokens found in any cache."),
    "device_hit_share": (
        "On the device",
        "share",
        "Share of prompt tokens found in the device's KV cache.",
    ),
    "host_hit_share": ("From the host", "share", "Share of prompt tokens read from host memory."),
    "disk_hit_share": ("From disk", "share", "Share of prompt tokens read from disk."),
    "remote_hit_share": (
        "From remote memory",
        "share",
        "Share of prompt tokens read from other machines' memory.",
    ),
    "loading_mean_s": ("Loading", "s", "Mean time to load a prompt's blocks from cache tiers."),
    "ttft_mean_saved_s": ("TTFT saved", "s", "Mean TTFT without the tier minus mean TTFT with it."),
    "ttft_p99_saved_s": (
        "TTFT p99 saved",
        "s",
        "TTFT p99 without the tier minus TTFT p99 with it.",
    ),
    "tier_usd_per_hour": ("Tiers", "$/h", "Rent of the cache tiers."),
    "freed_usd_per_hour": ("Freed", "$/h", "Rent of the device time that cache hits save."),
    "net_usd_per_hour": ("Net", "$/h", "Rent of the saved device time minus the rent of the tier."),
    "device_time_s": ("Device time", "s", "Device time spent on each request."),
    "kv_use": ("Cache in use", "share", "Share of the KV cache in use."),
    "probability": ("Probability", "share", "Probability that all targets are met."),
    "probability_alone": (
        "Probability alone",
        "share",
        "The same probability without the correction for choosing the best of many.",
    ),
    "wait_s": ("Wait", "s", "TTFT minus the prefill time of the prompt."),
    "seconds": ("Duration", "s", "Time from the first arrival to the last answer."),
    "arrival_s": ("Arrival", "s", "Time at which the request arrived."),
    "time_s": ("Time", "s", "Time since the first arrival."),
    "most_replicas": ("Peak replicas", "count", "Most replicas at one time."),
    "starts": ("Starts", "count", "Replicas that were started."),
    "losses": ("Replicas lost", "count", "Replicas that failed."),
    "held": ("Requests held", "count", "Requests that found no replica serving."),
    "all_there": ("Time without losses", "share", "Share of time in which all replicas serve."),
    "encoder_s": ("Encoder", "s", "Time of the image or audio encoder, part of TTFT."),
}


#: Units of parameters whose numbers count something.
_COUNTED = {"isl": "tokens", "osl": "tokens", "max_num_batched_tokens": "tokens"}


def _of_parameters() -> Iterator[Column]:
    """A column for each parameter, from its declaration; figures that are also parameters have
    their own column.
    """
    own = {*_TEXTS, *_NUMBERS, *_FIGURES}
    for name, one in PARAMETERS.items():
        if name in own:
            continue
        unit = {"1/s": "req/s", "%": "share"}.get(one.unit, one.unit)
        if one.kind == "whole":
            unit = _COUNTED.get(name, "count")
        head = one.title.partition(" [")[0]
        yield Column(name, head, unit or ("factor" if one.numeric else ""), one.help)


def _every() -> Iterator[Column]:
    yield from _of_parameters()
    for name, (words, said) in _TEXTS.items():
        yield Column(name, words, "", said)
    for name, (words, unit, said) in _NUMBERS.items():
        yield Column(name, words, unit, said)
    for latency in LATENCIES.values():
        yield from latency.columns()
    for what in _SIMULATED:  # for a table whose rows are latencies
        words = _STATISTIC_WORDS.get(what, f"{what[1:]}th percentile of ")
        yield Column(f"{what}_s", what, "s", _sentence(f"{words}the requests"), what, "low")
    for name in ("ttft", "tpot", "e2e"):
        words, said = LATENCIES[name].head, LATENCIES[name].said
        named, helped = f"simulated_{name}_s", f"Mean {said}, simulated."
        yield Column(named, f"{words}, simulated", "s", helped, "mean", "low")
    for name, (words, unit, better, said) in _FIGURES.items():
        one = Column(name, words, unit, said, "", better)
        yield from _interval(one) if name in _TRUSTED else (one,)


def _by_name(columns: Iterable[Column]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for one in columns:
        if one.name in found:
            raise ValueError(f"column {one.name!r} is declared twice")
        found[one.name] = one
    return found


#: Every column by its name.
COLUMNS: Mapping[str, Column] = _by_name(_every())

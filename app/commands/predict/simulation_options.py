"""Options of `ridgeline simulate`, by the panels of its help, and the groups of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


def _option(panel: str, help_: str, *names: str) -> Any:
    return typer.Option(*names, help=help_, rich_help_panel=panel)


ModelName = Annotated[str, typer.Argument(help="Name, Hugging Face id or config.json.")]

_LOAD = "Load"
Concurrency = Annotated[int, _option(_LOAD, "Open requests of a closed loop.")]
Rate = Annotated[float, _option(_LOAD, "Arrivals per second.")]
Trace = Annotated[str, _option(_LOAD, "A trace: CSV or JSON lines, also packed.")]
Burstiness = Annotated[
    float, _option(_LOAD, "Shape of the gaps of a rate: 1 Poisson, less is burstier.")
]
RampTo = Annotated[float, _option(_LOAD, "Rate that --rate climbs to.")]
RampSeconds = Annotated[float, _option(_LOAD, "Seconds of that climb.", "--ramp-seconds")]
Requests = Annotated[
    int, _option(_LOAD, "Requests; default: ten a slot, 1,000 at a rate, a whole trace.")
]
Seed = Annotated[int, _option(_LOAD, "Of all draws: the same seed, the same answers.")]

_LENGTHS = "Lengths and sessions"
Isl = Annotated[int, _option(_LENGTHS, "Prompt tokens.")]
Osl = Annotated[int, _option(_LENGTHS, "Output tokens.")]
LengthRatio = Annotated[
    float, _option(_LENGTHS, "Lengths are uniform from this share of nominal to 1.")
]
LengthSpread = Annotated[
    float, _option(_LENGTHS, "Lengths are lognormal: standard deviation over mean.")
]
Lengths = Annotated[
    str, _option(_LENGTHS, "Lengths are rows of a file: input_tokens, output_tokens.")
]
Turns = Annotated[int, _option(_LENGTHS, "Requests of a session.")]
ThinkTime = Annotated[float, _option(_LENGTHS, "Seconds between two turns.", "--think-time")]
SharedPrompt = Annotated[
    int, _option(_LENGTHS, "Tokens of a system prompt that all share.", "--shared-prompt")
]

_TARGETS = "Targets of goodput"
TtftTarget = Annotated[float, _option(_TARGETS, "Most seconds to the first token.")]
TpotTarget = Annotated[float, _option(_TARGETS, "Most seconds between tokens, on average.")]
E2eTarget = Annotated[float, _option(_TARGETS, "Most seconds of a request.")]

_DEPLOYMENT = "Engine and router"
Router = Annotated[
    str, _option(_DEPLOYMENT, "least-loaded, round-robin or prefix, over ranks and replicas.")
]
Replicas = Annotated[int, _option(_DEPLOYMENT, "Equal deployments behind the router.")]
MaxSequences = Annotated[
    int,
    _option(
        _DEPLOYMENT, "Sequences of a step and rank at most.", "--max-sequences", "--max-num-seqs"
    ),
]
TokenBudget = Annotated[
    int,
    _option(
        _DEPLOYMENT,
        "Tokens of a step and rank at most.",
        "--token-budget",
        "--max-num-batched-tokens",
    ),
]
MemoryFraction = Annotated[float, _option(_DEPLOYMENT, "Of a device that the engine takes.")]
KvTokens = Annotated[float, _option(_DEPLOYMENT, "Tokens that the cache of a rank holds.")]
PrefixCaching = Annotated[bool, _option(_DEPLOYMENT, "Read equal prefixes once.")]
RecvInterval = Annotated[int, _option(_DEPLOYMENT, "Decode steps between two looks at arrivals.")]
Scheduler = Annotated[
    str, _option(_DEPLOYMENT, "vllm, sglang, tensorrt_llm or static; default: the engine's own.")
]

_DRAFTS = "Speculative decoding"
Speculation = Annotated[str, _option(_DRAFTS, "mtp, eagle, draft_model or ngram.")]
DraftTokens = Annotated[int | None, _option(_DRAFTS, "Tokens of a draft; default: 3.")]
DraftModel = Annotated[str, _option(_DRAFTS, "Model that drafts, named as MODEL is.")]
Acceptance = Annotated[
    str, _option(_DRAFTS, 'Of a token "0.8", or by position "0.9,0.7,0.5"; default: measured.')
]

_PREFILL = "Prefill pool"
PrefillSystem = Annotated[str, _option(_PREFILL, "System of workers that read the prompts.")]
PrefillWorkers = Annotated[int, _option(_PREFILL, "Their number; --replicas then decode.")]
PrefillTp = Annotated[int, _option(_PREFILL, "Tensor parallel degree of one.")]
PrefillPp = Annotated[int, _option(_PREFILL, "Pipeline stages of one.")]
PrefillDp = Annotated[int, _option(_PREFILL, "Attention data parallel degree of one.")]
PrefillEp = Annotated[int, _option(_PREFILL, "Expert parallel degree of one.")]
PrefillWeights = Annotated[str, _option(_PREFILL, "Their weight format; default: --weights.")]
TransferGbps = Annotated[
    float, _option(_PREFILL, "Way of the cache [Gbit/s a device]; default: the systems' link.")
]
TransferLatency = Annotated[
    float | None,
    _option(_PREFILL, "Of each prompt on top, in microseconds.", "--transfer-latency-us"),
]
LayerWise = Annotated[
    bool, _option(_PREFILL, "Send each layer's cache while later ones run.", "--layer-wise")
]

_MEASURED = "Calibration from one run"
MeasuredTpot = Annotated[
    float, _option(_MEASURED, "Mean TPOT of a run of yours under this load, in seconds.")
]
Measured = Annotated[
    Path | None,
    _option(
        _MEASURED,
        "Its result: measure serving, vLLM bench serve, SGLang bench_serving, GenAI-Perf.",
    ),
]
Save = Annotated[bool, _option(_MEASURED, "Use it in later simulations.")]
Forget = Annotated[bool, _option(_MEASURED, "Drop what was kept for this deployment.", "--forget")]

_FLEET = "Many simulations"
Points = Annotated[Path | None, _option(_FLEET, "A CSV, a row a simulation.")]
Output = Annotated[
    Path | None, _option(_FLEET, "CSV of their figures; rows in it are not run again.")
]
Workers = Annotated[int, _option(_FLEET, "Processes; 0: one a core.")]
Cluster = Annotated[str, _option(_FLEET, "Address of a Dask scheduler in place of processes.")]

RequestsFile = Annotated[
    Path | None, typer.Option(help="Write a row a request there: .csv or .parquet.")
]


# ------------------------------------------------------------------------------- the groups


@dataclass(frozen=True)
class Load:
    """Requests that arrive, by the keywords of `OfferedLoad`."""

    concurrency: Concurrency = 0
    rate: Rate = 0.0
    trace: Trace = ""
    burstiness: Burstiness = 1.0
    ramp_to: RampTo = 0.0
    ramp_s: RampSeconds = 0.0
    requests: Requests = 0
    seed: Seed = 0


@dataclass(frozen=True)
class LengthsOfRequests:
    """Their lengths and sessions, likewise."""

    isl: Isl = 1024
    osl: Osl = 1024
    length_ratio: LengthRatio = 1.0
    length_spread: LengthSpread = 0.0
    lengths: Lengths = ""
    turns: Turns = 1
    think_s: ThinkTime = 0.0
    shared_tokens: SharedPrompt = 0


@dataclass(frozen=True)
class Targets:
    """What a request must meet to count as good [s]."""

    ttft_target: TtftTarget = 0.0
    tpot_target: TpotTarget = 0.0
    e2e_target: E2eTarget = 0.0


@dataclass(frozen=True)
class Deployment:
    """Router, replicas, and the options of their engine."""

    router: Router = "least-loaded"
    replicas: Replicas = 1
    max_num_seqs: MaxSequences = 0
    max_num_batched_tokens: TokenBudget = 0
    memory_fraction: MemoryFraction = 0.0
    kv_tokens: KvTokens = 0.0
    prefix_caching: PrefixCaching = True
    recv_interval: RecvInterval = 1
    scheduler: Scheduler = ""


@dataclass(frozen=True)
class PrefillPool:
    """Workers that read the prompts."""

    prefill_system: PrefillSystem = ""
    prefill_workers: PrefillWorkers = 0
    prefill_tp: PrefillTp = 1
    prefill_pp: PrefillPp = 1
    prefill_dp: PrefillDp = 1
    prefill_ep: PrefillEp = 1
    prefill_weights: PrefillWeights = ""
    transfer_gbps: TransferGbps = 0.0
    transfer_latency_us: TransferLatency = None
    layer_wise: LayerWise = False


@dataclass(frozen=True)
class Calibration:
    """A measured run, and whether what it says is kept."""

    measured_tpot: MeasuredTpot = 0.0
    measured: Measured = None
    save: Save = True
    forget: Forget = False


@dataclass(frozen=True)
class Fleet:
    """A file of simulations, and where they run."""

    points: Points = None
    output: Output = None
    workers: Workers = 0
    cluster: Cluster = ""

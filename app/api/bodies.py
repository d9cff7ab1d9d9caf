"""Bodies of requests: the keywords of `import ridgeline`, as JSON has them.

A text is a name and never a path.  Whether a value can be is for the functions below to say, in
the sentence of the command line; here stands only of which kind it is, and how many.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StringConstraints
from pydantic_core import PydanticCustomError

#: Configurations of one estimate, characters of a name, and of a trace.
MOST_ROWS, LONGEST_NAME, LONGEST_TRACE = 1_000, 300, 8_000_000
#: Rows of measured lengths, and devices or systems of one list.
MOST_LENGTHS, MOST_LISTED = 100_000, 64
_EXACT = 2.0**53


def _number(value: Any) -> float:
    """A finite number, whole ones as such."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError("number", "give a number")
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not math.isfinite(real):
        raise PydanticCustomError("number", "give a finite number")
    return int(real) if real.is_integer() and abs(real) <= _EXACT else real


def _numbers(value: Any) -> Any:
    if not isinstance(value, list):
        return _number(value)
    if not 1 <= len(value) <= MOST_ROWS:
        raise PydanticCustomError("numbers", f"give 1 to {MOST_ROWS:,} numbers")
    return [_number(entry) for entry in value]


def _pairs(value: Any) -> Any:
    """Rows of a prompt's and an answer's tokens."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_LENGTHS:
        raise PydanticCustomError("pairs", f"give 1 to {MOST_LENGTHS:,} rows of two numbers")
    for row in value:
        if not isinstance(row, list) or len(row) != 2:
            raise PydanticCustomError("pairs", "give rows of two numbers, prompt and answer")
    return [[_number(entry) for entry in row] for row in value]


Name = Annotated[str, StringConstraints(strict=True, max_length=LONGEST_NAME)]
Names = Name | Annotated[list[Name], Field(min_length=1, max_length=MOST_LISTED)]
Number = Annotated[Any, PlainValidator(_number, json_schema_input_type=float)]
Numbers = Annotated[Any, PlainValidator(_numbers, json_schema_input_type=float | list[float])]
Pairs = Annotated[Any, PlainValidator(_pairs, json_schema_input_type=list[list[float]])]
Text = Annotated[str, StringConstraints(strict=True, max_length=LONGEST_TRACE)]
Truth = Annotated[bool, Field(strict=True)]
Shares = Number | Name | Annotated[list[Number], Field(max_length=MOST_LISTED)]
Degrees = Number | Name | Annotated[list[Number], Field(max_length=MOST_ROWS)]
OnError = Literal["raise", "status"]


class Body(BaseModel):
    """A question; a field that no function has is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(Body):
    """An axis from one number to another; step: a number, or "x2" for doubling."""

    model_config = ConfigDict(populate_by_name=True)

    first: Number = Field(alias="from")
    last: Number = Field(alias="to")
    step: Number | Name = 1

    def plain(self) -> dict[str, Any]:
        return {"from": self.first, "to": self.last, "step": self.step}


Axis = Numbers | Range


class Formats(Body):
    """Number formats in place of the checkpoint's own."""

    weights: Name = ""
    moe_weights: Name = ""
    kv: Name = ""
    activations: Name = ""
    compute: Name = ""


class Inputs(Body):
    """Images and sound of each request."""

    images: Number = 0
    image_size: Name = ""
    audio_seconds: Number = 0.0


class Drafts(Body):
    """What drafts tokens."""

    speculation: Name = ""
    draft_tokens: Number | None = None
    draft_model: Name = ""
    acceptance: Shares = ""


class Split(Body):
    """How a model is split over devices."""

    tp: Numbers = 1
    pp: Numbers = 1
    dp: Numbers = 1
    ep: Numbers | None = None
    moe_tp: Numbers | None = None
    expert_imbalance: Numbers = 1.0
    redundant_experts: Numbers = 0
    overlap: Name = "none"


class Shared(Body):
    """What requests share, and the adapters that they name."""

    prefix_hits: Number = 0.0
    shared_tokens: Number = 0
    turns: Number = 1
    prefix_tier: Name = "device"
    samples: Number = 1
    beams: Number = 1
    lora_rank: Number = 0
    lora_adapters: Number = 1


class EstimateBody(Formats, Inputs, Split):
    """A static batch, as `ridgeline.estimate`; lists are configurations side by side.

    operators: also the operators of each step, of one configuration.
    """

    model: Name
    system: Name = "h100-sxm5-80gb"
    engine: Name = "generic"
    batch: Numbers = 1
    isl: Numbers = 1024
    osl: Numbers = 128
    diffusion_steps: Number = 0
    block_length: Number = 0
    cp: Numbers = 1
    offload: Name = ""
    on_error: OnError = "raise"
    operators: Truth = False


class ServeBody(Formats, Inputs, Drafts, Shared, Split):
    """A deployment under load, as `ridgeline.serve`; a trace is asked of simulate."""

    model: Name
    system: Name = "h100-sxm5-80gb"
    engine: Name = "vllm"
    concurrency: Numbers | None = None
    rate: Numbers | None = None
    isl: Numbers = 1024
    osl: Numbers = 1024
    length_ratio: Number = 1.0
    burst_start: Truth = False
    stream_interval: Numbers = 1
    recv_interval: Numbers = 1
    offload: Name = ""
    max_num_seqs: Number = 0
    max_num_batched_tokens: Number = 0
    on_error: OnError = "raise"


class SimulateBody(Formats, Drafts):
    """Requests served one by one, as `ridgeline.simulate`.

    trace: the text of a trace, CSV or JSON lines.  lengths: rows of prompt and answer tokens.
    """

    model: Name
    system: Name = "h100-sxm5-80gb"
    engine: Name = "vllm"
    concurrency: Number | None = None
    rate: Number | None = None
    trace: Text | None = None
    burstiness: Number = 1.0
    ramp_to: Number | None = None
    ramp_s: Number | None = None
    requests: Number | None = None
    isl: Number = 1024
    osl: Number = 1024
    length_ratio: Number = 1.0
    length_spread: Number = 0.0
    lengths: Pairs | None = None
    turns: Number = 1
    think_s: Number = 0.0
    shared_tokens: Number = 0
    seed: Number = 0
    router: Name = "least_loaded"
    replicas: Number = 1
    ttft_target_s: Number | None = None
    tpot_target_s: Number | None = None
    e2e_target_s: Number | None = None
    max_num_seqs: Number = 0
    max_num_batched_tokens: Number = 0
    memory_fraction: Number = 0.0
    kv_tokens: Number = 0.0
    prefix_caching: Truth = True
    recv_interval: Number = 1
    scheduler: Name = ""
    step_scale: Number | None = None
    prefill_system: Name = ""
    prefill_workers: Number = 0
    prefill_tp: Number = 1
    prefill_pp: Number = 1
    prefill_dp: Number = 1
    prefill_ep: Number = 1
    prefill_weights: Name = ""
    transfer_gbps: Number = 0.0
    transfer_latency_us: Number | None = None
    layer_wise: Truth = False
    tp: Number = 1
    pp: Number = 1
    dp: Number = 1
    ep: Number | None = None
    moe_tp: Number | None = None
    expert_imbalance: Number = 1.0
    redundant_experts: Number = 0
    overlap: Name = "none"


class SweepBody(Body):
    """Every combination of some axes, as `ridgeline.sweep`."""

    model: Names
    system: Names = "h100-sxm5-80gb"
    engine: Names = "generic"
    weights: Names = ""
    moe_weights: Names = ""
    kv: Names = ""
    activations: Names = ""
    compute: Names = ""
    on_error: OnError = "status"
    bounds_only: Truth = False
    batch: Axis | None = None
    concurrency: Axis | None = None
    rate: Axis | None = None
    isl: Axis | None = None
    osl: Axis | None = None
    tp: Axis | None = None
    pp: Axis | None = None
    dp: Axis | None = None
    ep: Axis | None = None
    moe_tp: Axis | None = None
    cp: Axis | None = None
    micro_batches: Axis | None = None
    stream_interval: Axis | None = None
    recv_interval: Axis | None = None
    max_num_seqs: Axis | None = None
    length_ratio: Axis | None = None
    expert_imbalance: Axis | None = None
    sequence_parallel: Truth | None = None


class PlanBody(Shared):
    """The best deployments for a load, as `ridgeline.plan`.  trace: the text of one.

    deployment: also the best one's files, for "kubernetes", "helm", "dynamo" or "llm-d".
    """

    model: Name
    systems: Names = "h100-sxm5-80gb"
    devices: Name | Number | Annotated[list[Number], Field(max_length=2)] = "1:8"
    engine: Names = ""
    rate: Number | None = None
    concurrency: Number | None = None
    trace: Text | None = None
    isl: Number = 1024
    osl: Number = 256
    length_ratio: Number = 1.0
    target: Name = ""
    rank: Name = ""
    confidence: Number = 0.0
    weights: Names = "checkpoint"
    kv: Names = "checkpoint"
    tp: Degrees = ""
    pp: Degrees = ""
    dp: Degrees = ""
    ep: Degrees = ""
    max_num_seqs: Degrees = ""
    kind: Names = ""
    cross_systems: Truth = False
    speculation: Names = ""
    draft_tokens: Number | None = None
    draft_model: Name = ""
    acceptance: Shares = ""
    offload: Names = ""
    price: Name | dict[Name, Number] = ""
    top: Number = 5
    simulate: Truth = True
    pays: Truth = False
    deployment: Name = ""


class CompareBody(Body):
    """What files are compared with, as `ridgeline compare`; what is not given is read from them."""

    model: Name = ""
    system: Name = ""
    engine: Name | None = None
    weights: Name | None = None
    moe_weights: Name | None = None
    kv: Name | None = None
    tp: Number | None = None
    pp: Number | None = None
    dp: Number | None = None
    ep: Number | None = None
    moe_tp: Number | None = None
    batch: Number | None = None
    isl: Number | None = None
    osl: Number | None = None
    concurrency: Number | None = None
    rate: Number | None = None
    length_ratio: Number | None = None
    phase: Name = ""
    steps: dict[Name, Number] = Field(default_factory=dict)
    fill: Truth = True
    level: Number = 80.0

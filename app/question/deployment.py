"""Parameters of a deployment: what runs where."""

from dataclasses import dataclass
from typing import Any, get_args

from app.question.groups import CACHE, DEGREES, DRAFTS, ENGINE, FORMATS, MODEL, POOL, WHAT_IF
from app.question.parameter import parameter
from genz_core.models.speculative import Method
from genz_core.serving.options import SCHEDULERS
from genz_core.steps.overlap import OVERLAPS

_DEVICES = 65_536
_TOKENS = 100_000_000


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What runs where: model, formats, system, engine and its limits, degrees, pools."""

    # ------------------------------------------------------------------------- model and system
    model: Any = parameter(
        "text", "meta-llama/Llama-3.1-8B",
        "Model: a registry name, a Hugging Face id or a config.json.",
        group=MODEL, names="model",
    )  # fmt: skip
    system: Any = parameter(
        "text", "h100-sxm5-80gb", "System: a slug, an alias or a YAML file.",
        group=MODEL, names="system", aliases=("systems",),
    )  # fmt: skip
    engine: Any = parameter(
        "text", "",
        'Serving engine: vllm, sglang, trtllm, llama.cpp, mlx, hf, generic; also "vllm 0.9". '
        "By default vllm if it runs on the system, mlx on Apple's, otherwise generic.",
        group=MODEL, names="engine",
    )  # fmt: skip
    engine_version: str = parameter(
        "text", "", "Version of the engine: a release (0.9.0), a build (b6918) or a month.",
        group=MODEL, label="Version",
    )  # fmt: skip

    # ------------------------------------------------------------------------- number formats
    weights: str = parameter(
        "text", "", "Weight format, or a pair such as w8a8; by default the checkpoint's.",
        group=FORMATS, aliases=("quantization",),
    )  # fmt: skip
    moe_weights: str = parameter(
        "text", "", "Weight format of the experts; by default `weights`.",
        group=FORMATS, label="Expert weights",
    )  # fmt: skip
    kv: str = parameter(
        "text", "", "KV cache format; by default the checkpoint's, else 16 bit.",
        group=FORMATS, label="KV cache", aliases=("kv_cache_dtype",),
    )  # fmt: skip
    activations: str = parameter(
        "text", "", "Activation format; by default the checkpoint's.", group=FORMATS
    )
    compute: str = parameter(
        "text", "", "Number format of the arithmetic; by default implied by the other formats.",
        group=FORMATS, label="Arithmetic",
    )  # fmt: skip

    # ------------------------------------------------------------------------- parallelism
    tp: int = parameter(
        "whole", 1, "Tensor-parallel degree.", limit="tp", array=True, group=DEGREES,
        label="TP", aliases=("tensor_parallel_size",),
    )  # fmt: skip
    pp: int = parameter(
        "whole", 1, "Pipeline-parallel degree (stages).", limit="pp", array=True, group=DEGREES,
        label="PP", aliases=("pipeline_parallel_size",),
    )  # fmt: skip
    dp: int = parameter(
        "whole", 1, "Attention data-parallel degree.", limit="dp", array=True, group=DEGREES,
        label="DP", aliases=("data_parallel_size",),
    )  # fmt: skip
    ep: int = parameter(
        "whole", None, "Expert-parallel degree; by default 1, or tp x dp / moe_tp.",
        limit="ep", array=True, group=DEGREES, label="EP", aliases=("expert_parallel_size",),
    )  # fmt: skip
    moe_tp: int | None = parameter(
        "whole", None, "Tensor-parallel degree of the experts; by default tp x dp / ep.",
        limit="moe_tp", array=True, group=DEGREES,
    )  # fmt: skip
    cp: int = parameter(
        "whole", 1, "Context-parallel degree of prefill.", limit="cp", array=True, group=DEGREES,
        label="CP",
    )  # fmt: skip
    micro_batches: int = parameter(
        "whole", 0, "Micro-batches per pipeline step; 0: one per stage.", most=_TOKENS, array=True,
        group=DEGREES,
    )  # fmt: skip
    sequence_parallel: bool = parameter(
        "truth", False,
        "Sequence parallelism: tensor-parallel ranks split the norms over the sequence.",
        group=DEGREES,
    )  # fmt: skip
    expert_imbalance: float = parameter(
        "number", 1.0, "Tokens routed to the busiest expert rank over the mean of all ranks.",
        least=1.0, most=1e6, array=True, group=DEGREES, label="Busiest expert rank",
    )  # fmt: skip
    redundant_experts: int = parameter(
        "whole", 0,
        "Redundant copies of experts on the decode workers; ep must divide experts plus copies.",
        most=_DEVICES, array=True, group=DEGREES, aliases=("ep_num_redundant_experts",),
    )  # fmt: skip
    overlap: str = parameter(
        "text", "none", "What overlaps with the all-to-all between expert ranks.",
        choices=OVERLAPS, group=DEGREES,
    )  # fmt: skip
    placement: str = parameter(
        "text", "",
        'Placement of the parallelism degrees on the devices, innermost first: "pp tp".',
        group=DEGREES,
    )  # fmt: skip
    replicas: int = parameter(
        "whole", 1, "Identical replicas of the deployment behind one router.", least=1, most=1024,
        group=DEGREES,
    )  # fmt: skip
    router: str = parameter(
        "text", "least_loaded", "How the router chooses the replica or rank of a request.",
        choices=("least_loaded", "round_robin", "prefix"), group=DEGREES,
    )  # fmt: skip
    front_ends: int = parameter(
        "whole", 1,
        "Independent front ends, each with its own round-robin counter (router round_robin).",
        least=1, most=1024, group=DEGREES,
    )  # fmt: skip

    # ------------------------------------------------------------------------- engine limits
    max_num_seqs: int = parameter(
        "whole", 0, "Maximum sequences per step and rank; 0: the engine's default.",
        limit="max_num_seqs", optional=True, array=True, group=ENGINE,
        aliases=("max_sequences", "max_running_requests", "max_batch_size"),
    )  # fmt: skip
    max_num_batched_tokens: int = parameter(
        "whole", 0, "Maximum tokens per step and rank; 0: the engine's default.",
        limit="max_num_batched_tokens", optional=True, array=True, group=ENGINE,
        aliases=("token_budget", "chunked_prefill_size", "max_num_tokens"),
    )  # fmt: skip
    chunked_prefill: str = parameter(
        "text", "",
        "Whether a prompt that does not fit into a step is prefilled in chunks; by default as in "
        "the engine.",
        choices=("", "yes", "no"), also=("truth",), group=ENGINE,
        aliases=("enable_chunked_prefill", "enable_chunked_context"),
    )  # fmt: skip
    memory_fraction: float = parameter(
        "number", 0.0, "Share of device memory that the engine uses; 0: the engine's default.",
        most=1.0, group=ENGINE,
        aliases=("gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction"),
    )  # fmt: skip
    kv_tokens: float = parameter(
        "number", 0.0, "KV cache size of one rank in tokens; 0: what fits into memory.", most=1e12,
        label="KV tokens", group=ENGINE, aliases=("max_total_tokens",),
    )  # fmt: skip
    prefix_caching: bool = parameter(
        "truth", True, "Reuse the KV cache of equal prompt prefixes.", group=ENGINE,
        aliases=("enable_prefix_caching",),
    )  # fmt: skip
    stream_interval: int = parameter(
        "whole", 1, "Tokens that the engine collects before it streams them to the client.",
        limit="stream_interval", array=True, group=ENGINE,
    )  # fmt: skip
    recv_interval: int = parameter(
        "whole", 1, "Decode steps between two checks of the scheduler for new requests.",
        limit="recv_interval", array=True, group=ENGINE, aliases=("scheduler_recv_interval",),
    )  # fmt: skip
    batch_wait: int = parameter(
        "whole", 0,
        "Most decode steps for which prompts wait; they are prefilled earlier once every attention "
        "rank has one, or on a single rank once they fill a step.",
        limit="batch_wait", array=True, group=ENGINE,
        aliases=("batch_wait_timeout_iters", "timeout_iters"),
    )  # fmt: skip
    scheduler: str = parameter(
        "text", "", "Scheduling policy; by default the engine's.",
        choices=("", *SCHEDULERS), group=ENGINE,
    )  # fmt: skip
    step_scale: float | None = parameter(
        "number", None,
        "Factor on all step times, measured over predicted; by default your calibration, if there "
        "is one.", above=True, most=1e3, group=ENGINE,
    )  # fmt: skip
    offload: str = parameter(
        "text", "",
        "What is moved if the model does not fit: weights, kv or experts to host memory; levels: "
        "weights and cache are spread over the device's two memories.",
        choices=("", "weights", "kv", "experts", "levels"), group=ENGINE,
    )  # fmt: skip
    lora_rank: int = parameter(
        "whole", 0, "Rank of the requests' LoRA adapters; 0: no adapters.", most=4096, group=ENGINE,
    )  # fmt: skip
    lora_adapters: int = parameter(
        "whole", 1, "Number of LoRA adapters in equal use.", least=1, most=10_000,
        group=ENGINE,
    )  # fmt: skip

    # ------------------------------------------------------------------------- cache tiers
    host_cache_gib: float = parameter(
        "number", 0.0,
        "Host memory for cached prefixes, in total over the devices of one deployment; 0: none.",
        unit="GiB", most=1e9, label="Host cache", group=CACHE, aliases=("kv_offloading_size",),
    )  # fmt: skip
    disk_cache_gib: float = parameter(
        "number", 0.0, "Disk space for cached prefixes of one deployment; 0: none.", unit="GiB",
        most=1e9, label="Disk cache", group=CACHE,
    )  # fmt: skip
    remote_cache_gib: float = parameter(
        "number", 0.0,
        "Memory of other machines for cached prefixes, shared by all replicas; 0: none.",
        unit="GiB", most=1e9, label="Remote cache", group=CACHE,
    )  # fmt: skip
    host_cache_gb_per_s: float = parameter(
        "number", 0.0, "Bandwidth at which a device reads host memory; 0: the system's host link.",
        unit="GB/s", most=1e6, label="Host cache bandwidth", group=CACHE,
    )  # fmt: skip
    disk_cache_gb_per_s: float = parameter(
        "number", 0.0, "Bandwidth at which a device reads the disk; 0: the system's drive.",
        unit="GB/s", most=1e6, label="Disk cache bandwidth", group=CACHE,
    )  # fmt: skip
    remote_cache_gb_per_s: float = parameter(
        "number", 0.0,
        "Bandwidth at which a device reads other machines' memory; 0: the system's outermost link.",
        unit="GB/s", most=1e6, label="Remote cache bandwidth", group=CACHE,
    )  # fmt: skip
    cache_writes: str = parameter(
        "text", "through",
        "When blocks are written to a tier. through: as soon as they are computed; back: when the "
        "tier above evicts them.",
        choices=("through", "back"), group=CACHE, aliases=("hicache_write_policy",),
    )  # fmt: skip

    # ------------------------------------------------------------------------- drafts
    speculation: str = parameter(
        "text", "", "Speculative decoding method.",
        choices=("", *get_args(Method)), group=DRAFTS,
    )  # fmt: skip
    draft_tokens: int | None = parameter(
        "whole", None, "Draft tokens per step; 0: none; by default 3.", most=64, group=DRAFTS,
        aliases=("num_speculative_tokens",),
    )  # fmt: skip
    draft_model: Any = parameter(
        "text", "", "Draft model, named like `model`.", group=DRAFTS, names="model",
    )  # fmt: skip
    acceptance: Any = parameter(
        "text", "",
        'Acceptance rate of draft tokens: "0.8", or one rate per position "0.9,0.7,0.5"; '
        "by default as measured.",
        group=DRAFTS, also=("number", "numbers"),
    )  # fmt: skip

    # ------------------------------------------------------------------------- prefill pool
    prefill_system: Any = parameter(
        "text", "", "System of the prefill workers; by default `system`.",
        group=POOL, names="system",
    )  # fmt: skip
    prefill_workers: int = parameter(
        "whole", 0, "Number of separate prefill workers; `replicas` then only decode.", most=1024,
        group=POOL,
    )  # fmt: skip
    prefill_tp: int = parameter(
        "whole", 1, "Tensor-parallel degree of a prefill worker.", limit="tp",
        label="Prefill TP", group=POOL,
    )  # fmt: skip
    prefill_pp: int = parameter(
        "whole", 1, "Pipeline-parallel degree of a prefill worker.", limit="pp",
        label="Prefill PP", group=POOL,
    )  # fmt: skip
    prefill_dp: int = parameter(
        "whole", 1, "Attention data-parallel degree of a prefill worker.", limit="dp",
        label="Prefill DP", group=POOL,
    )  # fmt: skip
    prefill_ep: int = parameter(
        "whole", 1, "Expert-parallel degree of a prefill worker.", limit="ep",
        label="Prefill EP", group=POOL,
    )  # fmt: skip
    prefill_moe_tp: int | None = parameter(
        "whole", None, "Tensor-parallel degree of a prefill worker's experts; by default "
        "prefill_tp x prefill_dp / prefill_ep.",
        limit="moe_tp", label="Prefill MoE TP", group=POOL,
    )  # fmt: skip
    prefill_weights: str = parameter(
        "text", "", "Weight format of the prefill workers; by default `weights`.", group=POOL,
    )  # fmt: skip
    transfer_gbps: float = parameter(
        "number", 0.0,
        "Bandwidth of the KV cache transfer from prefill to decode; 0: the link of the systems.",
        unit="Gbit/s per device", most=1e6, label="Transfer", group=POOL,
    )  # fmt: skip
    transfer_latency_us: float | None = parameter(
        "number", None, "Latency of each KV cache transfer; by default that of the link.",
        unit="µs", most=1e9, label="Transfer latency", group=POOL,
    )  # fmt: skip
    layer_wise: bool = parameter(
        "truth", False, "Send each layer's KV cache while later layers run.",
        label="Layer by layer", group=POOL,
    )  # fmt: skip

    # ------------------------------------------------------------------------- what if
    peak: float = parameter(
        "number", 1.0, "What-if factor on the system's peak FLOP/s.", above=True, most=1e3,
        group=WHAT_IF, label="Peak arithmetic",
    )  # fmt: skip
    bandwidth: float = parameter(
        "number", 1.0, "What-if factor on the system's memory bandwidth.", above=True, most=1e3,
        group=WHAT_IF, label="Memory bandwidth",
    )  # fmt: skip
    capacity: float = parameter(
        "number", 1.0, "What-if factor on the system's memory capacity.", above=True, most=1e3,
        group=WHAT_IF, label="Memory capacity",
    )  # fmt: skip
    link: float = parameter(
        "number", 1.0, "What-if factor on the system's link bandwidth.", above=True, most=1e3,
        group=WHAT_IF, label="Link bandwidth",
    )  # fmt: skip

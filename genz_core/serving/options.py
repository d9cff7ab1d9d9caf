"""Settings that a user gives to an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from genz_core.engine import EngineProfile
from genz_core.serving.cache_tiers import CacheTier, Writes

#: Names of the scheduling policies that an engine or an option may choose.
SCHEDULERS = ("vllm", "sglang", "tensorrt_llm", "static")


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that a user gives to an engine, 0 and None for its default.

    max_num_seqs, max_num_batched_tokens: most sequences and tokens in a step of a rank.
    memory_fraction: see `with_memory`.  kv_tokens: capacity of a rank's cache, instead of what
    fits.  prefix_caching: equal prefixes are shared.  recv_interval: decode steps between two looks
    at new requests.  batch_wait: see `Traffic`.
    scheduler: a policy from `SCHEDULERS`, instead of the engine's own.  tiers: of cached prefixes
    below the device, the fastest first; cache_writes: when they are written.  step_scale: measured
    over priced time of a step; None for the scale of the engine's recipe, if the built-in tables
    give the price.  prompt_scale: additional scale of the time that prompts add to a step.  wait_s:
    wait of a request before it reaches the engine, in addition to the engine's own.
    """

    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    memory_fraction: float = 0.0
    kv_tokens: float = 0.0
    prefix_caching: bool = True
    recv_interval: int = 1
    batch_wait: int = 0
    scheduler: str = ""
    tiers: tuple[CacheTier, ...] = ()
    cache_writes: Writes = "through"
    step_scale: float | None = None
    prompt_scale: float = 1.0
    wait_s: float = 0.0

    def with_memory(self, engine: EngineProfile) -> EngineProfile:
        """The engine with the given `memory_fraction`, if it is not 0.

        It is of the whole device (vLLM's gpu_memory_utilization, SGLang's mem_fraction_static), or
        of the memory that the weights leave free (TensorRT-LLM's free_gpu_memory_fraction).
        """
        if not self.memory_fraction:
            return engine
        if engine.scheduler == "tensorrt_llm":
            return replace(engine, free_share=self.memory_fraction)
        return replace(engine, memory_fraction=self.memory_fraction)

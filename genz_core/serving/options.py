"""What an operator tells an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from genz_core.engine import EngineProfile
from genz_core.serving.cache_tiers import CacheTier, Writes

#: Names of the policies that an engine or an option may choose.
SCHEDULERS = ("vllm", "sglang", "tensorrt_llm", "static")


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator tells an engine, 0 and None for its default.

    max_num_seqs, max_num_batched_tokens: sequences and tokens of a step and rank at most.
    memory_fraction: see `with_memory`.  kv_tokens: that the cache of a rank holds,
    in place of what fits.  prefix_caching: equal prefixes are shared.  recv_interval: decode steps
    between two looks at new requests.  batch_wait: see `Traffic`.
    scheduler: a policy in place of the engine's own, of
    `SCHEDULERS`.  tiers: of cached prefixes below the device, the fastest first; cache_writes: when
    they are written.  step_scale: measured over priced time of a step;
    None for that of the engine's recipe where our own tables are the price.  prompt_scale: of what
    prompts add to a step, on top.  wait_s: of a request before the engine has it, on top of the
    engine's own.
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
        """The engine with its part of the memory as it was told: `memory_fraction`, if not 0.

        It is of the whole device (vLLM's gpu_memory_utilization, SGLang's mem_fraction_static), or
        of what the weights leave free (TensorRT-LLM's free_gpu_memory_fraction).
        """
        if not self.memory_fraction:
            return engine
        if engine.scheduler == "tensorrt_llm":
            return replace(engine, free_share=self.memory_fraction)
        return replace(engine, memory_fraction=self.memory_fraction)

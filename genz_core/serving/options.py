"""What an operator tells an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from genz_core.engine import EngineProfile


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator tells an engine, 0 and None for its default.

    max_num_seqs, max_num_batched_tokens: sequences and tokens of a step and rank at most.
    memory_fraction: of a device that the engine takes.  kv_tokens: that the cache of a rank holds,
    in place of what fits.  prefix_caching: equal prefixes are shared.  recv_interval: decode steps
    between two looks at new requests.  scheduler: a policy in place of the engine's own, of
    `genz_core.serving.simulation.SCHEDULERS`.  step_scale: measured over priced time of a step;
    None for that of the engine's recipe where our own tables are the price.
    """

    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    memory_fraction: float = 0.0
    kv_tokens: float = 0.0
    prefix_caching: bool = True
    recv_interval: int = 1
    scheduler: str = ""
    step_scale: float | None = None

    def applied(self, engine: EngineProfile) -> EngineProfile:
        """The engine with these limits of a step and this part of the memory."""
        return replace(
            engine,
            max_sequences=self.max_num_seqs or engine.max_sequences,
            chunk_tokens=self.max_num_batched_tokens or engine.chunk_tokens,
            memory_fraction=self.memory_fraction or engine.memory_fraction,
        )

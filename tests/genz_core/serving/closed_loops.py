"""Closed loops of the small model under a plain engine, and random ones."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from genz_core.engine import EngineProfile
from genz_core.serving import Traffic, serve

ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9)


def closed(model, system, users, engine=ENGINE, **lengths):
    return serve(model, system, Traffic(concurrency=users, **lengths), engine=engine)


def requests_per_s(served):
    return served.output_tokens_per_s / served.osl


@st.composite
def loads(draw):
    """A closed loop: users, prompt, output, length ratio, engine."""
    engine = replace(
        ENGINE,
        mixed_steps=draw(st.booleans()),
        scheduler=draw(st.sampled_from(["vllm", "tensorrt_llm"])),
        chunk_tokens=draw(st.sampled_from([0, 512, 8192])),
        max_sequences=draw(st.sampled_from([4, 64, 1024])),
        host_request_s=draw(st.sampled_from([0.0, 3e-3])),
    )
    lengths = {
        "isl": draw(st.integers(1, 8000)),
        "osl": draw(st.integers(1, 4000)),
        "length_ratio": draw(st.sampled_from([0.5, 0.8, 1.0])),
    }
    return engine, lengths

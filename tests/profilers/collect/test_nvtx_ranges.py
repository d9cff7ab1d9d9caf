"""Ranges of phases and modules: their own domain and colours, opened and closed in pairs."""

from __future__ import annotations

from typing import Any

import pytest

from profilers.collect import nvtx_ranges
from profilers.collect.measured_model import RunSettings
from profilers.collect.model import run_model

nvtx = pytest.importorskip("nvtx")


class Listener:
    """A domain that records what a tool would see; without a tool NVTX returns a dummy."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.open: list[str] = []
        self.deepest = 0

    def get_event_attributes(self, message: str, color: int) -> tuple[str, int]:
        return message, color

    def push_range(self, attributes: tuple[str, int]) -> None:
        self.seen.append(attributes)
        self.open.append(attributes[0])
        self.deepest = max(self.deepest, len(self.open))

    def pop_range(self) -> None:
        self.open.pop()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch):
    domains: dict[str, Listener] = {}
    monkeypatch.setattr(nvtx, "get_domain", lambda name: domains.setdefault(name, Listener()))
    nvtx_ranges._ranges.cache_clear()
    yield domains
    nvtx_ranges._ranges.cache_clear()


def test_phases_and_modules_have_ranges_on_a_cpu_too(
    tiny_llama: dict[str, Any], listener: dict[str, Listener]
) -> None:
    settings = RunSettings(
        tiny_llama, isl=8, osl=3, device="cpu", warmup=0, repeats=1, profile=False,
        nvtx_modules=True,
    )  # fmt: skip
    run_model(settings)
    (domain,) = listener.values()
    assert list(listener) == ["ridgeline"] and not domain.open
    names = [name for name, _ in domain.seen]
    assert names.count("prefill") == 1 and names.count("decode") == 2
    assert names.count("model.layers.0.self_attn.q_proj") == 3
    colors = dict(domain.seen)
    assert colors["prefill"] == nvtx_ranges.COLORS["prefill"] != colors["decode"]
    assert domain.deepest >= 5, "modules nest inside the phases"


def test_without_a_tool_ranges_are_free_of_errors() -> None:
    nvtx_ranges._ranges.cache_clear()
    with nvtx_ranges.phase_range("prefill"), nvtx_ranges.phase_range("anything"):
        pass

"""Speed of tracing: at most 0.4 s in the median after import, and 500 MB."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from time import perf_counter
from typing import Any

import pytest

from model_registry.finding.catalog import shipped_models
from model_registry.tracing import trace

pytestmark = pytest.mark.benchmark

SOME = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-405B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-R1",
    "moonshotai/Kimi-K2-Instruct",
    "deepseek-ai/DeepSeek-V4-Pro",
)


def traced(name: str) -> Any:
    return trace(shipped_models()[name].config(), use_cache=False)


@pytest.fixture(autouse=True)
def imported() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    traced("meta-llama/Llama-3.1-8B")


@pytest.mark.parametrize("name", SOME)
def test_tracing_a_model(name: str, benchmark: Any) -> None:
    model = benchmark(traced, name)
    assert model.parameters > 1e9


def every() -> tuple[list[float], int]:
    """Seconds of each trace after import, and the memory of this process afterwards [bytes]."""
    import psutil

    from genz_core.errors import RidgelineError

    traced(SOME[0])
    times = []
    for name in shipped_models():
        start = perf_counter()
        try:
            traced(name)
        except RidgelineError:
            continue
        times.append(perf_counter() - start)
    return times, psutil.Process().memory_info().rss


def every_alone() -> tuple[list[float], int]:
    """`every` in a new process, so that nothing that ran before is counted."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(every).result()


def test_the_median_trace_of_all_shipped_models_and_its_memory(benchmark: Any) -> None:
    times, held_bytes = benchmark.pedantic(every_alone, rounds=1)
    assert median(times) < 0.4
    assert held_bytes < 500e6

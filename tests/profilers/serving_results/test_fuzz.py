"""Reading any result file ends in measurements or in the typed error, in bounded time and
memory.
"""

import random
import resource
import time
from pathlib import Path

import pytest

from genz_core.errors import ReportError
from profilers.serving_results import is_result, read_results, table
from tests.draws import cases, seed
from tests.profilers.fuzz.mutations import mutated

CASES = cases(300)
MAX_SECONDS = 5.0  # processor time, so a busy machine does not fail the test
MAX_RESIDENT_BYTES = 600e6


@pytest.mark.draws
def test_damaged_copies_are_read_or_refused_in_a_sentence(results: Path, tmp_path: Path) -> None:
    seeds = [path.read_bytes() for path in sorted(results.rglob("*.*")) if path.suffix != ".md"]
    seeds += [(results / "llama_bench" / "llama-bench_qwen2_7b.md").read_bytes()]
    rng = random.Random(seed(20261122))
    path = tmp_path / "result"
    refused = foreseen = 0
    before = _peak_kib()
    for _ in range(CASES):
        data = rng.choice(seeds)
        other = rng.choice(seeds)
        path.write_bytes(
            data[: rng.randrange(len(data))] if rng.random() < 0.4 else mutated(data, other, rng)
        )
        started = time.process_time()
        is_result(path)
        try:
            table(read_results(path))
        except ReportError as error:
            refused += 1
            foreseen += "no reader foresaw" not in str(error)
            assert "\n" not in str(error) and len(str(error)) <= 600
        assert time.process_time() - started < MAX_SECONDS
    assert refused > CASES / 5
    assert foreseen > 0.97 * refused
    assert (_peak_kib() - before) * 1024 < MAX_RESIDENT_BYTES


@pytest.mark.parametrize("damage", [b"a,\rb", b'a,"' + b"x" * 200_000])
def test_a_first_line_that_is_no_row_is_refused(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "result").write_bytes(damage + b"\n1,2\n")
    with pytest.raises(ReportError):
        read_results(tmp_path / "result")


def test_a_truncated_file_is_named(results: Path, tmp_path: Path) -> None:
    named = {
        "aiperf/profile_export_aiperf.json": "as a result of aiperf",
        "llama_bench/llama-bench_rtx4080.json": "as a result of llama-bench",
        "guidellm/report_v2.json": "as a result of guidellm",
        "vllm/llama405b_16qps_first40.json": "as a result of vllm bench serve",
    }
    for name, words in named.items():
        data = (results / name).read_bytes()
        path = tmp_path / "cut.json"
        path.write_bytes(data[: len(data) * 3 // 5])
        assert is_result(path)
        try:
            read_results(path)
        except ReportError as error:
            assert words in str(error) and "cut off" in str(error)
        else:
            raise AssertionError(name)


def _peak_kib() -> int:
    """Peak memory of this process, including what ran in it before."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

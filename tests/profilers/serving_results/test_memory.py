"""Long files stream: what is held does not grow with what a record holds."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from profilers.serving_results import read_results
from profilers.serving_results.compact_json import lean_json
from profilers.serving_results.fields import number_or_infinity
from profilers.serving_results.samples import Samples


@pytest.mark.slow
def test_records_stream_in_a_fraction_of_the_file(results: Path, tmp_path: Path) -> None:
    line = (results / "aiperf" / "profile_export.jsonl").read_text().splitlines()[0]
    path = tmp_path / "records.jsonl"
    path.write_text(f"{line}\n" * 6000)
    read_results(results / "aiperf" / "profile_export.jsonl")
    tracemalloc.start()
    [found] = read_results(path)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.itl_s.count == 6000 * 199 and found.load.requests == 6000
    assert path.stat().st_size > 20e6 and held < 50e6


def test_a_million_gaps_are_summed_up_within_half_a_percent() -> None:
    draws = np.random.default_rng(1).lognormal(-4, 0.5, 300_000)
    exact, folded = Samples(), Samples(most_exact=1000)
    exact.add(draws)
    folded.add(draws)
    assert exact.exact and not folded.exact
    one, other = exact.percentiles(), folded.percentiles()
    assert other.mean == pytest.approx(one.mean) and other.std == pytest.approx(one.std)
    for percent in (50.0, 90.0, 99.0):
        assert other.at[percent] == pytest.approx(one.at[percent], rel=0.006)


def test_long_lines_are_streamed_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {
        "backend": "sglang", "request_rate": float("inf"), "completed": 2, "duration": 4.0,
        "total_output_tokens_retokenized": 9, "total_input_tokens": 20, "total_output_tokens": 10,
        "mean_ttft_ms": 150.0, "input_lens": [10, 10], "output_lens": [5, 5],
        "ttfts": [0.1, 0.2], "itls": [[0.01] * 4, [0.02] * 4], "generated_texts": ["x" * 900] * 2,
    }  # fmt: skip
    path = tmp_path / "details.jsonl"
    path.write_text("".join(json.dumps(record | {"duration": s}) + "\n" for s in (4.0, 5.0, 6.0)))
    at_once = read_results(path)
    monkeypatch.setattr("profilers.serving_results.documents._AT_ONCE_BYTES", 500)
    streamed = read_results(path)
    assert [found.load.duration_s for found in streamed] == [4.0, 5.0, 6.0]
    for one, other in zip(at_once, streamed, strict=True):
        assert one.itl_s == other.itl_s and one.load == other.load
        assert other.requests is not None and other.requests.equals(one.requests)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_large_document_is_the_same_in_any_pieces(size: int) -> None:
    document = {"a": [1.5, 2, 3], "b": [[1.0], []], "c": ["x", None, 2], "inf": float("inf")}
    text = json.dumps(document).encode()
    found = lean_json(text[at : at + size] for at in range(0, len(text), size))
    assert list(found["a"]) == [1.5, 2.0, 3.0] and [list(e) for e in found["b"]] == [[1.0], []]
    assert found["c"] == ["x", None, 2.0]
    assert number_or_infinity(found["inf"]) == float("inf")

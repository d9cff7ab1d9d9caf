"""Runs that send all requests at once: how they are simulated, and errors by any column."""

import math

import numpy as np
import pytest

from app.accuracy import saturated_runs
from app.simulation import points
from app.simulation.result import simulate

#: Two of each engine, one of them with prompts as long as TensorRT-LLM's default step.
BY_DAY = (
    "dstack-benchmarks-t001", "dstack-benchmarks-t009", "trtllm-perf-overview-t021",
    "trtllm-perf-overview-t090",
)  # fmt: skip


@pytest.fixture(scope="module")
def some():
    """A few runs and their records."""
    runs = [row for row in saturated_runs.measured() if row["id"] in BY_DAY]
    return runs, saturated_runs.records(runs)


def test_a_run_is_simulated_from_its_first_request_to_the_end_of_its_last(some):
    """The rate is over that time, as the benchmarks report it."""
    for row, record in zip(*some, strict=True):
        run = simulate(points.parse(saturated_runs.as_run(row))).run
        answers, requests = run.simulation, run.simulation.requests
        assert (len(requests), set(answers.arrival_s)) == (int(row["requests"]), {0.0})
        assert run.question.chunked_prefill == ("yes" if row["engine"] == "trtllm" else "")
        tokens, seconds = requests.output_tokens.sum(), np.max(answers.e2e_s)
        assert record["predicted_output_tokens_per_s"] == pytest.approx(tokens / seconds, rel=1e-3)
        measured = float(row["measured_output_tokens_per_s"])
        assert record["error"] == pytest.approx(tokens / seconds / measured - 1.0, abs=1e-2)


def test_cut_prompts_of_a_whole_step_are_within_a_tenth_of_what_was_measured(some):
    """Whole ones would be served one at a time, at a fourth of that rate."""
    row, record = (of[2] for of in some)
    assert (row["isl"], row["chunked_prefill"]) == ("8192", "yes")
    assert abs(record["error"]) < 0.1
    whole = saturated_runs.record({**row, "chunked_prefill": "no"})
    assert whole["predicted_output_tokens_per_s"] < 0.25 * record["measured_output_tokens_per_s"]


@pytest.mark.slow
def test_every_run_is_simulated():
    found = saturated_runs.records()
    assert len(found) == 82 and {record["status"] for record in found} == {"ok"}


def test_errors_are_averaged_by_group_the_largest_group_first():
    predicted = {"a": (90.0, 130.0), "b": (50.0,)}
    records = [
        {"engine": name, "predicted_output_tokens_per_s": value,
         "measured_output_tokens_per_s": 100.0}
        for name, values in predicted.items()
        for value in values
    ]  # fmt: skip
    first, second = saturated_runs.error_table(records, ("engine",))
    assert first == {
        "engine": "a", "runs": 2, "mean %": 20.0, "median %": 20.0, "bias %": 10.0,
        "within 20 %": 50.0,
    }  # fmt: skip
    assert (second["engine"], second["mean %"]) == ("b", 50.0)
    assert saturated_runs.error_table(records)[0]["runs"] == 3


def test_the_worst_are_furthest_as_ratios(some):
    furthest = saturated_runs.worst(some[1], 3)
    ratios = [abs(math.log1p(record["error"])) for record in furthest]
    assert ratios == sorted(ratios, reverse=True) and len(ratios) == 3
    assert ratios[0] == max(abs(math.log1p(record["error"])) for record in some[1])


@pytest.mark.slow
def test_the_command_prints_all_runs_and_groups_of_them(printed):
    tables = printed("validate", "throughput", "--worst", "2").strip().split("\n\n")
    assert len(tables) == 2 + len(saturated_runs.BY)
    assert tables[0].split()[0] == "runs" and len(tables[-1].splitlines()) == 3


def test_an_unknown_column_is_named_before_anything_is_simulated(printed):
    with pytest.raises(Exception, match="no column 'colour'"):
        printed("validate", "throughput", "--by", "colour")

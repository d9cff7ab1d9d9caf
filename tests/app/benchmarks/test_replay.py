"""Requests of a result through the simulation."""

import numpy as np
import pandas as pd
import pytest

from app.benchmarks.deployment import deployment
from app.benchmarks.replay import replay
from app.benchmarks.simulation import simulate
from genz_core.errors import InvalidValue
from tests.app.benchmarks.conftest import HARDWARE, RUN


def with_requests(read, table, **changes):
    import dataclasses

    measurement = read({**RUN, **changes})
    columns = {"tpot_s": np.nan, "ok": True}
    return dataclasses.replace(measurement, requests=pd.DataFrame(table).assign(**columns))


@pytest.fixture
def listed(read):
    """Sixty requests at two per second with the simulation's own latencies."""
    rng = np.random.default_rng(1)
    table = {
        "arrival_s": np.sort(rng.uniform(0, 30, 60)),
        "isl": rng.integers(100, 2000, 60).astype(float),
        "osl": rng.integers(10, 200, 60).astype(float),
        "ttft_s": 1.0, "e2e_s": 2.0,
    }  # fmt: skip
    table["arrival_s"] -= table["arrival_s"][0]
    first = replay(deployment(with_requests(read, table), HARDWARE)).table
    table |= {"ttft_s": first["ttft_simulated_s"], "e2e_s": first["e2e_simulated_s"]}
    return table


def test_a_run_that_went_as_simulated_parts_nowhere(read, listed):
    one = replay(deployment(with_requests(read, listed), HARDWARE))
    assert one.arrivals == "of the file" and not one.partings
    assert np.allclose(one.table["ttft_ratio"], 1.0) and np.allclose(one.table["e2e_ratio"], 1.0)
    assert np.allclose(one.table["arrival_s"], listed["arrival_s"])
    assert (one.table["isl"] == listed["isl"]).all()


def test_where_a_run_parts_in_time_is_found(read, listed):
    late = listed["arrival_s"] > 20.0
    slow = {**listed, "ttft_s": np.where(late, listed["ttft_s"] * 3.0, listed["ttft_s"])}
    one = replay(deployment(with_requests(read, slow), HARDWARE))
    [parting] = [p for p in one.partings if p.latency == "ttft"]
    assert parting.axis == "arrival_s" and parting.value == pytest.approx(20.0, abs=1.0)
    assert (parting.before, parting.after) == pytest.approx((1.0, 3.0))
    assert "arrived after" in parting.sentence


def test_where_long_prompts_part_is_found(read, listed):
    long = np.asarray(listed["isl"]) > 1500
    slow = {**listed, "ttft_s": np.where(long, listed["ttft_s"] * 2.0, listed["ttft_s"])}
    one = replay(deployment(with_requests(read, slow), HARDWARE))
    [parting] = [p for p in one.partings if p.latency == "ttft"]
    assert parting.axis == "isl" and 1300 < parting.value <= 1500


def test_without_arrivals_a_closed_loop_sends_the_requests_in_order(read, listed):
    unknown = {**listed, "arrival_s": np.nan}
    one = replay(deployment(with_requests(read, unknown), HARDWARE))
    assert one.arrivals == "one after another"
    assert (one.table["isl"] == listed["isl"]).all()
    assert (one.table["arrival_s"] == 0.0).sum() == 8
    assert one.table["arrival_s"].is_monotonic_increasing


def test_without_arrivals_a_rate_says_that_it_draws_them(read, listed):
    unknown = {**listed, "arrival_s": np.nan}
    measurement = with_requests(read, unknown, request_rate=2.0, max_concurrency=None)
    one = replay(deployment(measurement, HARDWARE))
    assert one.arrivals == "drawn" and not one.partings
    assert any("drawn anew" in words for words in one.notes)


def test_listed_lengths_are_those_that_are_simulated(read, listed):
    measurement = with_requests(read, listed)
    requests = simulate(deployment(measurement, HARDWARE)).run.drawn.requests
    assert set(requests.input_tokens) <= set(listed["isl"])


def test_a_file_without_requests_says_how_to_save_them(read):
    with pytest.raises(InvalidValue, match="--save-detailed"):
        replay(deployment(read(RUN), HARDWARE))


def test_the_command_replays_every_request(answer):
    document = answer(
        "compare", "tests/fixtures/results/vllm/llama405b_16qps_first40.json", "--system", "h100",
        "--tp", "8", "--replay",
    )  # fmt: skip
    [one] = document["replays"]
    assert one["requests"] == len(one["rows"]) > 20
    assert {"isl", "osl", "ttft_measured_s", "ttft_simulated_s"} <= set(one["rows"][0])

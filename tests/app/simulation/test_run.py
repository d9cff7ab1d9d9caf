"""A run of a scenario: its figures, its notes, its tables; the Python module's answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ridgeline

from app.simulation import rows
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import Settings
from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory, UnknownName
from genz_core.serving.simulation import Options, Requests

LLAMA = "meta-llama/Llama-3.1-8B"


def simulated(**keywords: Any) -> Any:
    standard: dict[str, Any] = {"system": "h100", "concurrency": 8, "isl": 256, "osl": 32}
    if {"rate", "trace"} & set(keywords):
        del standard["concurrency"]
    return ridgeline.simulate(LLAMA, **{**standard, "length_ratio": 1.0, **keywords})


def test_figures_are_attributes_and_the_document_has_them_all():
    answer = simulated(length_ratio=0.5)
    named = answer.to_dict()
    assert answer.ttft_p99_s == named["ttft_p99_s"] >= answer.ttft_p50_s > 0
    assert named["requests"] == named["ended"] == len(answer) == 80
    assert named["load"] == {
        "concurrency": 8, "isl": 256, "osl": 32, "length_ratio": 0.5, "seed": 0, "requests": 80,
    }  # fmt: skip
    assert "no interval" in named["not_validated"]
    with pytest.raises(AttributeError, match="it has requests, ended"):
        answer.ttft_p42_s  # noqa: B018


def test_the_data_frame_has_a_row_a_request():
    answer = simulated(ttft_target_s=0.05)
    table = answer.to_dataframe()
    assert len(table) == 80 and table["good"].mean() == answer.good_share
    assert table["ttft_s"].mean() == pytest.approx(answer.ttft_mean_s)
    together = table["ttft_s"] + table["tpot_s"] * (table["output_tokens"] - 1)
    assert together.to_numpy() == pytest.approx(table["e2e_s"].to_numpy())
    assert list(answer.over_time()) == [
        "time_s", "running", "waiting", "kv_use", "decode_step_s", "preemptions",
    ]  # fmt: skip


def test_the_repr_fits_a_terminal():
    text = repr(simulated(ttft_target_s=1.0))
    assert len(text.splitlines()) == 10 and "100 % meet the targets" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "<table" in simulated()._repr_html_()


def test_a_trace_goes_through_serve():
    answer = ridgeline.serve(LLAMA, trace=Requests([0.0, 0.5], [100, 200], [5, 5]))
    assert len(answer) == 2 and answer.ttft_mean_s > 0
    with pytest.raises(InvalidValue, match="not concurrency and trace"):
        ridgeline.serve(LLAMA, concurrency=4, trace=Requests([0.0], [1], [1]))


def test_a_closed_loop_of_equal_lengths_says_that_it_goes_in_waves():
    assert "served in waves" in simulated().to_dict()["message"]
    assert "served in waves" not in simulated(length_ratio=0.8).to_dict()["message"]


def test_what_does_not_fit_the_cache_is_refused_and_counted():
    trace = Requests([0.0, 1.0, 2.0], [100, 9_000_000, 100], [5, 5, 5])
    named = simulated(trace=trace).to_dict()
    assert named["refused"] == 1 and named["ended"] == 2
    assert "1 of 3 requests do not fit the KV cache even alone" in named["message"]


def test_a_trace_of_nothing_but_too_large_requests_ends():
    answer = simulated(trace=Requests([0.0], [9_000_000], [5]))
    assert answer.refused == 1 and np.isnan(answer.ttft_mean_s)
    assert rows.over_time(answer.simulation, "ttft_s")["p50"].size == 0


def test_an_answer_that_outgrows_the_cache_is_refused_and_does_not_hang():
    answer = simulated(trace=Requests([0.0], [100], [5_000]), kv_tokens=1000)
    assert answer.refused == 1


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"tp": 3}, InvalidParallelism, "tp 3"),
        ({"tp": [1, 2]}, InvalidValue, "give one tp"),
        ({"router": "nearest"}, InvalidValue, "choose round_robin"),
        ({"replicas": 0}, InvalidValue, "replicas = 0"),
        ({"ttft_target_s": -1.0}, InvalidValue, "ttft_s = -1"),
        ({"memory_fraction": 2.0}, InvalidValue, "memory_fraction = 2"),
        ({"max_num_seqs": -1}, InvalidValue, "max_num_seqs = -1"),
        ({"step_scale": 0.0}, InvalidValue, "step_scale = 0"),
        ({"system": "l4", "weights": "bf16", "memory_fraction": 0.2}, OutOfMemory, "weights"),
    ],
)
def test_what_cannot_be_simulated_is_one_sentence(keywords, error, words):
    with pytest.raises(error, match=words):
        simulated(**keywords)


def test_what_an_operator_sets_changes_the_run():
    free = simulated(concurrency=32)
    narrow = simulated(concurrency=32, max_num_seqs=4)
    assert narrow.ttft_mean_s > 2 * free.ttft_mean_s
    assert narrow.run.simulation.series["running"].max() <= 4
    less = simulated(concurrency=32, memory_fraction=0.5)
    assert less.run.simulation.series["kv_use"].max() > free.run.simulation.series["kv_use"].max()


def test_replicas_share_the_load():
    one, two = (simulated(rate=60.0, requests=300, replicas=n) for n in (1, 2))
    assert two.tpot_mean_s < one.tpot_mean_s and two.to_dict()["devices"] == 2


def test_shared_prompts_are_read_once():
    answer = simulated(shared_tokens=2048, length_ratio=0.8)
    assert answer.cached_share > 0.5
    assert simulated(shared_tokens=2048, prefix_caching=False).cached_share == 0.0


def test_distributions_end_at_one_and_never_fall():
    latencies = simulated(length_ratio=0.5).simulation.latencies()
    for values, counts in latencies.values():
        seconds, share = rows.distribution(values, counts, 50)
        assert share[-1] == 1.0 and len(share) <= 50
        assert np.all(np.diff(seconds) >= 0) and np.all(np.diff(share) > 0)


def test_settings_take_router_names_as_the_command_line_writes_them():
    assert Settings(OfferedLoad(concurrency=1), Options(), router="round-robin").router == (
        "round_robin"
    )


def test_a_scheduler_of_choice_takes_the_place_of_the_engines_own():
    own, chosen = (
        simulated(engine="hf", length_ratio=0.5, scheduler=name) for name in ("", "vllm")
    )
    assert chosen.ttft_p99_s < own.ttft_p99_s  # a static batch waits for its longest answer
    with pytest.raises(UnknownName, match="unknown scheduler 'vlm'; near: vllm"):
        simulated(scheduler="vlm")

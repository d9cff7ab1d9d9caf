"""A run of a scenario: its figures, its notes, its tables; the Python module's answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.question.query import ask
from app.scenario.results import serve
from app.simulation import rows
from app.simulation.result import Simulated, simulate
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.serving.simulation import Requests

LLAMA = "meta-llama/Llama-3.1-8B"


def simulated(**keywords: Any) -> Simulated:
    standard = {"model": LLAMA, "system": "h100", "concurrency": 8, "isl": 256, "osl": 32}
    if {"rate", "trace"} & set(keywords):
        del standard["concurrency"]
    if "trace" in keywords:
        del standard["isl"], standard["osl"]
    return simulate(ask("simulate", {**standard, **keywords}))


def test_figures_are_attributes_and_the_document_has_them_all():
    answer = simulated(length_ratio=0.5)
    named = answer.to_dict()
    assert answer.ttft_p99_s == named["ttft_p99_s"] >= answer.ttft_p50_s > 0
    assert named["requests"] == named["ended"] == len(answer) == 80
    assert named["load"] == {
        "concurrency": 8, "isl": 256, "osl": 32, "length_ratio": 0.5, "seed": 0, "requests": 80,
    }  # fmt: skip
    assert "no interval" in named["not_validated"]
    with pytest.raises(AttributeError, match=r"it has .*requests, ended"):
        answer.ttft_p42_s  # noqa: B018


def test_the_data_frame_has_a_row_a_request():
    answer = simulated(ttft_target_s=0.05)
    table = answer.to_dataframe()
    assert len(table) == len(answer) == 80 and table["good"].mean() == answer.good_share
    assert table["ttft_s"].mean() == pytest.approx(answer.ttft_mean_s)
    together = table["ttft_s"] + table["tpot_s"] * (table["output_tokens"] - 1)
    assert together.to_numpy() == pytest.approx(table["e2e_s"].to_numpy())
    assert list(answer.over_time()) == [
        "time_s", "running", "waiting", "kv_use", "decode_step_s", "preemptions",
    ]  # fmt: skip


@pytest.mark.parametrize(("requests", "short"), [(40, True), (4000, False)])
def test_a_run_at_a_rate_that_is_short_against_its_requests_says_so(requests: int, short: bool):
    answer = simulated(rate=2.0, requests=requests, osl=256)
    assert ("is closer to the steady state" in answer.to_dict()["message"]) is short


@pytest.mark.parametrize("load", [{"requests": 1}, {"requests": 5, "isl": 120_000}])
def test_a_run_of_one_request_or_of_refused_ones_is_not_called_short(load: dict[str, int]):
    given = {"model": "meta-llama/Llama-3.1-70B", "tp": 2, "rate": 1.0, "osl": 4}
    answer = simulated(**given, **load)
    assert answer.refused == (5 if "isl" in load else 0)
    assert "steady state" not in answer.to_dict()["message"]


def test_the_repr_fits_a_terminal():
    text = repr(simulated(ttft_target_s=1.0))
    assert len(text.splitlines()) == 10 and "100 % meet the targets" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "<table" in simulated()._repr_html_()


def test_a_trace_is_served_as_it_is():
    answer = simulated(trace=Requests([0.0, 0.5], [100, 200], [5, 5]))
    assert len(answer) == 2 and answer.ttft_mean_s > 0
    assert answer.simulation.arrival_s.tolist() == [0.0, 0.5]
    with pytest.raises(InvalidValue, match="not concurrency and trace"):
        simulated(concurrency=4, trace=Requests([0.0], [1], [1]))


def test_a_name_opens_no_file_where_none_may_be_opened():
    with pytest.raises(InvalidValue, match=r"trace = '/etc/hosts': this interface opens no files"):
        simulated(trace="/etc/hosts")


def test_equal_requests_that_start_together_say_that_they_go_in_waves():
    def message(**keywords: Any) -> str:
        return simulated(**keywords).to_dict()["message"]

    assert "served in waves" in message(burst_start=True, length_ratio=1.0)
    assert "served in waves" not in message(length_ratio=1.0)
    assert "served in waves" not in message(burst_start=True)


def test_a_run_reports_its_progress_and_can_be_cancelled():
    seen: list[float] = []
    asked = ask("simulate", {"model": LLAMA, "concurrency": 8, "osl": 8, "requests": 3000})
    simulate(asked, lambda share, _: seen.append(share))
    assert seen == sorted(seen) and seen[-1] > 0.5
    with pytest.raises(Cancelled, match="of 3,024 requests"):
        simulate(asked, cancelled=lambda: True)


# ------------------------------------------------------------------------------- steady loops


@pytest.mark.parametrize("length_ratio", [None, 0.8])
def test_a_steady_loop_is_that_of_the_closed_form(length_ratio):
    """16 users of 1k/256: the first token within 15 %, the time between tokens within 10 %."""
    asked = {"model": LLAMA, "system": "h100", "concurrency": 16, "length_ratio": length_ratio}
    closed, answer = serve(ask("serve", asked)), simulate(ask("simulate", asked))
    assert answer.ttft_mean_s == pytest.approx(closed.ttft_s, rel=0.15)
    assert answer.tpot_mean_s == pytest.approx(closed.tpot_s, rel=0.10)
    assert answer.output_tokens_per_s == pytest.approx(closed.output_tokens_per_s, rel=0.05)


@pytest.mark.parametrize("users", [1, 16, 256])
@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_open_requests_are_arrivals_times_their_time(engine, users):
    """Little's law.  With a step scale, so that measurements do not change first tokens."""
    answer = simulated(concurrency=users, engine=engine, osl=128, step_scale=1.0,
                       requests=max(10 * users, 200))  # fmt: skip
    assert answer.requests_per_s * answer.e2e_mean_s == pytest.approx(users, rel=0.02)


def test_a_single_user_has_no_queue():
    answer = simulated(concurrency=1, step_scale=1.0)
    engine, simulation = answer.run.resolved.engine, answer.simulation
    assert simulation.queue_s == pytest.approx(engine.intake_s(simulation.requests.input_tokens))
    assert answer.requests == 10  # two before them, one after


def test_figures_of_a_steady_loop_are_of_the_requests_between_its_start_and_its_end():
    answer = simulated(concurrency=8, requests=40)
    simulation, counted = answer.simulation, answer.simulation.counted
    assert counted.nonzero()[0].tolist() == list(range(16, 56)) and len(counted) == 64
    assert answer.ttft_mean_s == simulation.ttft_s[counted].mean()
    assert answer.seconds == simulation.arrival_s[56] - simulation.arrival_s[16]
    gaps = (answer.simulation.requests.output_tokens[counted] - 1.0).sum()
    assert simulation.gap_counts.sum() == pytest.approx(gaps, rel=0.1)


def test_users_of_a_steady_loop_begin_one_after_the_other_over_a_request():
    steady, burst = simulated(concurrency=8), simulated(concurrency=8, burst_start=True)
    first = steady.simulation.arrival_s[:8]
    assert np.diff(first) == pytest.approx(np.full(7, first[1])) and first[0] == 0.0
    assert 8 * first[1] == pytest.approx(steady.e2e_mean_s, rel=0.1)
    assert not burst.simulation.arrival_s[:8].any() and burst.simulation.counted.all()
    assert burst.ttft_mean_s > steady.ttft_mean_s


def test_a_steady_loop_is_where_one_that_starts_at_once_arrives():
    """A loop needs tens of requests per user to forget its start; a staggered start avoids this."""
    load = {"system": "a100", "engine": "trtllm", "tp": 4, "concurrency": 87, "isl": 362,
            "osl": 96, "length_ratio": 0.8, "step_scale": 1.0}  # fmt: skip
    steady = simulated(**load)
    late = simulated(**load, burst_start=True, requests=87 * 60).simulation
    last = slice(87 * 45, 87 * 58)
    assert steady.ttft_mean_s == pytest.approx(late.ttft_s[last].mean(), rel=0.07)
    assert steady.tpot_mean_s == pytest.approx(late.tpot_s[last].mean(), rel=0.02)
    assert late.ttft_s[87:870].mean() > 1.2 * steady.ttft_mean_s


def test_a_longer_warm_up_says_the_same(monkeypatch):
    """In the mean of a few seeds, because first tokens of single seeds differ by up to a tenth."""

    def means() -> list[float]:
        runs = [simulated(concurrency=64, requests=1000, seed=seed) for seed in range(4)]
        names = ("tpot_mean_s", "output_tokens_per_s", "ttft_mean_s")
        return [float(np.mean([getattr(run, name) for run in runs])) for name in names]

    short = means()
    monkeypatch.setattr("app.simulation.offered_load.WARM", 8)
    long = means()
    assert short[:2] == pytest.approx(long[:2], rel=0.02)
    assert short[2] == pytest.approx(long[2], rel=0.05)


def test_what_does_not_fit_the_cache_is_refused_and_counted():
    trace = Requests([0.0, 1.0, 2.0], [100, 9_000, 100], [5, 5, 5])
    named = simulated(trace=trace, kv_tokens=5_000).to_dict()
    assert named["refused"] == 1 and named["ended"] == 2
    assert "1 of 3 requests do not fit the KV cache even alone" in named["message"]


def test_a_trace_of_nothing_but_too_large_requests_ends():
    answer = simulated(trace=Requests([0.0], [9_000], [5]), kv_tokens=5_000)
    assert answer.refused == 1 and np.isnan(answer.ttft_mean_s)
    assert rows.over_time(answer.simulation, "ttft_s")["p50"].size == 0


def test_an_answer_that_outgrows_the_cache_is_refused_and_does_not_hang():
    answer = simulated(trace=Requests([0.0], [100], [5_000]), kv_tokens=1000)
    assert answer.refused == 1


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"tp": 3}, InvalidParallelism, "tp 3"),
        ({"tp": [1, 2]}, InvalidValue, r"tp = \[1, 2\]: give one number"),
        ({"router": "nearest"}, InvalidValue, "router = 'nearest': choose least_loaded"),
        ({"replicas": 0}, InvalidValue, "replicas = 0"),
        ({"ttft_target_s": -1.0}, InvalidValue, "ttft_target_s = -1"),
        ({"burst_start": True, "rate": 2.0}, InvalidValue, "give a concurrency"),
        ({"concurrency": 500_000}, InvalidValue, "6,500,000 requests are more than"),
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
    answer = simulated(shared_tokens=2048)
    assert answer.cached_share > 0.5
    assert simulated(shared_tokens=2048, prefix_caching=False).cached_share == 0.0


def test_distributions_end_at_one_and_never_fall():
    latencies = simulated(length_ratio=0.5).simulation.latencies()
    for values, counts in latencies.values():
        seconds, share = rows.distribution(values, counts, 50)
        assert share[-1] == 1.0 and len(share) <= 50
        assert np.all(np.diff(seconds) >= 0) and np.all(np.diff(share) > 0)


def test_a_scheduler_of_choice_takes_the_place_of_the_engines_own():
    own, chosen = (
        simulated(engine="hf", length_ratio=0.5, scheduler=name) for name in ("", "vllm")
    )
    assert chosen.ttft_p99_s < own.ttft_p99_s  # a static batch waits for its longest answer
    with pytest.raises(InvalidValue, match="scheduler = 'vlm': choose vllm, sglang"):
        simulated(scheduler="vlm")


@pytest.mark.parametrize(("rate", "grows"), [(8.0, False), (40.0, True)])
def test_a_rate_that_is_not_sustained_is_told(rate, grows):
    named = simulated(rate=rate, isl=1024, osl=256, requests=600).to_dict()
    assert ("the queue grows" in named["message"]) is grows

"""What a model cannot run, and parameters that do not apply to it, at every interface."""

import csv
import math

import numpy as np
import pytest
import ridgeline
from typer.testing import CliRunner

from app.cli import cli
from app.decide import sensitivity_rows
from app.decide.economics import economics
from app.planning.sweep_result import sweep
from app.question.query import ask
from app.scenario import points_file, results
from app.scenario.gate import context_complaint, nearest_lengths
from app.scenario.intervals import COSTS
from app.scenario.scenario import find_model, resolve
from app.simulation.result import simulate
from genz_core.errors import ContextTooLong, InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.serving.simulation import Requests

SHORT, DENSE, EXPERTS = (
    "meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-70B", "mistralai/Mixtral-8x7B-v0.1",
)  # fmt: skip
#: Positions of SHORT.
MOST = 4096


@pytest.mark.parametrize(
    ("name", "isl", "osl", "runs"),
    [
        (SHORT, 3841, 256, True),  # the last token's cache is never read
        (SHORT, 3842, 256, False),
        (SHORT, 4097, 1, False),
        ("BAAI/bge-m3", 8194, 512, True),  # generates no tokens
        ("BAAI/bge-m3", 8195, 1, False),
        ("facebook/bart-large", 1024, 1024, True),  # encoder and decoder have separate positions
        ("facebook/bart-large", 1025, 16, False),
    ],
)
def test_a_sequence_has_at_most_the_positions_of_its_model(
    name: str, isl: int, osl: int, runs: bool
):
    assert bool(context_complaint(find_model(name), isl, osl)) is not runs


@pytest.mark.parametrize(
    ("verb", "load"),
    [("estimate", {}), ("estimate", {"rate": 1.0}), ("serve", {"concurrency": 4}),
     ("simulate", {"concurrency": 2})],
)  # fmt: skip
def test_a_single_question_that_is_too_long_is_an_error_that_says_what_to_do(verb: str, load: dict):
    asked = ask(verb, {"model": SHORT, "isl": 8192, **load})
    verbs = {"estimate": results.estimate, "serve": results.serve, "simulate": simulate}
    with pytest.raises(ContextTooLong, match=r"positions for 4,096 tokens.* are 8,448: give a sm"):
        verbs[verb](asked)


@pytest.mark.parametrize("load", [{"batch": 2}, {"concurrency": 4}])
def test_rows_that_are_too_long_keep_their_times_beside_the_reason(load: dict):
    given = {"model": SHORT, "isl": [1024, 8192], **load}
    both = results.estimate(ask("estimate", given), on_error="status")
    assert both.status.tolist() == ["ok", "context_too_long"]
    assert both.ttft_s[1] > both.ttft_s[0] > 0.0
    assert "positions for 4,096 tokens" in both.table["message"][1]
    swept = sweep(ask("sweep", given)).columns
    assert swept["status"].tolist() == ["ok", "context_too_long"]
    assert swept["ttft_s"] == pytest.approx(both.ttft_s)
    with pytest.raises(ContextTooLong, match="configuration 1"):
        results.estimate(ask("estimate", given), on_error="raise")


@pytest.mark.parametrize("load", [{}, {"concurrency": 4}])
@pytest.mark.parametrize(
    ("given", "code", "error"),
    [
        ({"model": DENSE, "tp": 3}, "invalid_parallelism", InvalidParallelism),
        ({"model": SHORT, "isl": 8192}, "context_too_long", ContextTooLong),
        ({"model": DENSE, "system": "l4"}, "out_of_memory", OutOfMemory),
        ({"model": SHORT, "ep": 2}, "ok", InvalidValue),
    ],
    ids=str,
)
def test_a_single_question_that_cannot_run_is_refused_or_has_a_reason_code(
    given: dict, code: str, error: type[Exception], load: dict
):
    """As a row of several, whose options without meaning are messages, too."""
    asked = ask("estimate", {**given, **load})
    with pytest.raises(error) as refused:
        results.estimate(asked)
    found = results.estimate(asked, on_error="status")
    assert found.status == code and str(refused.value) in found.rows[0]["message"]
    assert np.isnan(found.ttft_s) == (code == "invalid_parallelism")
    twice = {name: [value] * 2 if name in ("tp", "isl", "ep") else value
             for name, value in {"isl": 1024, **given}.items()}  # fmt: skip
    rows = results.estimate(ask("estimate", {**twice, **load}), on_error="status")
    assert rows.status.tolist() == [code] * 2
    assert rows.ttft_s[0] == pytest.approx(found.ttft_s, nan_ok=True)


@pytest.mark.parametrize("load", [[], ["--concurrency=4"]], ids=str)
def test_the_command_line_refuses_a_single_question_unless_it_only_lacks_memory(load: list[str]):
    line = ["ask", DENSE, "tp3", "4 users" if load else "1k in"]
    for words in (["estimate", DENSE, "--tp=3", *load], line):
        assert isinstance(CliRunner().invoke(cli, words).exception, InvalidParallelism)
    shown = CliRunner().invoke(cli, ["estimate", DENSE, "--system=l4", *load])
    assert shown.exit_code == 0 and "out_of_memory" in shown.output


@pytest.mark.parametrize("verb", ["sensitivity", "economics"])
def test_what_is_derived_from_such_a_question_is_refused_too(verb: str):
    with pytest.raises(InvalidParallelism, match="nearest: tp 2 or 4"):
        getattr(ridgeline, verb)(DENSE, tp=3, concurrency=4)
    with pytest.raises(ContextTooLong, match="has positions for"):
        getattr(ridgeline, verb)(SHORT, isl=8192, concurrency=4)
    with pytest.raises(ContextTooLong, match="has positions for"):
        getattr(ridgeline, verb)(SHORT, isl=2000, turns=8, concurrency=4)


@pytest.mark.parametrize(("tp", "why"), [(3, "nearest: tp 2 or 4"), (1, "use more devices")])
def test_replicas_that_cannot_run_are_not_asked_for_looser_targets(tp: int, why: str):
    with pytest.raises(InvalidValue, match=why):
        ridgeline.availability(DENSE, system="h100", tp=tp, rate=3)


def test_a_row_of_degrees_that_do_not_divide_says_only_that():
    served = results.serve(ask("serve", {"model": DENSE, "tp": [3, 4], "concurrency": 4}), "status")
    refused, runs = served.table["message"]
    assert refused.startswith("tp 3 does not divide")
    assert "micro-batches" not in refused and set(runs.split("; ")) < set(refused.split("; "))


def test_a_points_file_says_both_beside_the_times():
    first = {"model": SHORT, "system": "h100", "isl": "8192", "batch": "1"}
    second = {"model": DENSE, "system": "h100", "tp": "4", "ep": "4", "concurrency": "8"}
    long, dense = points_file.price([first, second])
    assert long["status"] == "context_too_long" and float(long["ttft_s"]) > 0.0
    assert dense["status"] == "ok" and "ep does not apply to" in dense["message"]


def test_turns_of_a_session_are_one_context():
    given = {"model": SHORT, "isl": 500, "osl": 100, "concurrency": 4}
    assert results.serve(ask("serve", {**given, "turns": 6})).status == "ok"
    with pytest.raises(ContextTooLong, match="are 4,200"):
        results.serve(ask("serve", {**given, "turns": 7}))


def test_the_nearest_lengths_run_and_one_token_more_does_not():
    near = nearest_lengths(resolve(ask("estimate", {"model": SHORT, "isl": 9000}).question))
    assert near == {"isl": MOST - 256, "osl": 256}
    assert results.estimate(ask("estimate", {"model": SHORT, **near})).status == "ok"


@pytest.mark.parametrize(
    "stated",
    [{"ep": 4}, {"moe_tp": 4}, {"moe_weights": "fp8"}, {"expert_imbalance": 2.0},
     {"redundant_experts": 8}, {"overlap": "two_batch"}],
    ids=lambda stated: next(iter(stated)),
)  # fmt: skip
def test_what_only_experts_read_is_refused_of_a_dense_model_by_name(stated: dict):
    (name,) = stated
    words = f"^{name} does not apply to {DENSE}, which has no experts: leave it out$"
    for verb, load in (("estimate", {}), ("serve", {"concurrency": 4})):
        with pytest.raises(InvalidValue, match=words):
            getattr(results, verb)(ask(verb, {"model": DENSE, "tp": 4, **stated, **load}))
    with pytest.raises(InvalidValue, match=words):
        simulate(ask("simulate", {"model": DENSE, "tp": 4, "concurrency": 2, **stated}))


def test_the_experts_of_a_dense_model_cannot_be_moved_to_the_host():
    with pytest.raises(InvalidValue, match=f"^offload = experts does not apply to {DENSE}"):
        results.estimate(ask("estimate", {"model": DENSE, "offload": "experts"}))


def test_what_only_experts_read_is_a_message_in_rows_of_a_dense_model_alone():
    given = {"model": [DENSE, EXPERTS], "tp": 4, "ep": [1, 4]}
    rows = sweep(ask("sweep", given)).columns
    said = ["does not apply" in words for words in rows["message"]]
    stated = [
        model == DENSE and ep == 4 for model, ep in zip(rows["model"], rows["ep"], strict=True)
    ]
    assert said == stated and set(rows["status"]) == {"ok"}


OTHER = "^price of h200 does not apply to h100-sxm5-80gb: name that system, or leave it out$"


@pytest.mark.parametrize(
    ("verb", "load"),
    [("estimate", {}), ("serve", {"concurrency": 4}),
     ("simulate", {"concurrency": 4, "turns": 2, "host_cache_gib": 50.0})],
)  # fmt: skip
def test_a_rent_of_another_system_is_refused_by_name(verb: str, load: dict):
    given = {"model": DENSE, "system": "h100", "tp": 4, **load}
    answer = {"estimate": results.estimate, "serve": results.serve, "simulate": simulate}[verb]
    for price in ("h200=3", {"h200": 3.0}):
        with pytest.raises(InvalidValue, match=OTHER):
            answer(ask(verb, {**given, "price": price}))
    for price in ("3", "h100=3", "h200=3,h100=2", {"h100": 2.5}):
        answer(ask(verb, {**given, "price": price}))


def test_the_rent_of_a_prefill_pools_system_applies():
    pool = {
        "concurrency": 4,
        "tp": 4,
        "prefill_tp": 4,
        "prefill_system": "h200",
        "prefill_workers": 1,
    }
    results.serve(ask("serve", {"model": DENSE, "system": "h100", "price": "h200=3", **pool}))


@pytest.mark.parametrize("verb", ["economics", "sensitivity"])
def test_decisions_refuse_what_means_nothing(verb: str):
    answer = {"economics": economics, "sensitivity": sensitivity_rows.document}[verb]
    with pytest.raises(InvalidValue, match=f"^ep does not apply to {DENSE}"):
        answer(ask(verb, {"model": DENSE, "tp": 2, "ep": 2}))
    if verb == "economics":
        with pytest.raises(InvalidValue, match=OTHER):
            answer(ask(verb, {"model": DENSE, "system": "h100", "price": "h200=3"}))


def test_a_rent_of_another_system_is_a_message_in_rows_of_a_system_without_one():
    given = {"model": DENSE, "system": ["h100", "h200"], "price": "h200=3", "batch": [1, 8]}
    rows = sweep(ask("sweep", given)).columns
    said = ["price of h200 does not apply" in words for words in rows["message"]]
    assert said == [system == "h100" for system in rows["system"]] and set(said) == {True, False}


@pytest.mark.parametrize(
    ("formats", "taken"),
    [({}, False), ({"weights": "int4"}, False), ({"weights": "fp8"}, True),
     ({"weights": "nvfp4"}, True), ({"kv": "fp8"}, False)],
)  # fmt: skip
def test_narrow_inputs_need_weights_whose_products_take_them(formats: dict, taken: bool):
    given = {"model": DENSE, "system": "b200", "activations": "fp8", **formats}
    for verb, load in (("estimate", {}), ("serve", {"concurrency": 4})):
        asked = ask(verb, {**given, **load})
        if taken:
            assert getattr(results, verb)(asked)
        else:
            with pytest.raises(InvalidValue, match="activations = fp8 does not apply to"):
                getattr(results, verb)(asked)
    (message,) = sweep(ask("sweep", given)).columns["message"]
    assert ("activations = fp8 does not apply to" in message) is not taken


def test_python_refuses_both_in_a_sentence():
    with pytest.raises(ContextTooLong):
        ridgeline.estimate(SHORT, isl=8192)
    with pytest.raises(InvalidValue, match="overlap does not apply"):
        ridgeline.estimate(DENSE, tp=4, overlap="two_batch")


def test_recorded_requests_that_are_too_long_are_counted_in_a_note():
    trace = Requests([0.0, 1.0], [100, 5000], [5, 5])
    said = simulate(ask("simulate", {"model": SHORT, "trace": trace})).to_dict()["message"]
    assert "1 of 2 requests are longer than the model's 4,096 positions" in said


@pytest.mark.parametrize("load", [{"batch": [1, 8]}, {"concurrency": [1, 8]}])
def test_what_does_not_fit_has_times_and_neither_intervals_nor_costs(load: dict, tmp_path):
    given = {"model": DENSE, "system": "h100", **load}
    verb = results.estimate if "batch" in load else results.serve
    alone = verb(ask(verb.__name__, given), "status").rows
    swept = sweep(ask("sweep", given)).rows
    name = next(iter(load))
    path = tmp_path / "points.csv"
    path.write_text(f"id,model,system,{name}\na,{DENSE},h100,1\n", encoding="utf-8")
    points_file.price_file(path, path)
    with path.open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert {"ttft_low_s", "output_tokens_per_s_high"} <= alone[0].keys() & cells[0].keys()
    for row in (*alone, *swept, *cells):
        assert row["status"] == "out_of_memory" and float(row["ttft_s"]) > 0.0
        empty = [at for at in row if "_low" in at or "_high" in at or at in COSTS]
        assert not row.get("not_validated")
        assert all(row[at] in ("", None) or math.isnan(row[at]) for at in empty)


def test_rows_that_fit_beside_rows_that_do_not_keep_their_intervals_and_costs():
    rows = results.estimate(ask("estimate", {"model": DENSE, "tp": [1, 4]}), "status").rows
    assert [row["status"] for row in rows] == ["out_of_memory", "ok"]
    for name in ("ttft_low_s", "usd_per_million_tokens", "joules_per_token_high"):
        assert [math.isnan(row[name]) for row in rows] == [True, False]

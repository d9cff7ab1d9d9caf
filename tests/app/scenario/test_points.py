"""The points file: every row has its answer in order, and an invalid row does not stop the rest."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from ridgeline import serve

from app.scenario import points_file
from app.scenario.points_row import parse, unknown_columns
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.limits import LIMITS
from hardware_db.intervals import Kind, kind_interval
from tests.rules import for_every

GOOD = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "batch": "4",
    "isl": "1000",
    "osl": "100",
}


def price(*rows: dict[str, str]) -> list[dict[str, str]]:
    return points_file.price(list(rows))


def test_a_good_row_gets_every_figure():
    (row,) = price({"id": "a", **GOOD, "engine": "vllm"})
    assert row["id"] == "a" and row["status"] == "ok" and row["fits"] == "true"
    words = ("fits", "not_validated")
    figures = {name: float(row[name]) for name in points_file.COLUMNS[3:] if name not in words}
    assert figures.pop("wait_s") == 0.0  # a static batch has no server
    assert all(value > 0 for value in figures.values())
    assert figures["e2e_s"] == pytest.approx(figures["ttft_s"] + 99 * figures["tpot_s"])
    assert figures["bound_prefill_s"] < figures["prefill_s"]


def test_bad_rows_say_why_and_stop_nobody():
    rows = price(
        GOOD | {"model": "nobody/nothing-7B"},
        GOOD | {"system": "h1000"},
        GOOD | {"tp": "3"},
        GOOD | {"isl": "-1"},
        GOOD | {"weights": "fp7"},
        GOOD | {"batch": "", "concurrency": ""},
        GOOD | {"batch": "100000"},
        GOOD,
    )
    assert [row["status"] for row in rows] == [
        "unknown_model",
        "unknown_system",
        "invalid_parallelism",
        "invalid_value",
        "unknown_precision",
        "invalid_value",
        "out_of_memory",
        "ok",
    ]
    assert all(row["message"] for row in rows[:7])
    assert float(rows[6]["ttft_s"]) > 0 and rows[6]["fits"] == "false"
    assert rows[0]["ttft_s"] == ""


def test_a_row_costs_the_same_alone_and_among_others():
    rows = [GOOD | {"batch": str(b), "tp": str(t)} for b in (1, 7, 64) for t in (1, 2, 8)]
    together = price(*rows)
    for row, alone in zip(together, (price(one)[0] for one in rows), strict=True):
        for name in ("ttft_s", "tpot_s", "memory_bytes_per_device"):
            assert float(row[name]) == pytest.approx(float(alone[name]), rel=1e-8)


def test_a_concurrency_is_served_and_a_batch_is_static():
    static, served = price(GOOD, GOOD | {"batch": "", "concurrency": "64"})
    assert served["status"] == "ok"
    assert float(served["tpot_s"]) > float(static["tpot_s"])
    assert float(served["ttft_s"]) > float(served["prefill_s"])


def test_a_rate_is_served_open_loop_as_ridgeline_serve_does():
    slow, fast = price(*(GOOD | {"batch": "", "rate": rate} for rate in ("0.5", "8")))
    assert slow["status"] == fast["status"] == "ok"
    assert float(fast["tpot_s"]) > float(slow["tpot_s"])
    served = serve(GOOD["model"], system="h100", rate=8.0, isl=1000, osl=100)
    assert float(fast["tpot_s"]) == pytest.approx(served.tpot_s, rel=1e-8)
    (over,) = price(GOOD | {"batch": "", "rate": "1e6"})
    assert over["status"] == "overloaded" and "grows without bound" in over["message"]


@for_every(["0", "-1", "nan", "inf", "often"])
def test_a_rate_that_cannot_be_is_refused(text):
    with pytest.raises(InvalidValue, match=f"rate = .*{text}.*: give a number above 0"):
        parse(GOOD | {"batch": "", "rate": text})


def test_a_load_costs_the_same_in_a_file_and_in_a_call():
    load = {"isl": 1000, "osl": 100, "concurrency": 48}
    burst = {"burst_start": True}
    others = ({"length_ratio": 0.8}, {"max_num_seqs": 16})
    for told in ({}, burst, {**burst, "requests": 96}, *others):
        (row,) = price(GOOD | {"batch": ""} | {n: str(v) for n, v in {**load, **told}.items()})
        served = serve(GOOD["model"], system="h100", **load, **told)
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s"):
            assert row[name] == f"{getattr(served, name):.9g}", (told, name)


def test_users_that_start_together_send_as_many_requests_side_by_side_as_alone():
    load = {"isl": 1000, "osl": 100, "burst_start": True, "requests": 96}
    together = serve(GOOD["model"], system="h100", concurrency=[8, 48], **load)
    for at, users in enumerate((8, 48)):
        alone = serve(GOOD["model"], system="h100", concurrency=users, **load)
        assert together.rows[at]["ttft_s"] == pytest.approx(alone.ttft_s, rel=1e-9)
        assert together.rows[at]["tpot_s"] == pytest.approx(alone.tpot_s, rel=1e-9)


def test_what_means_nothing_to_a_row_is_said_beside_its_times():
    (row,) = price(GOOD | {"stream_interval": "20"})
    assert row["status"] == "ok" and "stream_interval does not apply to a static" in row["message"]


def test_a_row_has_one_load():
    with pytest.raises(InvalidValue, match="this row has batch and rate"):
        parse(GOOD | {"rate": "2"})


def test_a_column_that_is_not_known_is_named_with_the_near_ones():
    (sentence,) = unknown_columns([*GOOD, "concurency", "measured_tpot_s"])
    assert sentence == ("column 'concurency' is unknown and was ignored: did you mean concurrency?")
    (other,) = unknown_columns(["colour"])
    assert "there are id, mtp_tokens, model, system" in other


def test_the_command_warns_of_a_column_that_it_does_not_know(tmp_path, ridgeline):
    path = tmp_path / "in.csv"
    path.write_text("model,system,batch,isl,osl,lenght_ratio\nQwen/Qwen3-8B,h100,1,10,2,0.5\n")
    result = ridgeline("estimate", "--points", path)
    assert result.exit_code == 0
    assert "column 'lenght_ratio' is unknown" in result.stderr and "length_ratio" in result.stderr
    assert result.stdout.startswith("id,status")


def test_shorter_real_lengths_take_less_time():
    full, short = price(GOOD, GOOD | {"length_ratio": "0.5"})
    assert float(short["prefill_s"]) < float(full["prefill_s"])


def test_one_output_token_is_priced_at_the_prompt():
    (row,) = price(GOOD | {"osl": "1"})
    assert float(row["e2e_s"]) == pytest.approx(float(row["ttft_s"]))
    assert float(row["decode_step_s"]) > 0


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"engine": "vlm"}, "near: vllm"),
        ({"engine": "vllm", "engine_version": "banana"}, "known are"),
    ],
)
def test_an_unknown_engine_is_a_reason_code_and_stops_no_other_row(cells, said):
    unknown, good = price(GOOD | cells, GOOD)
    assert unknown["status"] == "unknown_engine" and said in unknown["message"]
    assert unknown["ttft_s"] == "" and good["status"] == "ok"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"tp": "4", "dp": "2"}, (1, None)),
        ({"tp": "4", "ep": "4"}, (4, None)),
        ({"tp": "8", "moe_tp": "2"}, (4, 2)),
        ({"tp": "2", "dp": "4", "moe_tp": "1", "ep": "8"}, (8, 1)),
    ],
)
def test_empty_expert_degrees_follow_from_the_others(cells, expected):
    point = parse(GOOD | cells)
    assert (point.question.ep, point.question.moe_tp) == expected


def test_expert_degrees_that_contradict_the_rest_are_refused():
    with pytest.raises(InvalidParallelism, match="must equal tp x dp = 4"):
        parse(GOOD | {"tp": "4", "ep": "2", "moe_tp": "4"})


@for_every(["abc", "1.5", "0", "nan", "inf", "-inf", "1e30", "-4"])
def test_a_size_that_is_no_whole_number_is_refused_by_name(text):
    with pytest.raises(InvalidValue, match="isl"):
        parse(GOOD | {"isl": text})


@pytest.mark.parametrize("column", ["batch", "isl", "osl", "tp", "pp", "dp", "ep", "moe_tp"])
@pytest.mark.parametrize("text", ["inf", "nan", "1e400"])
def test_a_cell_that_is_no_number_is_the_status_of_its_row(column: str, text: str):
    wrong, right = price(GOOD | {column: text}, GOOD)
    assert (wrong["status"], right["status"]) == ("invalid_value", "ok")
    assert wrong["message"].startswith(f"{column} = {text}: give a whole number from 1 to ")


def test_a_row_names_models_and_systems_and_no_files(tmp_path: Path):
    (tmp_path / "x.yaml").write_text("include: h100-sxm5-80gb\nid: x\nname: Mine\n")
    (row,) = price(GOOD | {"system": str(tmp_path / "x.yaml")})
    assert row["status"] == "unknown_system"


def test_a_file_of_too_many_rows_is_refused(tmp_path: Path):
    source = tmp_path / "in.csv"
    source.write_text("model,system\n" + "gpt2,a100\n" * (LIMITS["rows"].most + 1))
    with pytest.raises(InvalidValue, match=r"rows = 200001: give .* split a longer one"):
        points_file.read(source)


def test_an_id_that_a_spreadsheet_would_run_is_written_as_text(tmp_path: Path):
    points_file.write(tmp_path / "out.csv", price({"id": "=1+1", **GOOD}))
    with (tmp_path / "out.csv").open() as handle:
        assert next(csv.DictReader(handle))["id"] == "'=1+1"


def test_a_file_is_priced_whole_or_not_at_all(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    with source.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, ["id", *GOOD])
        writer.writeheader()
        writer.writerows(
            [
                {"id": "x", **GOOD},
                {"id": "y", **GOOD, "tp": "3"} if "tp" in GOOD else {"id": "y", **GOOD},
            ]
        )
    seen: list[tuple[int, int]] = []
    points_file.price_file(source, target, lambda done, of: seen.append((done, of)))
    with target.open() as handle:
        written = list(csv.DictReader(handle))
    assert [row["id"] for row in written] == ["x", "y"] and seen[-1] == (2, 2)
    assert list(written[0]) == list(points_file.COLUMNS)
    assert not target.with_name("out.csv.part").exists()


def test_a_file_without_the_columns_it_needs_is_refused(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValue, match="model and system"):
        points_file.read(path)
    with pytest.raises(InvalidValue, match=r"absent\.csv: no such file"):
        points_file.read(tmp_path / "absent.csv")


def test_a_spreadsheets_byte_order_mark_and_blanks_do_no_harm(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_text(
        "\ufeffmodel , system,batch,isl,osl\n meta-llama/Llama-3.1-8B ,h100, 1,10,2\n", "utf-8"
    )
    (row,) = points_file.price(points_file.read(path))
    assert row["status"] == "ok" and row["id"] == "0"


# ------------------------------------------------------------------------------- flags of engines

DEEPSEEK = {
    "model": "deepseek-ai/DeepSeek-V3", "system": "h200_sxm", "engine": "sglang", "tp": "8",
    "concurrency": "16", "isl": "1000", "osl": "400",
}  # fmt: skip


def test_a_row_with_drafts_is_the_served_model_and_says_whose_acceptance_it_took():
    (plain, row) = price(DEEPSEEK, DEEPSEEK | {"mtp_tokens": "2"})
    load = {"concurrency": 16, "isl": 1000, "osl": 400}
    served = serve(
        DEEPSEEK["model"], system="h200", engine="sglang", tp=8, speculation="mtp", draft_tokens=2,
        **load,
    )  # fmt: skip
    assert float(row["tpot_s"]) == pytest.approx(served.tpot_s, rel=1e-8)
    assert float(row["tpot_s"]) < float(plain["tpot_s"])
    assert "drafts 2 tokens per step" in row["message"] and "tpot_s" not in row["not_validated"]
    known = kind_interval("tpot_s", Kind("drafts", 1000))
    assert float(row["tpot_high_s"]) == pytest.approx(float(row["tpot_s"]) * known.high)
    assert float(row["tpot_low_s"]) == pytest.approx(float(row["tpot_s"]) * known.low)


def test_a_row_with_a_prefill_pool_is_the_served_deployment_with_its_own_interval():
    pool = {"prefill_workers": "2", "prefill_tp": "8", "replicas": "2"}
    (plain, row) = price(DEEPSEEK, DEEPSEEK | pool)
    served = serve(
        DEEPSEEK["model"], system="h200", engine="sglang", tp=8, concurrency=16, isl=1000, osl=400,
        prefill_workers=2, prefill_tp=8, replicas=2,
    )  # fmt: skip
    for name in ("ttft_s", "tpot_s", "output_tokens_per_s"):
        assert float(row[name]) == pytest.approx(getattr(served, name), rel=1e-8)
    assert float(row["tpot_s"]) < float(plain["tpot_s"])
    known = kind_interval("tpot_s", Kind("pools", 1000))
    assert float(row["tpot_high_s"]) == pytest.approx(float(row["tpot_s"]) * known.high)
    assert ("ttft_s" in row["not_validated"]) == (
        kind_interval("ttft_s", Kind("pools", 1000)) is None
    )


def test_a_static_batch_has_no_prefill_pool():
    (row,) = price({**DEEPSEEK, "concurrency": "", "batch": "4", "prefill_workers": "1"})
    assert "prefill_workers does not apply to a static batch" in row["message"]


def test_a_static_batch_with_drafts_is_faster_a_token_and_sums_up():
    static = {**DEEPSEEK, "concurrency": "", "batch": "4"}
    (plain, row) = price(static, static | {"mtp_tokens": "1"})
    figures = {name: float(row[name]) for name in ("ttft_s", "tpot_s", "e2e_s")}
    assert figures["tpot_s"] < float(plain["tpot_s"])
    assert figures["e2e_s"] == pytest.approx(figures["ttft_s"] + 399 * figures["tpot_s"])


@pytest.mark.parametrize(("engine", "held"), [("sglang", True), ("vllm", False), ("trtllm", False)])
def test_a_stream_interval_delays_a_first_token_where_the_engine_holds_it(engine: str, held: bool):
    load = {**GOOD, "batch": "", "concurrency": "16", "engine": engine}
    plain, streamed, seldom = price(
        load, load | {"stream_interval": "20"}, load | {"recv_interval": "30"}
    )
    assert (float(streamed["ttft_s"]) > float(plain["ttft_s"])) == held
    assert float(seldom["ttft_s"]) > float(plain["ttft_s"])


def test_the_memory_of_tensorrt_llm_is_a_part_of_what_its_weights_leave():
    load = {
        "model": "meta-llama/Llama-3.1-70B", "system": "h100_sxm", "tp": "4", "isl": "4000",
        "osl": "500", "concurrency": "1000", "engine": "trtllm", "memory_fraction": "0.4",
    }  # fmt: skip
    free, device = price(load, load | {"engine": "vllm"})
    assert free["status"] == "ok" and device["status"] == "out_of_memory"


def test_a_model_without_the_module_says_so_in_its_row():
    (row,) = price({**GOOD, "mtp_tokens": "2"})
    assert row["status"] != "ok" and "multi-token-prediction" in row["message"]


def test_limits_of_an_engine_hold_in_its_row():
    load = {**GOOD, "batch": "", "concurrency": "64", "engine": "vllm"}
    plain, few, small = price(
        load, load | {"max_num_seqs": "8"}, load | {"memory_fraction": "0.25"}
    )
    assert float(few["tpot_s"]) < float(plain["tpot_s"])
    assert float(few["ttft_s"]) > float(plain["ttft_s"])
    assert float(small["ttft_s"]) > float(plain["ttft_s"])


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("mtp_tokens", "-1"),
        ("max_num_seqs", "many"),
        ("memory_fraction", "1.5"),
        ("stream_interval", "0"),
        ("recv_interval", "1.5"),
    ],
)
def test_a_flag_that_cannot_be_is_named(column: str, cell: str):
    (row,) = price({**GOOD, column: cell})
    assert row["status"] == "invalid_value" and column in row["message"] and cell in row["message"]

"""Many simulations: each row is answered and runs once, over processes or a Dask cluster."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.question.question import Question
from app.question.verbs import parameters_of
from app.simulation import rows_file
from app.simulation.points import COLUMNS, KNOWN, digest, parse, simulate_row
from genz_core.errors import InvalidValue, MeasurementError

ROW = {
    "id": "a", "model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm",
    "concurrency": "4", "isl": "64", "osl": "8", "length_ratio": "0.5",
}  # fmt: skip


def written(path: Path, *rows: dict[str, str]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def answers(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_a_row_has_every_figure():
    row = simulate_row({**ROW, "ttft_target_s": "1"}, "d")
    assert row["status"] == "ok" and tuple(row) == COLUMNS
    of_tiers = [name for name in COLUMNS if "hit_share" in name or name == "loading_mean_s"]
    assert all(bool(row[name]) == (name not in of_tiers) for name in COLUMNS)
    assert float(row["ttft_p99_s"]) >= float(row["ttft_p50_s"]) > 0


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "nobody/nothing"}, "unknown_model", "nobody/nothing"),
        ({"tp": "3"}, "invalid_parallelism", "tp 3"),
        ({"rate": "2"}, "invalid_value", "concurrency and rate"),
        ({"isl": "long"}, "invalid_value", "isl = 'long': give a whole number"),
        ({"isl": "1.5"}, "invalid_value", "isl = 1.5: give a whole number"),
        ({"speculation": "ngram"}, "invalid_value", "no acceptance rate of ngram drafts is known"),
        ({"draft_tokens": "few"}, "invalid_value", "draft_tokens = 'few': give a whole number"),
        ({"mtp_tokens": "few"}, "invalid_value", "mtp_tokens = 'few': give a whole number"),
        ({"draft_tokens": "2"}, "invalid_value", "draft_tokens without speculation"),
        ({"prefill_system": "rtx-4090"}, "missing_spec", "give transfer_gbps"),
        ({"prefix_caching": "maybe"}, "invalid_value", "give true or false"),
        ({"trace": "absent.csv"}, "invalid_value", "not concurrency and trace"),
        ({"concurrency": "", "trace": "absent.csv"}, "invalid_value", "leave out length_ratio"),
    ],
)
def test_a_row_that_cannot_be_simulated_says_why(change, status, words):
    row = simulate_row({**ROW, **change}, "d")
    assert row["status"] == status and words in row["message"] and not row["ttft_p50_s"]


def test_the_columns_are_the_parameters_of_a_simulation():
    assert set(parameters_of("simulate")) <= set(KNOWN)
    assert {"id", "mtp_tokens", "max_running_requests"} <= set(KNOWN)
    assert not {"batch", "images", "capex"} & set(KNOWN)


def test_cells_are_read_in_the_kind_of_their_column():
    asked = parse(
        {**ROW, "tp": "2", "prefix_caching": "False", "router": "prefix", "replicas": "2",
         "tpot_target_s": "0.02", "max_num_seqs": "16", "seed": "3", "kv": "", "notes": "hello",
         "burst_start": "true"}
    )  # fmt: skip
    assert asked.question == Question(
        model=ROW["model"], system="h100", engine="vllm", concurrency=4, isl=64, osl=8,
        length_ratio=0.5, tp=2, prefix_caching=False, router="prefix", replicas=2,
        tpot_target_s=0.02, max_num_seqs=16, seed=3, burst_start=True,
    )  # fmt: skip


def test_rows_state_drafts_and_a_prefill_pool():
    question = parse(
        {**ROW, "speculation": "ngram", "acceptance": "0.9,0.5", "prefill_system": "b200",
         "prefill_tp": "2", "transfer_latency_us": "5", "layer_wise": "true"}
    ).question  # fmt: skip
    assert (question.speculation, question.acceptance) == ("ngram", "0.9,0.5")
    assert (question.prefill_system, question.prefill_tp) == ("b200", 2)
    assert question.transfer_latency_us == 5.0 and question.layer_wise


@pytest.mark.parametrize(
    ("cells", "speculation", "tokens"),
    [
        ({"mtp_tokens": "2"}, "mtp", 2),
        ({"mtp_tokens": "0"}, "", None),
        ({"speculation": "mtp", "draft_tokens": "0"}, "mtp", 0),
    ],
)
def test_mtp_tokens_are_drafts_of_the_models_own_module(cells, speculation, tokens):
    question = parse({**ROW, **cells}).question
    assert (question.speculation, question.draft_tokens) == (speculation, tokens)


def test_drafts_of_no_tokens_are_none():
    drafted = ROW | {"speculation": "mtp", "draft_tokens": "0"}
    assert simulate_row(drafted, "d") == simulate_row(ROW, "d")


def test_a_question_is_known_by_its_cells_and_the_files_it_names(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text("1")
    rows = [ROW, ROW | {"isl": "65"}, ROW | {"trace": str(trace)}]
    before = [digest(row) for row in rows]
    trace.write_text("12")
    after = [digest(row) for row in rows]
    assert len(set(before)) == 3
    assert before[:2] == after[:2] and before[2] != after[2]
    assert digest(ROW) == digest(ROW | {"seed": "", "my notes": "hello"})


@pytest.mark.slow
def test_only_rows_without_an_answer_are_run_and_a_stopped_run_goes_on(tmp_path):
    rows = [{**ROW, "id": str(at), "isl": str(32 + at)} for at in range(3)]
    source, target = written(tmp_path / "in.csv", *rows), tmp_path / "out.csv"
    stopped = rows_file.run_file(source, target, 1, cancelled=lambda: True)
    assert not stopped.complete and answers(target) == list(stopped.rows)
    first = rows_file.run_file(source, target, 2)
    assert first.kept == len(stopped.rows) < 3 and first.complete
    assert [row["id"] for row in answers(target)] == ["0", "1", "2"]
    target.write_text(target.read_text().replace(",ok,", ",kept,"))
    source = written(tmp_path / "in.csv", ROW | {"id": "b"}, *rows)
    seen: list[str] = []
    second = rows_file.run_file(source, target, 1, progress=lambda _, what: seen.append(what))
    assert second.kept == 3 and seen[-1] == "4 of 4 rows"
    states = [(row["id"], row["status"]) for row in answers(target)]
    assert states == [("b", "ok"), *((row["id"], "kept") for row in rows)]


@pytest.mark.slow
def test_an_empty_file_of_answers_is_filled(tmp_path):
    target = tmp_path / "out.csv"
    target.touch()
    assert rows_file.run_file(written(tmp_path / "in.csv", ROW), target, 1).complete
    assert [row["status"] for row in answers(target)] == ["ok"]


def test_a_file_that_holds_something_else_is_not_overwritten(tmp_path):
    target = tmp_path / "precious.csv"
    target.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValue, match="is not a result file of this command"):
        rows_file.run_file(written(tmp_path / "in.csv", ROW), target)
    assert target.read_text() == "a,b\n1,2\n"


def test_a_cluster_that_does_not_answer_is_one_sentence(tmp_path, monkeypatch):
    import distributed

    monkeypatch.setattr(distributed.Client, "__init__", _refused)
    with pytest.raises(MeasurementError, match="no Dask scheduler answers at tcp://nobody"):
        rows_file.run_file(
            written(tmp_path / "in.csv", ROW), tmp_path / "o.csv", 0, "tcp://nobody:1"
        )


def _refused(self, *_arguments, **_keywords):
    raise OSError("refused")


def test_two_workers_of_a_cluster_answer_as_this_machine_does(tmp_path):
    import distributed

    source = written(
        tmp_path / "in.csv", *({**ROW, "id": str(at), "seed": str(at)} for at in range(4))
    )
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        there = rows_file.run_file(source, tmp_path / "there.csv", 0, cluster.scheduler_address)
    here = [simulate_row(row, digest(row)) for row in answers(source)]
    assert list(there.rows) == here and there.complete

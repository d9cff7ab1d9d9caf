"""Many simulations: every row answered, none run twice, over processes or a Dask cluster."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.scenario.drafting import Drafting
from app.simulation import fleet
from app.simulation.disaggregation import PrefillPool
from app.simulation.points import COLUMNS, digest, parse, simulate_row
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
    assert all(row[name] for name in COLUMNS)
    assert float(row["ttft_p99_s"]) >= float(row["ttft_p50_s"]) > 0


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "nobody/nothing"}, "unknown_model", "nobody/nothing"),
        ({"tp": "3"}, "invalid_parallelism", "tp 3"),
        ({"rate": "2"}, "invalid_value", "concurrency and rate"),
        ({"isl": "long"}, "invalid_value", "isl = 'long' is no number"),
        ({"isl": "1.5"}, "invalid_value", "isl = '1.5' is no whole number"),
        ({"speculation": "ngram"}, "invalid_value", "acceptance of ngram drafts is not known"),
        ({"draft_tokens": "few"}, "invalid_value", "draft_tokens = 'few' is no number"),
        ({"prefill_system": "rtx-4090"}, "missing_spec", "give transfer_gbps"),
        ({"prefix_caching": "maybe"}, "invalid_value", "give true or false"),
        ({"trace": "absent.csv"}, "invalid_value", "not concurrency and trace"),
        ({"concurrency": "", "trace": "absent.csv"}, "invalid_value", "leave out length_ratio"),
    ],
)
def test_a_row_that_cannot_be_simulated_says_why(change, status, words):
    row = simulate_row({**ROW, **change}, "d")
    assert row["status"] == status and words in row["message"] and not row["ttft_p50_s"]


def test_cells_are_read_in_the_kind_of_their_column():
    scenario, settings = parse(
        {**ROW, "tp": "2", "prefix_caching": "False", "router": "prefix", "replicas": "2",
         "tpot_target_s": "0.02", "max_num_seqs": "16", "seed": "3"}
    )  # fmt: skip
    assert scenario.tp == 2 and settings.router == "prefix" and settings.replicas == 2
    assert not settings.options.prefix_caching and settings.options.max_num_seqs == 16
    assert settings.targets == {"tpot_s": 0.02} and settings.load.seed == 3


def test_rows_state_drafts_and_a_prefill_pool():
    _, settings = parse(
        {**ROW, "speculation": "ngram", "acceptance": "0.9,0.5", "prefill_system": "b200",
         "prefill_tp": "2", "transfer_latency_us": "5", "layer_wise": "true"}
    )  # fmt: skip
    assert settings.drafting == Drafting("ngram", acceptance=(0.9, 0.5))
    assert settings.prefill == PrefillPool(
        "b200", prefill_tp=2, transfer_latency_us=5.0, layer_wise=True
    )


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


def test_only_rows_without_an_answer_are_run(tmp_path):
    target = tmp_path / "out.csv"
    first = fleet.run_file(written(tmp_path / "in.csv", ROW), target, workers=1)
    assert first.kept == 0 and first.complete
    target.write_text(target.read_text().replace(",ok,", ",kept,"))
    source = written(tmp_path / "in.csv", ROW | {"id": "b", "isl": "32"}, ROW)
    seen: list[str] = []
    second = fleet.run_file(source, target, 1, progress=lambda _, what: seen.append(what))
    assert second.kept == 1 and seen[-1] == "2 of 2 rows"
    assert [(row["id"], row["status"]) for row in answers(target)] == [("b", "ok"), ("a", "kept")]


def test_a_run_that_is_stopped_leaves_a_whole_file_to_go_on_from(tmp_path):
    source = written(tmp_path / "in.csv", *({**ROW, "id": str(at)} for at in range(3)))
    target = tmp_path / "out.csv"
    stopped = fleet.run_file(source, target, 1, cancelled=lambda: True)
    assert not stopped.complete and answers(target) == list(stopped.rows)
    assert fleet.run_file(source, target, 2).complete
    assert [row["id"] for row in answers(target)] == ["0", "1", "2"]


def test_a_file_that_holds_something_else_is_not_overwritten(tmp_path):
    target = tmp_path / "precious.csv"
    target.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValue, match="holds something else"):
        fleet.run_file(written(tmp_path / "in.csv", ROW), target)
    assert target.read_text() == "a,b\n1,2\n"


def test_a_cluster_that_does_not_answer_is_one_sentence(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed.Client, "__init__", _refused)
    with pytest.raises(MeasurementError, match="no Dask scheduler answers at tcp://nobody"):
        fleet.run_file(written(tmp_path / "in.csv", ROW), tmp_path / "o.csv", 0, "tcp://nobody:1")


def _refused(self, *_arguments, **_keywords):
    raise OSError("refused")


def test_two_workers_of_a_cluster_answer_as_this_machine_does(tmp_path):
    distributed = pytest.importorskip("distributed")
    source = written(
        tmp_path / "in.csv", *({**ROW, "id": str(at), "seed": str(at)} for at in range(4))
    )
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        there = fleet.run_file(source, tmp_path / "there.csv", 0, cluster.scheduler_address)
    here = [simulate_row(row, digest(row)) for row in answers(source)]
    assert list(there.rows) == here and there.complete

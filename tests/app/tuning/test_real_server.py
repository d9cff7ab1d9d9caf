"""Servers started by commands: measured, crashing, resumed, and refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.question.query import ask
from app.tuning.answer import answer
from app.tuning.real_server import Commands
from app.tuning.template import filled
from genz_core.errors import InvalidValue, MeasurementError

SERVER = (
    f"{sys.executable} -m tests.app.tuning.small_server --port {{port}} "
    "[[--max-num-seqs {max_num_seqs}]]"
)
GIVEN = {
    "model": "Qwen/Qwen3-0.6B", "system": "h100", "engine": "vllm", "concurrency": 4,
    "burst_start": True, "requests": 8, "isl": 16, "osl": 8, "max_num_seqs": "2,4,64",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(Path(__file__).parents[3])


def commands(**changes) -> Commands:
    return Commands(**{"server": SERVER, "client": "own", "start_s": 30.0, **changes})


@pytest.mark.slow
def test_a_server_is_run_until_the_end_and_taken_up_where_it_stopped(tmp_path: Path, own_data):
    question, folder = ask("tune", GIVEN), tmp_path / "study"
    one = answer(question, runs=1, within=0.0, commands=commands(), folder=folder)
    assert [r.number for r in one.records] == [1] and "budget" in one.stop
    (folder / "runs" / "0002").mkdir()
    (folder / "runs" / "0002" / "server.log").write_text("it was ended here")
    done = answer(question, runs=9, within=0.0, level=99.0, commands=commands(), folder=folder)
    assert done.records[0] == one.records[0]
    assert (folder / "runs" / "0002-interrupted" / "server.log").exists()
    statuses = {r.setting["max_num_seqs"]: r.outcome for r in done.records}
    failed = statuses[64]
    assert failed.status == "failed" and "code 1 before it was ready" in failed.why
    assert failed.log[-1].endswith("out of memory. Tried to allocate 2.00 GiB")
    assert done.best.setting["max_num_seqs"] == 4
    assert done.best.outcome.figures["tpot"] == pytest.approx(0.02, rel=0.5)
    kept = json.loads((folder / "runs" / "0001" / "run.json").read_text())
    assert kept["setting"] == dict(done.records[0].setting)
    report = (folder / "report.md").read_text()
    assert "out of memory" in report and "best of 3 runs of 3 settings" in report
    again = answer(question, runs=9, within=0.0, level=99.0, commands=commands(), folder=folder)
    assert again.records == done.records


def test_a_folder_of_another_search_is_refused(tmp_path: Path):
    folder = tmp_path / "study"
    answer(ask("tune", GIVEN), folder=folder, dry_run=True, runs=1)
    with pytest.raises(InvalidValue, match=r"isl \(16 there, 32 now\)"):
        answer(ask("tune", {**GIVEN, "isl": 32}), folder=folder, dry_run=True)
    with pytest.raises(InvalidValue, match="the simulator there"):
        answer(ask("tune", GIVEN), folder=folder, commands=commands())
    (folder / "runs" / "0001" / "run.json").write_text("{")
    with pytest.raises(InvalidValue, match=r"run\.json is damaged"):
        answer(ask("tune", GIVEN), folder=folder, dry_run=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(InvalidValue, match="holds other files"):
        answer(ask("tune", GIVEN), folder=tmp_path / "other", dry_run=True)


def test_a_client_that_fails_says_nothing_of_the_setting(tmp_path: Path, own_data):
    client = f"{sys.executable} -c \"import sys; sys.exit('no route')\" {{result}}"
    done = answer(
        ask("tune", {**GIVEN, "max_num_seqs": "2,4"}), runs=1, folder=tmp_path / "study",
        commands=commands(client=client),
    )  # fmt: skip
    [run] = done.records
    assert run.outcome.status == "no result" and "code 1" in run.outcome.why
    assert run.outcome.log == ("no route",)


def test_words_of_a_command_are_filled_and_left_out():
    values = {"model": "a b", "max_num_seqs": 0, "kv": "fp8", "port": 8000}
    words = filled(
        "serve {model} -p {port} [[--seqs {max_num_seqs}]] [[--kv {kv}]] --json '{\"a\": 1}'",
        values,
    )
    assert words == ["serve", "a b", "-p", "8000", "--kv", "fp8", "--json", '{"a": 1}']


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"server": "vllm serve {modle} --port {port}"}, "{modle}, which is not a parameter"),
        ({"server": f"{sys.executable} serve"}, "lacks {port}"),
        ({"server": "'"}, "cannot be split"),
        ({"server": ""}, "is empty"),
        ({"client": "bench {address}"}, "names no {result}"),
        ({"server": "[[x {port}"}, "do not match"),
    ],
)
def test_a_command_that_cannot_be_one_is_refused(changes, said):
    with pytest.raises(InvalidValue) as refused:
        commands(**changes)
    assert said in str(refused.value)


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(MeasurementError, match="no-such-server was not found"):
        commands(server="no-such-server --port {port}")

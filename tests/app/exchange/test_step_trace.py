"""A step as traces: its sums, groups of ranks, and refusals."""

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ridgeline
from starlette.testclient import TestClient

from app.api.answers import Answers
from app.api.rest import application
from app.exchange import chakra, step_trace
from genz_core.errors import InvalidValue
from tests.app.commands.test_cli import fail, run

MOE, DENSE = "mistralai/Mixtral-8x7B-v0.1", "meta-llama/Llama-3.1-8B"


def made(model: str, phase: str = "decode", **given: int) -> tuple[Any, dict[str, bytes]]:
    answer = ridgeline.estimate(model, system="h100", batch=8, **given)
    degrees = {name: given.get(name, 1) for name in ("tp", "pp", "dp", "cp")}
    return answer, step_trace.files(answer, phase, degrees)


@pytest.mark.parametrize("phase", step_trace.PHASES)
@pytest.mark.parametrize(("model", "degrees"), [(DENSE, {"tp": 2}), (MOE, {"tp": 2, "ep": 2})])
def test_a_trace_sums_to_its_step(model: str, degrees: dict[str, int], phase: str) -> None:
    answer, files = made(model, phase, **degrees)
    about, rows = step_trace.read_rows(files["step.1.et"])
    seconds = sum(row["predicted_s"] for row in rows)
    priced = answer.operators(phase)
    assert seconds == pytest.approx(about["step_s"], rel=1e-9)
    assert sum(row["flops"] for row in rows) == pytest.approx(
        float((priced["flops"] * priced["runs"]).sum()), rel=1e-6
    )
    assert {row["name"] for row in rows} == {*priced["name"], "host"}


def test_each_node_waits_for_the_one_before() -> None:
    _, files = made(DENSE, tp=2)
    _, nodes = chakra.read(files["step.0.et"])
    assert [node.after for node in nodes] == [(), *((node.id - 1,) for node in nodes[1:])]
    assert sum(node.name.endswith("attention_all_reduce") for node in nodes) == 32


def test_ranks_of_a_group_share_its_number() -> None:
    _, files = made(MOE, tp=2, dp=2, ep=4)
    groups = {name: tuple(ranks) for name, ranks in json.loads(files["groups.json"]).items()}
    of_rank = []
    for rank in range(4):
        _, nodes = chakra.read(files[f"step.{rank}.et"])
        named = {node.attributes["pg_name"] for node in nodes if node.kind == "collective"}
        assert all(rank in groups[name] for name in named)
        of_rank.append({groups[name] for name in named})
    assert (0, 1) in of_rank[0] and (0, 1) in of_rank[1] and (2, 3) in of_rank[2]
    assert all((0, 1, 2, 3) in named for named in of_rank)


def test_one_device_sends_nothing() -> None:
    _, files = made(DENSE)
    assert set(files) == {"step.0.et", "groups.json", "network.yml"}
    assert all(row["kind"] == "compute" for row in step_trace.read_rows(files["step.0.et"])[1])


@pytest.mark.parametrize("degrees", [{"pp": 4}, {"tp": 2, "pp": 2}, {"pp": 2, "dp": 2}])
def test_stages_of_a_pipeline_hand_their_tokens_on(degrees: dict[str, int]) -> None:
    answer, files = made(DENSE, **degrees)
    traces = {int(name.split(".")[1]): chakra.read(content)
              for name, content in files.items() if name.endswith(".et")}  # fmt: skip
    by_stage: dict[int, float] = {}
    layers: dict[int, set[str]] = {}
    for rank, (about, nodes) in traces.items():
        stage = about.get("stage", 0)
        by_stage[stage] = sum(node.attributes["seconds"] for node in nodes)
        layers[stage] = {n.name.split(".")[1] for n in nodes if n.name.startswith("layers.")}
        for node in nodes:
            if node.kind == "send":
                there = node.attributes["comm_dst"]
                received = [one.attributes for one in traces[there][1] if one.kind == "receive"]
                assert [one["comm_src"] for one in received] == [rank]
                assert received[0]["comm_size"] == node.attributes["comm_size"] > 0
    stages = degrees["pp"]
    assert set(by_stage) == set(range(stages))
    assert [len(layers[at]) for at in range(stages)] == [32 // stages] * stages
    step = answer.engine_estimate.decode
    assert sum(by_stage.values()) == pytest.approx(float((step.total_s - step.pipeline_s)[0]))


def test_another_phase_is_refused() -> None:
    with pytest.raises(InvalidValue, match="choose prefill or decode"):
        made(DENSE, "training")


@pytest.mark.parametrize("wrong", [{"num_ops": "many"}, {"comm_type": float("nan")}])
def test_an_attribute_that_is_no_number_is_named(wrong: dict[str, Any]) -> None:
    file = BytesIO()
    chakra.write(file, [chakra.Node(7, "odd", "collective", attributes=wrong)], {})
    with pytest.raises(InvalidValue, match=f"node 7 .odd.: {next(iter(wrong))}"):
        step_trace.read_rows(file.getvalue())


def test_the_commands_write_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("export", DENSE, "--system", "h100", "--tp", "2", "--output", str(tmp_path))
    document = json.loads(run("chakra", str(tmp_path / "step.1.et"), "--json"))
    assert document["rank"] == 1
    assert np.isclose(sum(row["predicted_s"] for row in document["rows"]), document["step_s"])
    said = fail(monkeypatch, capsys, "chakra", str(tmp_path / "network.yml"))
    assert "not a Chakra trace" in said
    said = fail(monkeypatch, capsys, "export", DENSE, "--concurrency", "4")
    assert "concurrency does not apply to export: leave it out" in said
    with pytest.raises(InvalidValue, match="give one number"):
        ridgeline.export(DENSE, system="h100", batch=[1, 2])


def test_every_interface_gives_the_same_files(tmp_path: Path) -> None:
    files = ridgeline.export(DENSE, system="h100", tp=2, pp=2, output=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    with TestClient(application(answers=Answers())) as api:
        body = {"model": DENSE, "system": "h100", "tp": 2, "pp": 2}
        sent = {one["name"]: one for one in api.post("/export", json=body).json()["files"]}
        assert sent.keys() == files.keys()
        for name, content in files.items():
            found = sent[name]
            assert found["bytes"] == len(content)
            if name.endswith(".et"):
                assert base64.b64decode(found["base64"]) == content
            else:
                assert found["text"].encode() == content
        trace = api.post("/chakra", files={"file": ("step.3.et", files["step.3.et"])}).json()
        assert trace == ridgeline.chakra(tmp_path / "step.3.et")
        refused = api.post("/chakra", files={"file": ("step.et", b"no trace")})
        assert refused.status_code == 422

"""A step as traces: the sums of the step, groups of ranks, and what is refused."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ridgeline

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


def test_pipelines_and_other_phases_are_refused() -> None:
    with pytest.raises(InvalidValue, match="pp = 2"):
        made(DENSE, pp=2)
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
    assert "no Chakra trace" in said
    said = fail(monkeypatch, capsys, "export", DENSE, "--concurrency", "4")
    assert "one static batch" in said

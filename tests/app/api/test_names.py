"""At every interface a typed name means the same checkpoint and board, and the answer lists other
matches.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ridgeline
from starlette.testclient import TestClient

from genz_core.errors import RidgelineError
from tests.app.api.test_mcp import asked, refused
from tests.app.commands.test_cli import fail, run

Row = dict[str, Any]
#: Names, the checkpoint or board each means, and what the answer says about it.
BARE = [
    ("Qwen3-235B-A22B", "H200", "Qwen/Qwen3-235B-A22B", "h200-sxm-141gb",
     "H200 is taken as h200-sxm-141gb, not h200-nvl-141gb"),
    ("qwen3-8b", "A100", "Qwen/Qwen3-8B", "a100-sxm4-80gb",
     "not a100-pcie-40gb, a100-pcie-80gb or a100-sxm4-40gb"),
    ("Mixtral", "mi300", "mistralai/Mixtral-8x7B-v0.1", "mi300x",
     "mi300 is taken as mi300x, not mi300a"),
    ("Mixtral", "h100-sxm5-80gb", "mistralai/Mixtral-8x7B-v0.1", "h100-sxm5-80gb",
     "not mistralai/Mixtral-8x22B-v0.1"),
]  # fmt: skip


def by_python(model: str, system: str, *_: object) -> Row:
    return ridgeline.estimate(model, system=system, tp=8).to_dict()


def by_command(model: str, system: str, *_: object) -> Row:
    return json.loads(run("estimate", model, "--system", system, "--tp", "8", "--json"))


def by_rest(model: str, system: str, _: Path, api: TestClient) -> Row:
    answer = api.post("/estimate", json={"model": model, "system": system, "tp": 8})
    return answer.json()["rows"][0]


def by_mcp(model: str, system: str, *_: object) -> Row:
    return asked("estimate", model=model, system=system, tp=8)["rows"][0]


def by_points(model: str, system: str, folder: Path, *_: object) -> Row:
    """The row of a points file, whose answers name neither model nor system."""
    (folder / "in.csv").write_text(
        f"id,model,system,engine,tp,isl,osl,batch\n1,{model},{system},generic,8,1024,128,1\n"
    )
    run("estimate", "--points", str(folder / "in.csv"), "--output", str(folder / "out.csv"))
    with (folder / "out.csv").open() as file:
        return next(csv.DictReader(file))


INTERFACES = (by_python, by_command, by_rest, by_mcp, by_points)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("ask", INTERFACES)
def test_a_bare_name_is_its_checkpoint_and_its_board(
    ask: Callable[[str, str, Path, TestClient], Row], tmp_path: Path, api: TestClient
):
    for model, system, checkpoint, board, said in BARE:
        answer = ask(model, system, tmp_path, api)
        exact = ask(checkpoint, board, tmp_path, api)
        assert said in answer["message"]
        assert said not in exact["message"]
        assert float(answer["ttft_s"]) == float(exact["ttft_s"])
        if ask is not by_points:
            assert (answer["model"], answer["system"]) == (checkpoint, board)


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"model": "Qwen3-8B", "system": "epyc"}, "it fits epyc-9654, epyc-9755, epyc-9965"),
        ({"model": "gpt-oss", "system": "h200"}, "it fits openai/gpt-oss-20b, openai/gpt-oss-120b"),
    ],
)
def test_a_name_that_fits_several_is_refused_with_their_names(
    given: dict[str, str], fits: str, tmp_path: Path, api: TestClient, monkeypatch, capsys
):
    with pytest.raises(RidgelineError, match=f"{fits}: say which"):
        ridgeline.estimate(**given)
    model, system = given.values()
    assert fits in fail(monkeypatch, capsys, "estimate", model, "--system", system)
    assert fits in api.post("/estimate", json=given).json()["error"]["message"]
    assert fits in refused("estimate", **given)
    row = by_points(model, system, tmp_path)
    assert row["status"].startswith("unknown_") and fits in row["message"]


@pytest.mark.parametrize("verb", ["serve", "simulate"])  # in the server's process, in a worker
@pytest.mark.parametrize(
    ("given", "lists"),
    [
        ({"model": "nosuch", "system": "h100"}, "models"),
        ({"model": "hf:nobody/nosuch", "system": "h100"}, "models"),
        ({"model": "llama-3.1-8b", "system": "nosuch"}, "systems"),
    ],
)
def test_a_request_is_advised_to_give_what_a_request_can(
    verb, given, lists, api, monkeypatch, capsys
):
    asked = given | {"concurrency": 1}
    said = f"GET /{lists}, or the tool `{lists}`, lists all; a request cannot use a file"
    assert said in api.post(f"/{verb}", json=asked).json()["error"]["message"]
    assert said in refused(verb, **asked)
    typed = fail(monkeypatch, capsys, verb, given["model"], "--system", given["system"],
                 "--concurrency", "1")  # fmt: skip
    assert "GET /" not in typed and ("YAML" in typed or "config.json" in typed or "hub" in typed)


def test_the_library_advises_so_too(api):
    for address in ("/systems/nosuch", "/models/nosuch"):
        assert "cannot use a file" in api.get(address).json()["error"]["message"]

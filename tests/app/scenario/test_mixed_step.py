"""A typed mixed step has the price that the engine computes for its groups."""

from __future__ import annotations

import json
import shlex

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.question.question import Question
from app.scenario.mixed_step import parse_groups, price
from app.scenario.scenario import resolve
from genz_core.errors import InvalidValue
from genz_core.phases import mixed
from genz_core.types import Group

SCENARIO = Question(model="meta-llama/Llama-3.1-8B", system="h100", engine="vllm")


def test_groups_are_read_as_they_are_typed():
    assert parse_groups("1x512, 2x256@1024", "64x2048") == (
        Group(1.0, 512.0, 0.0), Group(2.0, 256.0, 1024.0), Group(64.0, 1.0, 2048.0),
    )  # fmt: skip


def test_a_mixed_step_costs_less_than_its_parts_one_after_another_and_more_than_either():
    resolved = resolve(SCENARIO)
    both, prompts, decodes = (
        float(price(resolved, parse_groups(*texts)).total_s[0])
        for texts in (("1x512", "64x2048"), ("1x512", ""), ("", "64x2048"))
    )
    assert max(prompts, decodes) < both < prompts + decodes


def test_the_command_prints_the_price_of_the_groups():
    command = "estimate meta-llama/Llama-3.1-8B --system h100 --engine vllm --prefill 1x512 "
    ran = CliRunner().invoke(cli, shlex.split(command + "--decode 64x2048 --json"))
    assert ran.exit_code == 0, ran.output
    named = json.loads(ran.stdout)
    resolved = resolve(SCENARIO)
    groups = (Group(1.0, 512.0, 0.0), Group(64.0, 1.0, 2048.0))
    own = mixed(resolved.model, resolved.system, groups, None, resolved.engine)
    assert named["step_s"] == pytest.approx(float(own.total_s[0]))
    assert named["bound_step_s"] <= named["step_s"]
    assert (named["sequences"], named["tokens"]) == (65, 576)
    spent = sum(row["predicted_s"] for row in named["operators"])
    assert spent + named["host_s"] + named["pipeline_s"] == pytest.approx(named["step_s"])


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [("", ""), ("512", ""), ("0x5", ""), ("1x", ""), ("", "4x8@2"), ("1x1," * 99, ""),
     ("9" * 30 + "x1", "")],
)  # fmt: skip
def test_what_is_no_step_is_refused(prefill, decode):
    with pytest.raises(InvalidValue):
        parse_groups(prefill, decode)

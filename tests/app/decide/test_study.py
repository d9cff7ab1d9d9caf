"""Technology studies: those in the documents run, and results change as the physics predicts."""

import json
import re
from pathlib import Path

import pytest

from app.charts import chip_lab, labels, style
from app.decide.study import study
from genz_core.errors import InvalidValue
from hardware_db import yaml_document
from tests.app.commands.test_cli import run

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "app" / "samples"
HBM4_OVER_H200 = 6 * 2048 * 8.0e9 / 8 / 4.8e12  # six stacks at the standard's rate, datasheet


def rows_of(name: str) -> list[dict]:
    return list(study(yaml_document.read(SAMPLES / "studies" / f"{name}.yaml")).rows)


def test_hbm4_shortens_the_least_time_of_memory_by_its_bandwidth():
    rows = rows_of("hbm4")
    assert len(rows) == 3 * 2 and all(row["status"] == "ok" for row in rows)
    now, hbm4 = rows[0], rows[2]
    # The share that is bound by memory falls by the bandwidth factor; messages stay.
    gain = now["bound_tpot_s"] / hbm4["bound_tpot_s"]
    assert 0.95 * HBM4_OVER_H200 < gain < HBM4_OVER_H200
    assert hbm4["tpot_s"] < now["tpot_s"] and hbm4["ttft_s"] > 0.9 * now["ttft_s"]
    assert hbm4["usd_per_million_tokens"] < now["usd_per_million_tokens"]
    assert now["decode_bound_by"].startswith("memory")
    assert now["prefill_bound_by"].startswith("compute")


def test_names_beside_the_bars_are_wrapped_for_a_telephone():
    figure = chip_lab.bars(rows_of("hbm4"), "tpot_s", "HBM4", style.LIGHT)
    names = [name for trace in figure.document()["data"] for name in trace["y"]]
    assert len(names) == len(set(names)) == 6 and any("<br>" in name for name in names)
    assert all(labels.width(name, 12.0) < labels.TELEPHONE / 2 for name in names)


def test_a_chip_of_little_arithmetic_gains_nothing_from_drafts():
    rows = {(row["chip"], row["technique"]): row for row in rows_of("decode-chip")}
    whole = [rows["H200 as it is", one]["tpot_s"] for one in ("plain", "drafts")]
    little = [rows["a quarter of the arithmetic", one]["tpot_s"] for one in ("plain", "drafts")]
    assert whole[1] < whole[0] and little[1] > little[0]
    assert rows["a quarter of the arithmetic", "plain"]["decode_bound_by"].startswith("compute")


def test_four_bit_caches_at_a_million_tokens_by_hand():
    """80 layers x 2 x 8 heads x 128 for a million tokens on four devices, read once per step."""
    rows = {(row["format"], row["technique"]): row for row in rows_of("four-bit-caches")}
    elements = 80 * 2 * 8 * 128 * (1_000_000 + 256) / 4
    saved = rows["16-bit cache", "cache as it is"]["bound_tpot_s"]
    saved -= rows["8-bit cache", "cache as it is"]["bound_tpot_s"]
    assert saved == pytest.approx(elements * 1.0 / 4.8e12, rel=0.02)
    heads = rows["16-bit cache", "half the KV heads"]["bound_tpot_s"]
    assert heads == pytest.approx(rows["8-bit cache", "cache as it is"]["bound_tpot_s"], rel=0.03)


def test_every_command_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^ridgeline (.*)$", (ROOT / "docs" / "studies.md").read_text(), re.M)
    assert len(commands) == 3
    for command in commands:
        words = command.replace("hbm4.svg", str(tmp_path / "hbm4.svg")).split()
        assert json.loads(run(*words, "--json"))
    chart = (tmp_path / "hbm4.svg").read_text()
    assert "What would HBM4 bring" in chart and "six stacks of HBM4, 16 bit" in chart
    bars = [float(one) for one in re.findall(r'width="([\d.]+)" height="16"', chart)]
    speeds = [row["output_tokens_per_s_per_device"] for row in rows_of("hbm4")]
    assert bars == pytest.approx([300 * speed / max(speeds) for speed in speeds], abs=0.06)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1]", "must be a mapping"),
        ("a: [", "not valid YAML"),
        ("a: &x [1]\nb: *x", "anchors"),
        ("title: x", "a study needs a question"),
        ("{question: {}, colour: red}", "'colour' is not a key of a study"),
        ("{question: {model: gpt2}, chips: [{peak: 2}]}", "a name each"),
        ("{question: {model: gpt2}, chips: [{name: a}, {name: a}]}", "a name appears twice"),
        ("{question: {model: gpt2}, chips: [{name: a, peak: two}]}", "peak = 'two'"),
        ("{question: {model: gpt2}, chips: [{name: a, memory: HBM9, stacks: 4}]}", "HBM9"),
        ("{question: {model: gpt2}, techniques: [{name: a, config: 3}]}", "keys of the model's"),
        ("{question: {model: gpt2, batch: [1, 2]}}", "give numbers, not lists"),
        ("{question: {model: gpt2, colour: 3}}", "colour"),
    ],
)
def test_what_is_no_study_is_refused(text, sentence):
    with pytest.raises(InvalidValue, match=sentence):
        study(yaml_document.parse(text))

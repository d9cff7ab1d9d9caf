"""ridgeline watch: a live page, its gauges, its dashboard, and the documented example."""

from __future__ import annotations

import doctest
import json
import math
import threading
import urllib.request
from itertools import chain, repeat
from pathlib import Path

import pytest

from app.question.query import ask
from app.watching.exporter import ALARMS, GAUGES, UP, Exporter
from app.watching.follow import follow
from app.watching.grafana import dashboard
from app.watching.pages import Look
from app.watching.watch import Watcher
from genz_core.errors import InvalidValue, MeasurementError
from tests.app.watching.simulated_pages import in_turn, looks
from tests.profilers.collect.serving.sse_server import serving

GIVEN = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm"}
OPTIONS = ("--model", GIVEN["model"], "--system", "h100", "--engine", "vllm")
DOCUMENT = Path(__file__).parents[3] / "docs" / "watch.md"


def pages(seconds: float, every: float):
    load = {**GIVEN, "rate": 4.0, "isl": 1024, "osl": 128}
    return looks(in_turn([(load, seconds, 1.0)]), "vllm", seconds, every)


def test_the_documented_example_names_its_cause(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calm = {**GIVEN, "rate": 4, "isl": 1024, "osl": 128}
    served = in_turn([(calm, 300, 1.0), ({**calm, "rate": 14}, 300, 1.0)])
    recorded = (look.line() for look in looks(served, "vllm", until_s=600))
    Path("looks.jsonl").write_text("\n".join(recorded) + "\n")
    done = doctest.testfile(str(DOCUMENT), module_relative=False)
    assert done.attempted > 2 and not done.failed


def test_a_live_page_is_recorded_and_a_recording_is_watched(answer, tmp_path: Path):
    texts = [one.page for one in pages(60.0, 20.0)]
    record, board = tmp_path / "looks.jsonl", tmp_path / "board.json"
    with serving(page=chain(texts, repeat(texts[-1]))) as server:
        told = answer(
            "watch", server.address, *OPTIONS, "--every", 0.2, "--seconds", 0.7,
            "--window", 1, "--record", record, "--dashboard", board,
        )  # fmt: skip
    assert told["alarms"] == 0
    assert len(record.read_text().splitlines()) >= 3
    assert json.loads(board.read_text())["panels"]
    again = answer("watch", record, *OPTIONS)
    assert again["sentences"]


def test_a_page_that_cannot_be_reached_is_a_look_that_says_why():
    [look] = follow("http://127.0.0.1:9", 5.0, 0.01)
    assert not look.page and "cannot be read" in look.why


def test_refusals(ridgeline, tmp_path: Path):
    refused = ridgeline("watch", "http://192.0.2.1:8000", *OPTIONS).exception
    assert isinstance(refused, MeasurementError) and "--allow-remote" in str(refused)
    refused = ridgeline("watch", "http://localhost:8000").exception
    assert isinstance(refused, InvalidValue) and "name the model" in str(refused)


def test_gauges_are_those_of_the_latest_window_and_the_dashboard_asks_for_them():
    watcher = Watcher(ask("watch", GIVEN), 30.0)
    for look in pages(240.0, 10.0):
        watcher.look(look)
    exporter = Exporter(0)
    try:
        exporter.show(watcher)
        with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics") as found:
            text = found.read().decode()
        with pytest.raises(InvalidValue, match="cannot be opened"):
            Exporter(exporter.port)
    finally:
        exporter.close()
    assert not any("exporter" in one.name for one in threading.enumerate())
    last = watcher.windows[-1]
    values = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("ridgeline_watch")
    )
    measured = float(values['ridgeline_watch_measured_seconds{figure="tpot"}'])
    assert measured == pytest.approx(last.measured["tpot_s"])
    assert float(values['ridgeline_watch_ratio{figure="tpot"}']) == pytest.approx(1.0, abs=0.1)
    assert float(values[UP]) == 1.0
    asked = json.dumps(dashboard())
    assert all(name in asked for name in (*GAUGES, UP, ALARMS))
    names = {line.partition("{")[0].partition(" ")[0] for line in values}
    assert {*GAUGES, UP, f"{ALARMS}_total"} <= names


def test_a_gauge_of_what_the_latest_window_lacks_is_no_earlier_figure():
    watcher, exporter = Watcher(ask("watch", GIVEN), 30.0), Exporter(0)
    for look in pages(60.0, 10.0):
        lines = look.page.splitlines()
        if look.at == 60.0:
            lines = [line for line in lines if "time_to_first_token" not in line]
        watcher.look(Look(look.at, "\n".join(lines)))
        if look.at == 30.0:
            assert watcher.windows[-1].measured["ttft_s"] > 0
            exporter.show(watcher)
    exporter.show(watcher)
    exporter.close()
    name = "ridgeline_watch_measured_seconds"
    ttft, tpot = (
        exporter.registry.get_sample_value(name, {"figure": one}) for one in ("ttft", "tpot")
    )
    assert math.isnan(ttft) and tpot > 0

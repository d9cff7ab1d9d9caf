"""A watch of metrics pages from the simulator: every change has its cause, and no other
is named.
"""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path

import pytest

from app.question.query import ask
from app.watching import causes, kept_scale
from app.watching.answer import followed, of_looks
from app.watching.follow import RequestLog
from app.watching.pages import Look, recorded
from app.watching.prediction import Conditions, Pricing
from app.watching.watch import Watcher
from genz_core.errors import ReportError
from tests.app.watching.simulated_pages import ENGINES, in_turn, looks

GIVEN = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm"}
LOAD = {**GIVEN, "rate": 4.0, "isl": 1024, "osl": 128}
WINDOW, EVERY = 30.0, 5.0


def asked(engine: str, **more):
    return ask("watch", {**GIVEN, "engine": "vllm" if engine == "vllm" else engine, **more})


def load(engine: str, **more):
    return {**LOAD, "engine": engine, **more}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_of_three_changes_is_named_with_its_cause_within_a_minute(engine: str):
    calm = load(engine)
    parts = [
        (calm, 240, 1.0), (load(engine, rate=14.0), 240, 1.0),
        (load(engine, isl=4096), 240, 1.0), (load(engine, isl=4096), 240, 1.4),
    ]  # fmt: skip
    found = of_looks(asked(engine), looks(in_turn(parts), engine, 960.0, EVERY), WINDOW)
    assert [event.change.cause for event in found.alarms] == ["load", "lengths", "steps"]
    for event, change in zip(found.alarms, (240.0, 480.0, 720.0), strict=True):
        assert change < event.at <= change + 2 * WINDOW
        assert sum(event.change.parts.values()) == pytest.approx(math.log(event.change.ratio))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_fewer_cache_hits_are_named(engine: str):
    parts = [(load(engine, shared_tokens=4096, isl=256), 240, 1.0),
             (load(engine, isl=4352), 240, 1.0)]  # fmt: skip
    found = of_looks(asked(engine), looks(in_turn(parts), engine, 480.0, EVERY), WINDOW)
    assert [event.change.cause for event in found.alarms] == ["cache hits"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_hour_without_a_change_has_no_alarm(engine: str):
    served = in_turn([(load(engine), 3600, 1.0)])
    found = of_looks(asked(engine), looks(served, engine, 3600.0, 10.0), WINDOW)
    assert not found.alarms and len(found.windows) > 110
    assert found.drift["tpot_s"] == pytest.approx(1.0, abs=0.1)


def test_preemptions_are_named_where_they_rise():
    pricing = Pricing(asked("vllm"))
    where = Conditions(8.0, 1024, 128)
    found = causes.change(pricing, "tpot_s", 1.5, where, where, 0.3)
    assert found.cause == "preemptions"
    assert causes.change(pricing, "tpot_s", 1.5, where, where, 0.0).cause == "steps"
    more = Conditions(32.0, 1024, 128)
    ratio = pricing.at(more).values["tpot_s"] / pricing.at(where).values["tpot_s"]
    both = causes.change(pricing, "tpot_s", ratio, where, more, 0.0)
    assert both.cause == "load" and both.parts["steps"] == pytest.approx(0.0, abs=1e-9)


def test_llama_cpp_has_no_histograms_and_is_watched_by_its_sums():
    engine = "llama.cpp"
    served = in_turn([(load("vllm"), 300, 1.0), (load("vllm"), 180, 1.5)])
    question = asked("vllm", isl=1024, osl=128)
    found = of_looks(question, looks(served, engine, 480.0, EVERY), WINDOW)
    assert [event.change.cause for event in found.alarms] == ["steps"]
    assert found.windows[0].measured["tpot_s"] > 0
    assert all(math.isnan(window.preemptions) for window in found.windows)  # it lacks a counter
    unknown = of_looks(asked("vllm"), looks(served, engine, 120.0, EVERY), WINDOW)
    assert "are unknown" in unknown.events[0].sentence and not unknown.alarms


def without(name: str, one: Look) -> Look:
    """A sample of a page that lacks a figure."""
    return Look(one.at, "\n".join(line for line in one.page.splitlines() if name not in line))


def test_a_window_that_cannot_be_priced_is_no_part_of_an_alarm():
    served = in_turn([(LOAD, 240, 1.0), ({**LOAD, "rate": 14.0}, 240, 1.0)])
    looked = [
        without("request_prompt_tokens", one) if one.at == 300.0 else one
        for one in looks(served, "vllm", 480.0, EVERY)
    ]
    found = of_looks(asked("vllm"), looked, WINDOW)
    assert [event.kind for event in found.events] == ["note", "alarm"]
    [alarm] = found.alarms
    assert alarm.at == 330.0 and alarm.change.cause == "load"
    assert "nan" not in alarm.sentence
    assert sum(alarm.change.parts.values()) == pytest.approx(math.log(alarm.change.ratio))


def test_a_latency_of_zero_is_not_judged():
    looked = [
        Look(one.at, re.sub(r"(first_token_seconds_sum{.*}) .*", r"\1 0", one.page))
        if one.at > 200.0 else one
        for one in pages(360.0)
    ]  # fmt: skip
    found = of_looks(asked("vllm"), looked, WINDOW)
    assert not found.alarms


# ------------------------------------------------------------------------------- pages


@functools.cache
def pages(seconds: float = 600.0) -> list[Look]:
    return list(looks(in_turn([(LOAD, seconds, 1.0)]), "vllm", seconds, EVERY))


def test_a_page_that_is_away_loses_nothing_and_is_said():
    whole = pages()
    away = [Look(one.at, why="connection refused") if 200 < one.at < 320 else one for one in whole]
    found, all_ = (of_looks(asked("vllm"), some, WINDOW) for some in (away, whole))
    assert [event.kind for event in found.events] == ["away", "back"]
    assert "connection refused" in found.events[0].sentence
    requests = [sum(w.requests_per_s * w.seconds for w in one.windows) for one in (found, all_)]
    assert requests[0] == pytest.approx(requests[1], rel=0.02)


def test_a_restart_is_said_and_its_counters_are_not_negative():
    served = in_turn([(LOAD, 600, 1.0)])
    before = [one for one in looks(served, "vllm", 300.0, EVERY)]
    after = [one for one in looks(served, "vllm", 600.0, EVERY, since_s=310.0)]
    found = of_looks(asked("vllm"), [*before, *after], WINDOW)
    assert [event.kind for event in found.events] == ["restart"]
    assert all(window.requests_per_s > 0 for window in found.windows)


def test_counters_that_jump_are_not_judged():
    def jumped(one: Look) -> Look:
        lines = one.page.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("vllm:generation_tokens_t"))
        head, value = lines[at].rsplit(" ", 1)
        lines[at] = f"{head} {float(value) + 1e9:.12g}"
        return Look(one.at, "\n".join(lines))

    looked = [jumped(one) if one.at > 300 else one for one in pages()]
    found = of_looks(asked("vllm"), looked, WINDOW)
    assert [event.kind for event in found.events] == ["jump"]
    assert "counters jumped" in found.events[0].sentence


def test_a_page_of_something_else_is_said():
    found = of_looks(asked("vllm"), [Look(0.0, "python_info 1\n")], WINDOW)
    assert "no metrics of vLLM" in found.events[0].sentence
    assert found.document()["sentences"][-1] == "no window could be judged"


def test_a_clock_that_goes_back_is_said():
    looked = pages(120.0)
    found = of_looks(asked("vllm"), [*looked, Look(5.0, looked[-1].page)], WINDOW)
    assert [event.kind for event in found.events] == ["jump"]


# ------------------------------------------------------------------------------- what is kept


def test_a_recording_is_watched_as_the_live_page(tmp_path: Path):
    looked, file = pages(240.0), tmp_path / "looks.jsonl"
    file.write_text("\n".join(one.line() for one in looked), encoding="utf-8")
    assert list(recorded(file)) == looked
    file.write_text('{"at": 1}\nnothing\n')
    with pytest.raises(ReportError, match="line 2"):
        list(recorded(file))
    file.write_text("")
    with pytest.raises(ReportError, match="no samples"):
        list(recorded(file))


def test_the_scale_that_is_learned_predicts_what_was_measured(own_data):
    question = asked("vllm")
    found = of_looks(question, looks(in_turn([(LOAD, 300, 1.3)]), "vllm", 300.0, EVERY), WINDOW)
    scale = kept_scale.scale_of(question, found)
    kept_scale.keep(question, scale)
    later = of_looks(question, looks(in_turn([(LOAD, 300, 1.3)]), "vllm", 300.0, EVERY), WINDOW)
    assert found.drift["tpot_s"] > 1.2
    assert later.drift["tpot_s"] == pytest.approx(1.0, abs=0.03)


def test_a_log_of_requests_tells_what_a_page_does_not(tmp_path: Path):
    served = in_turn([(LOAD, 300, 1.0)])
    log = tmp_path / "requests.jsonl"
    rows = [
        {"input_toks": int(i), "output_toks": int(o), "arrival_time_ns": a * 1e9}
        for i, o, a in zip(served.isl, served.osl, served.arrival_s, strict=True)
    ]

    def write(until: float) -> None:
        lines = [
            json.dumps(
                {
                    "input_toks": row["input_toks"],
                    "output_toks": row["output_toks"],
                    "queued_ts": float(served.arrival_s[at]),
                    "first_token_ts": float(served.first_s[at]),
                    "last_token_ts": float(served.last_s[at]),
                }
            )
            for at, row in enumerate(rows)
            if served.last_s[at] <= until
        ]
        log.write_text("\n".join(lines) + "\n", encoding="utf-8")

    write(60.0)
    watcher = Watcher(asked("vllm"), WINDOW, RequestLog(log))
    followed(
        watcher, looks(served, "llama.cpp", 300.0, EVERY),
        told=lambda look, events: write(max(look.at + EVERY, 60.0)),
    )  # fmt: skip
    judged = [one for one in watcher.windows if not one.why]
    assert len(judged) >= 8
    assert judged[3].conditions.isl == pytest.approx(1024, rel=0.1)
    assert judged[3].measured["ttft_s"] > 0


def test_every_engine_has_a_page():
    served = in_turn([(LOAD, 60, 1.0)])
    for engine in ENGINES:
        [*_, last] = looks(served, engine, 60.0, 30.0)
        assert last.page.count("\n") > 4

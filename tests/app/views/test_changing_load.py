"""Page Plan, part Changing load: a job of replicas that follow, and of how many last."""

from __future__ import annotations

import pytest

from tests.app.pages import cards, charts, finished, opened, pressed

SMALL = {
    "part": "Changing load", "model": "meta-llama/Llama-3.1-8B", "engine": "vllm", "rate": "0.25",
    "isl": 60_000, "osl": 500, "requests": "60", "ttft_target_s": "9", "tpot_target_s": "0.025",
}  # fmt: skip


@pytest.fixture(autouse=True)
def data(own_data):
    """The user's data folder is the test's own."""


def test_nothing_runs_before_a_button_is_pressed():
    app = opened("plan", **SMALL)
    assert not app.exception and "Nothing has been simulated" in app.info[0].value


def test_users_are_refused_with_what_to_give_and_so_is_what_cannot_be_typed():
    users = {name: v for name, v in SMALL.items() if name not in ("rate", "requests")}
    app = pressed(opened("plan", **users, concurrency="8"), "Follow the load")
    assert "an arrival rate or a trace" in app.error[0].value
    app = opened("plan", **SMALL)
    app.text_input("scaling_max_replicas").set_value("many")
    app = pressed(app, "Follow the load")
    assert "max_replicas" in app.error[0].value


def test_the_limits_of_each_request_are_those_of_the_form_and_its_targets():
    said = opened("plan", **SMALL, target="p99 tpot < 9ms").caption
    assert any("Each request has to meet TTFT 9.00 s, TPOT 9.00 ms." in one.value for one in said)


@pytest.mark.slow
def test_the_buttons_show_both_ways_and_how_many_last():
    app = finished(pressed(opened("plan", **SMALL), "Follow the load"), "scaling_job")
    assert not app.exception and len(charts(app)) == 3
    assert cards(app)["Within the targets"]
    assert any("fixed replicas" in said.value for said in app.markdown)
    app = finished(pressed(app, "How many replicas?"), "scaling_job")
    assert not app.exception and int(cards(app)["With 1 lost"]) > int(cards(app)["While all serve"])

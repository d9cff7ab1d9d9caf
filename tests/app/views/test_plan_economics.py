"""Page Economics: opens with the system's published values, and follows the inputs."""

from __future__ import annotations

import re

from tests.app.pages import cards, charts, opened, shown


def test_a_rented_system_has_prices_a_day_and_energy():
    app = shown("plan", part="Economics", batch=32, engine="vllm")
    assert not app.exception and not app.error
    assert {"Rented, 1M tokens out", "Served", "Power per device", "Energy per token"} <= set(
        cards(app)
    )
    assert len(charts(app)) == 5
    power = next(one for one in app.metric if one.label == "Power per device")
    assert re.fullmatch(r"arithmetic \d+ %, memory \d+ %, links \d+ %", power.delta)
    said = [text.value for text in app.caption if "design power of 700 W" in text.value]
    assert len(said) == 1 and said[0].startswith("Energy per token: at most ")


def test_an_owned_device_and_an_api_are_compared():
    app = opened(
        "plan", part="Economics", batch=32, economics_capex="30000.0", economics_api_out="1.0"
    )
    assert not app.exception and not app.error
    assert "Owned, 1M tokens out" in cards(app)
    assert any("breaks even" in text.value for text in app.markdown)


def test_without_a_price_the_page_asks_for_one():
    app = opened("plan", part="Economics", system="gaudi3")
    assert not app.exception and not app.error
    assert "Set *Rent of a device*" in app.info[0].value


def test_a_day_that_is_none_is_a_sentence():
    app = opened("plan", part="Economics", economics_day="1, 2, three")
    assert not app.exception and "24 numbers" in app.error[0].value
    app = opened("plan", part="Economics", economics_day="1, 2")
    assert not app.exception and "24" in app.error[0].value


def test_a_deployment_without_a_rate_says_why_and_draws_no_day():
    app = opened("plan", part="Economics", tp=64)
    assert not app.exception and not charts(app)
    assert "cannot be served" in " ".join(one.value for one in app.warning)


def test_the_price_is_that_of_the_same_users_on_page_overview():
    asked = {"batch": 32, "engine": "vllm"}
    economics = cards(shown("plan", part="Economics", **asked))
    overview = cards(shown("answer", concurrency=32, engine="vllm"))
    assert economics["Rented, 1M tokens out"] == overview["Cost per 1M tokens"]


def test_an_account_of_a_trace_is_refused_in_one_sentence():
    app = opened("plan", part="Economics", trace="trace")
    assert not app.exception
    assert [error.value for error in app.error] == [
        "economics need users or a rate; a trace has no single load"
    ]

"""The engine that a visit without a link begins with."""

import csv
from pathlib import Path

import pytest

import hardware_db
from tests.app.pages import cards, opened, setup_of

DEVICES = Path(hardware_db.__file__).parent / "engines" / "devices.csv"


@pytest.mark.parametrize(
    ("system", "engine"),
    [
        ("h100-sxm5-80gb", "vllm"),
        ("gaudi3", "habana"),
        ("m2-ultra-76core", "llama.cpp"),
        ("l4", "generic"),
    ],
)
def test_an_engine_was_measured_on_the_device_that_it_is_proposed_for(system: str, engine: str):
    with DEVICES.open(encoding="utf-8") as lines:
        pairs = {(row["engine"], row["system"]) for row in csv.DictReader(lines)}
    assert hardware_db.measured_engine(system) == engine
    assert (engine, system) in pairs or engine == "generic"


def test_the_engine_follows_the_device_until_one_is_chosen():
    app = opened()
    assert setup_of(app).scenario.engine == "vllm"
    app = app.selectbox("system").set_value("gaudi3").run()
    assert setup_of(app).scenario.engine == "habana"
    app = app.selectbox("engine").set_value("generic").run()
    app = app.selectbox("system").set_value("h200-sxm-141gb").run()
    assert setup_of(app).scenario.engine == "generic"


def test_the_first_ttft_has_an_interval_and_the_command_that_gives_it_names_the_engine():
    app = opened()
    assert "not validated" not in " ".join(text.value for text in app.caption)
    assert "--engine vllm" in app.code[0].value
    assert cards(app)["TTFT"] == cards(opened(engine="vllm"))["TTFT"]


def test_a_link_without_an_engine_keeps_the_generic_one_on_every_device():
    app = opened(batch=2)
    app = app.selectbox("system").set_value("h200-sxm-141gb").run()
    assert setup_of(app).scenario.engine == "generic"

"""Page Plan, part Fleet: a text is assigned by a job, or refused in a sentence."""

from __future__ import annotations

import pytest

from tests.app.pages import charts, finished, opened, pressed

FLEET = """
machines:
  - {system: h100, devices: 4, owned: true}
  - {system: l40s, devices: 1, count: 0, price: 1}
question: {model: meta-llama/Llama-3.1-8B, engine: vllm, simulate: false, target: "tpot < 20ms"}
models:
  - {name: chat, rate: 30}
  - {name: rest, rate: 300, priority: 2}
"""


@pytest.mark.slow
def test_a_fleet_is_assigned_on_page_plan(own_data):
    app = opened("plan", part="Fleet")
    app.text_area("fleet_text").set_value(FLEET)
    pressed(app, "Assign")
    assert not app.exception and not app.error
    app = finished(app, "fleet_job")
    assert any("1 of 2 models served in full" in one.value for one in app.markdown)
    models, where, machines = (table.value for table in app.dataframe[:3])
    assert list(models["Name"]) == ["chat", "rest"] and set(where["Name"]) == {"chat", "rest"}
    assert list(machines["In use"]) == ["1 of 1", "0 of 0"]
    (chart,) = charts(app)
    assert sum(sum(trace["x"]) for trace in chart["data"]) == 4


def test_a_fleet_that_cannot_be_is_refused_on_page_plan(own_data):
    app = opened("plan", part="Fleet")
    assert "machines:" in app.text_area("fleet_text").value  # an example to change
    app.text_area("fleet_text").set_value("machines: [{system: h100, cout: 2}]\nmodels: []")
    pressed(app, "Assign")
    assert "'cout' is not a key of a machine: did you mean count?" in app.error[0].value

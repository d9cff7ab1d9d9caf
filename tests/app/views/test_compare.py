"""Page Frontiers: several systems on one chart, held by the address."""

from __future__ import annotations

from tests.app.pages import charts, opened, shown


def test_the_sidebars_system_is_drawn_with_the_defaults():
    app = shown("compare")
    assert not app.exception and not app.error
    (chart,) = charts(app)
    assert any("H100" in trace["name"] for trace in chart["data"] if "name" in trace)


def test_systems_and_formats_are_curves_of_one_chart():
    app = opened("compare", target="tpot < 30ms", devices="1:8")
    app = app.multiselect(key="systems").set_value(["h100-sxm5-80gb", "h200-sxm-141gb"]).run()
    app = app.multiselect(key="formats").set_value(["as checkpoint", "fp8"]).run()
    assert not app.exception and not app.error
    (chart,) = charts(app)
    names = {t["name"] for t in chart["data"] if t.get("mode") == "markers+text"}
    assert len(names) == 4
    assert any("tpot" in note["text"] for note in chart["layout"]["annotations"])


def test_what_cannot_be_read_is_a_sentence():
    app = opened("compare", target="tpot << 3")
    assert not app.exception and "target" in app.error[0].value


def test_what_never_fits_is_said():
    app = opened("compare", model="meta-llama/Llama-3.1-405B", devices=1)
    assert not app.exception
    assert "nothing fits" in app.warning[0].value


def test_an_address_may_name_systems_apart_by_commas():
    app = opened("compare", systems="h100-sxm5-80gb,h200-sxm-141gb", engine="vllm")
    assert not app.exception
    assert app.multiselect(key="systems").value == ["h100-sxm5-80gb", "h200-sxm-141gb"]

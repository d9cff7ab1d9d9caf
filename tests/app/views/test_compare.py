"""Page Compare, part Frontier: several systems on one chart, restored by the address."""

from __future__ import annotations

from tests.app.pages import charts, opened, pressed, settled, shown


def test_the_sidebars_system_is_drawn_with_the_defaults():
    app = settled(shown("compare"))
    assert not app.exception and not app.error
    (chart,) = charts(app)
    assert any("H100" in trace["name"] for trace in chart["data"] if "name" in trace)


def test_systems_and_formats_are_curves_of_one_chart():
    app = opened("compare", target="tpot < 30ms", devices="1:8")
    app = app.multiselect(key="systems").set_value(["h100-sxm5-80gb", "h200-sxm-141gb"]).run()
    app = settled(app.multiselect(key="formats").set_value(["as checkpoint", "fp8"]).run())
    assert not app.exception and not app.error
    (chart,) = charts(app)
    names = {t["name"] for t in chart["data"] if t.get("mode") == "markers+text"}
    assert len(names) == 4
    assert any("tpot" in note["text"] for note in chart["layout"]["annotations"])


def test_what_cannot_be_read_is_a_sentence():
    app = opened("compare", target="tpot << 3")
    assert not app.exception and "target" in app.error[0].value


def test_page_compare_says_when_nothing_fits():
    app = settled(opened("compare", model="meta-llama/Llama-3.1-405B", devices=1))
    assert not app.exception
    assert "nothing fits" in app.warning[0].value


def test_an_address_may_name_systems_apart_by_commas():
    app = opened("compare", systems="h100-sxm5-80gb,h200-sxm-141gb", engine="vllm")
    assert not app.exception
    assert app.multiselect(key="systems").value == ["h100-sxm5-80gb", "h200-sxm-141gb"]


def test_a_button_opens_what_is_compared_in_the_form():
    app = opened("compare")
    assert "systems" not in {box.key for box in app.multiselect}
    app = pressed(app, "Choose").multiselect(key="systems").set_value(["l40s"]).run()
    app = settled(app)
    assert not app.exception and not app.error
    assert app.dataframe[0].value["deployment"].iloc[0].split(",")[0].endswith("L40S")


def test_the_table_reads_every_curve_off_at_the_asked_speed():
    app = settled(shown("compare", model="openai/gpt-oss-120b", engine="vllm", speed="60"))
    assert not app.exception and not app.error
    table = app.dataframe[0].value
    assert len(table) == 3 and table["nearest measured run"].notna().all()
    assert all(float(text.split(" ")[0]) >= 60.0 for text in table["tok/s per user"])
    rates = [float(text.split(" ")[0].replace(",", "")) for text in table["tok/s per device"]]
    assert rates == sorted(rates, reverse=True)
    unsure = table.astype(str).apply(lambda cells: cells.str.contains("not validated")).any(axis=1)
    best = table["deployment"][~unsure].head(1).tolist()
    assert best and best == [name for name in table["deployment"] if name.startswith("★")]


def test_the_slider_starts_at_the_speed_that_a_target_asks_for():
    app = settled(opened("compare", target="tpot < 10ms"))
    assert app.slider(key="speed").value == 100


def test_boxes_of_the_search_that_a_page_does_not_read_are_said():
    boxes = {"models": "Qwen/Qwen3-8B", "uses": "Chat", "drafts": "eagle", "engine": "vllm"}
    for page, said in (
        ("plan", "Models to compare, Use cases"),
        ("compare", "Models to compare, Speculation, Use cases"),
    ):
        app = opened(page, **boxes, devices=1)
        assert not app.exception
        assert f"Not used here: {said}." in [caption.value for caption in app.caption]
    app = opened("compare", **boxes, devices=1, compare_by="Models")
    assert "Not used here: Speculation, Use cases." in [c.value for c in app.caption]


def test_the_asked_speed_follows_the_targets_of_the_form():
    app = settled(opened("compare", devices=1, engine="vllm", speed=30))
    assert app.slider("speed").value == 30
    app = settled(app.text_input("targets_box").set_value("tpot < 20ms").run())
    assert not app.exception and app.slider("speed").value == 50

"""Page Library: one search over hardware, models and modules."""

from tests.app.pages import opened


def test_a_search_opens_the_part_that_has_what_is_searched():
    app = opened("library", find="qwen3-235b")
    assert not app.exception and not app.error
    names = app.dataframe[0].value["name"]
    assert len(names) and all("qwen3-235b" in name.casefold() for name in names)
    app.text_input("find").set_value("mi300x").run()
    assert not app.exception
    assert list(app.dataframe[0].value["slug"]) == ["mi300x"]
    assert "1 in Hardware" in app.caption[0].value


def test_an_address_of_an_earlier_release_keeps_its_search():
    app = opened("models", find="gpt-oss")
    assert not app.exception
    assert all("gpt" in name.casefold() for name in app.dataframe[0].value["name"])


def test_a_link_that_names_systems_of_a_search_opens_the_library():
    app = opened("library", systems=["h100", "h200"])
    assert not app.exception and not app.error
    assert app.get("plotly_chart")

"""A report that was brought to one page is there on the others, and on the first again."""

from app.wording.markdown import plain
from tests.app.pages import DECODE, brought, cards, opened, path_of


def shared(app) -> list[str]:
    return [text.value for text in app.caption if text.value.startswith("As uploaded")]


def test_one_upload_is_read_by_every_page_that_reads_reports():
    app = brought(opened("reports"), "report_files", DECODE)
    launches = cards(app)["Kernel launches"]
    said = [f"As uploaded before: {plain(DECODE.name)}"]
    app.switch_page(path_of("measured")).run()
    assert not app.exception and shared(app) == said
    app.switch_page(path_of("calibrate")).run()
    app.segmented_control("fit_source").set_value("Profiler reports").run()
    assert not app.exception and shared(app) == said
    app.switch_page(path_of("reports")).run()
    assert cards(app)["Kernel launches"] == launches


def test_what_is_forgotten_is_on_no_page():
    app = brought(opened("reports"), "report_files", DECODE)
    app.switch_page(path_of("measured")).run()
    app = next(button for button in app.button if button.label == "Forget").click().run()
    assert not shared(app)
    app.switch_page(path_of("calibrate")).run()
    assert not shared(app)


def test_a_file_that_is_taken_out_of_its_box_is_on_no_page():
    app = brought(opened("reports"), "report_files", DECODE)
    app = app.file_uploader("report_files").set_value([]).run()
    assert "Kernel launches" not in cards(app)
    app.switch_page(path_of("measured")).run()
    assert not shared(app)

"""A report uploaded on page Upload is available in all of its parts, and on page Measure."""

from streamlit.testing.v1 import AppTest

from app.wording.markdown import plain
from tests.app.pages import DECODE, brought, cards, opened, path_of, pressed


def shared(app: AppTest) -> list[str]:
    return [text.value for text in app.caption if text.value.startswith("Uploaded")]


def to_part(app: AppTest, part: str) -> AppTest:
    return app.segmented_control("part").set_value(part).run()


def to_reports_of_calibrate(app: AppTest) -> AppTest:
    to_part(app.switch_page(path_of("measure")).run(), "Calibrate")
    return app.segmented_control("fit_source").set_value("Profiler reports").run()


def test_one_upload_is_read_by_every_part_that_reads_reports():
    app = brought(opened("upload"), "upload_files", DECODE)
    launches = cards(app)["Kernel launches"]
    said = [f"Uploaded before: {plain(DECODE.name)}"]
    to_part(app, "Measured and predicted")
    assert not app.exception and "Decode, measured" in cards(app)
    to_reports_of_calibrate(app)
    assert not app.exception and shared(app) == said
    to_part(app.switch_page(path_of("upload")).run(), "Where the time goes")
    assert cards(app)["Kernel launches"] == launches


def test_what_is_forgotten_is_on_no_page():
    app = to_reports_of_calibrate(brought(opened("upload"), "upload_files", DECODE))
    assert shared(app)
    pressed(app, "Forget")
    assert not app.exception and not shared(app)
    app.switch_page(path_of("upload")).run()
    assert not shared(app) and "Kernel launches" not in cards(app)


def test_a_file_that_is_taken_out_of_its_box_is_on_no_page():
    app = brought(opened("upload"), "upload_files", DECODE)
    app = app.file_uploader("upload_files").set_value([]).run()
    assert "Kernel launches" not in cards(app)
    assert not shared(to_reports_of_calibrate(app))

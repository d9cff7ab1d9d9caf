"""The panels of a search and a watch: answered by a job, refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.pages import finished, opened, pressed
from tests.app.watching.simulated_pages import in_turn, looks

MODEL = "meta-llama/Llama-3.1-8B"


ASKED = {"model": MODEL, "system": "h100-sxm5-80gb", "engine": "vllm", "concurrency": 16, "osl": 64}


@pytest.mark.slow
def test_a_dry_run_searches_for_the_question_of_the_form(own_data):
    app = opened("measure", part="Tune a server", target="tpot < 20ms", **ASKED)
    app.text_input("tune_settings").set_value("max_num_seqs=4,8,16 runs=4")
    pressed(app, "Dry run")
    assert not app.exception and not app.error
    app = finished(app, "tune_job")
    assert any("best of" in one.value for one in app.markdown)
    command = app.code[0].value
    assert "--concurrency 16" in command and "--target 'tpot < 20ms'" in command
    assert "--max-num-seqs 4,8,16" in command and "--runs 4" in command


def test_what_cannot_be_searched_is_refused_on_page_measure(own_data):
    app = opened("measure", part="Tune a server", **ASKED)
    app.text_input("tune_settings").set_value("speed=9")
    pressed(app, "Dry run")
    assert "'speed' is not a parameter" in app.error[0].value
    app.text_input("tune_settings").set_value("what is best?")
    pressed(app, "Dry run")
    assert "give name=value" in app.error[0].value


@pytest.mark.slow
def test_a_recording_is_watched_on_page_upload(own_data, tmp_path: Path):
    load = {"model": MODEL, "system": "h100", "engine": "vllm", "rate": 4.0, "osl": 64}
    served = in_turn([(load, 360, 1.0)])
    text = "\n".join(one.line() for one in looks(served, "vllm", 360.0, 10.0))
    app = opened("upload", model=MODEL, system="h100-sxm5-80gb", engine="vllm")
    app.file_uploader("upload_files").upload("looks.jsonl", text.encode()).run()
    pressed(app, "Watch")
    assert not app.exception and not app.error
    app = finished(app, "watch_job")
    assert any("0 times outside" in one.value for one in app.markdown)

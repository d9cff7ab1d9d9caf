"""`ridgeline systems check`: the sources of a system file's figures, and what the file lacks."""

from pathlib import Path

import pytest

from genz_core.errors import RidgelineError
from hardware_db.contribution import check

SYSTEMS = Path("hardware_db/systems")


def test_each_figure_comes_with_its_kind_and_source():
    report = check(SYSTEMS / "groq-3-lpu.yaml")
    assert all(row["value"] and row["kind"] and row["source"] for row in report.figures)
    assert report.remarks[0].startswith(f"{len(report.figures)} figures: ")


def test_a_peak_in_the_wrong_unit_and_a_name_that_is_taken_are_said(tmp_path):
    text = (SYSTEMS / "groq-3-lpu.yaml").read_text()
    report = check(SYSTEMS / "groq-3-lpu.yaml")
    copy = tmp_path / "other.yaml"
    copy.write_text(text)
    assert "name the file groq-3-lpu.yaml, after its id" in check(copy).remarks
    assert any("are the units right" in remark for remark in report.remarks)
    copy.write_text(text.replace("id: groq-3-lpu", "id: my-machine"))
    assert any(remark.startswith("names that other systems have") for remark in check(copy).remarks)


def test_a_file_that_does_not_fit_is_refused_in_a_sentence(tmp_path):
    broken = tmp_path / "x.yaml"
    broken.write_text("id: x\nmemory: 3\n")
    with pytest.raises(RidgelineError):
        check(broken)

"""Page Explain: what it exports, and which batch it draws for a load."""

import pytest

from app.dashboard import export
from tests.app.pages import cards, opened, shown

#: A model that does not fit on eight of these devices.
LARGE = {"model": "deepseek-ai/DeepSeek-V3", "system": "h100-sxm5-80gb", "tp": 8}


def words(app, kind: str = "caption") -> str:
    return " ".join(text.value for text in getattr(app, kind))


@pytest.mark.parametrize(
    ("part", "columns"),
    [("Memory", {"batch", "memory_bytes_per_device", "fits"}), ("Roofline", {"name", "of bound"})],
)
def test_the_exported_table_is_that_of_the_chart(part: str, columns: set[str], monkeypatch):
    """Part Memory once exported the operators beside its charts."""
    exported = []
    monkeypatch.setattr(export, "downloads", lambda *given: exported.append(given))
    opened("explain", part=part)
    ((_, figures, table, _),) = exported
    assert columns <= set(table) and figures


def test_the_batch_of_a_load_says_once_what_it_leaves_out_and_gives_no_advice():
    query = {"engine": "vllm", "rate": 4, "prefill_system": "h100-sxm5-80gb", "prefill_workers": 2,
             "prefill_tp": 2}  # fmt: skip
    said = words(shown("explain", part="Memory", **query))
    assert "give a concurrency or a rate" not in said
    assert said.count("prefill_workers") == 1
    assert "the static batch that runs at once on a worker of the decode pool" in said
    (code,) = (one.value for one in shown(part="Static batch", **query).code
               if one.value.startswith("ridgeline estimate"))  # fmt: skip
    assert "prefill" not in code  # `estimate` refuses these for a static batch


@pytest.mark.parametrize("part", ["Memory", "Model inside", "Roofline"])
def test_what_does_not_fit_is_drawn_with_the_users_that_were_asked_for(part: str):
    app = shown("explain", part=part, if_fitted="true", **LARGE)
    assert "batch 16" in words(app) and "batch 1," not in words(app)
    (takes,) = (text.value for text in app.markdown if "decode step takes" in text.value)
    assert takes.startswith("If it fitted, a decode step takes")


def test_the_memory_of_what_does_not_fit_is_that_of_the_device_as_it_is():
    missing = shown("explain", part="Memory", **LARGE)
    assert "Missing" in cards(missing) and "more devices or fewer bits" in words(missing, "warning")


def test_the_factor_of_measured_runs_is_said_only_where_its_digits_differ_from_one(monkeypatch):
    """It once read "multiplied by 1"."""
    step = "genz_core.steps.step_estimate.StepEstimate.learned_factor"
    for factor, told in ((1.0004, False), (1.23456, True)):
        monkeypatch.setattr(step, lambda *_, factor=factor: factor)
        said = words(opened("explain", part="Breakdown"))
        assert ("multiplied by" in said) is told
    assert "multiplied by 1.23, a factor" in said


def test_the_experts_of_an_operator_include_a_shared_one_that_runs_with_them():
    """223.4 of 256 experts once counted the shared one on one side only."""
    query = {"model": "deepseek-ai/DeepSeek-V3", "system": "h200", "tp": 8, "concurrency": 4096}
    tables = [table.value for table in shown("explain", **query).dataframe]
    (shapes,) = (one["shape"] for one in tables if "shape" in one)
    (experts,) = (shape for shape in shapes if "experts" in shape)
    assert " of 257 experts" in experts

"""A run over prompts: TTFT and TPOT of each beside its prediction, stored and repeated."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from app.measuring import run_store
from app.measuring.prompts import prompts_of, summary
from app.measuring.run_form import run_of_form
from genz_core.errors import InvalidValue
from profilers.runs.run_config import compose


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    rows = [{"id": "long", "isl": 48, "osl": 4}, {"isl": 8, "osl": 1}, {"prompt": "x" * 64}]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


@pytest.mark.slow
def test_every_prompt_has_its_times_and_its_prediction(tiny: str, prompts: Path) -> None:
    settings = (f"path={tiny}", "device=cpu", "threads=1", "repeats=2", "osl=3", "warmup=0")
    config = compose([*settings, f"prompts.files={prompts}", "system=epyc-9654"])
    folder = run_store.store().path(run_store.execute(config))
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    rows = {row["id"]: row for row in metrics["prompts"]}
    assert [(row["isl"], row["osl"]) for row in rows.values()] == [(48, 4), (8, 1), (16, 3)]
    for row in rows.values():
        assert row["status"] == "ok" and row["repeats"] == 2
        assert row["ttft_error"] == pytest.approx(row["ttft_predicted_s"] / row["ttft_s"] - 1)
        assert row["ttft_bound_s"] <= row["ttft_predicted_s"]
    assert rows["prompts.jsonl:2"]["tpot_s"] is None, "one token has no step after it"
    assert rows["long"]["tpot_predicted_s"] > 0
    assert "## Prompts" in (folder / "report.md").read_text(encoding="utf-8")
    measured = run_store.store().load(folder.name)
    assert len(measured.phases["prefill"].samples_s) == 3 and measured.workload is None
    prompts.unlink()
    again = prompts_of(compose(file=folder / "inputs.yaml"))
    assert [(p.isl, p.osl) for p in again] == [(48, 4), (8, 1), (16, 3)], "without the file"
    assert "x" * 64 not in (folder / "prompts.jsonl").read_text(), "texts are not kept"


def test_lengths_are_drawn_and_files_named_are_not_mixed_with_them(prompts: Path) -> None:
    drawn = prompts_of(compose(["model=qwen3-8b", "dataset=chat", "samples=3"]))
    assert len(drawn) == 3 and {p.osl for p in drawn} == {64}
    with pytest.raises(InvalidValue, match="give one of them"):
        prompts_of(compose(["dataset=chat", f"prompts.files={prompts}"]))


def test_a_visitor_names_no_file_of_the_server(prompts: Path) -> None:
    with pytest.raises(InvalidValue, match=r"prompts\.lengths here"):
        run_of_form(["model=qwen2.5-0.5b", f"prompts.files={prompts}"])
    config = run_of_form(["model=qwen2.5-0.5b", "dataset=chat"])
    assert config.prompts.lengths.startswith("lognormal")
    with pytest.raises(InvalidValue, match="spread is missing"):
        run_of_form(["model=qwen2.5-0.5b", "prompts.lengths=lognormal:mean=5"])


def test_the_command_prints_each_prompt(
    tiny: str, prompts: Path, answer: Any, printed: Any
) -> None:
    call = ("measure", "run", tiny, "--prompts", prompts, "--repeats", "1", "--threads", "1",
            "--device", "cpu", "--system", "epyc-9654", "--no-keep")  # fmt: skip
    document = answer(*call, "--samples", "1")
    (row,) = document["prompts"]
    assert row["id"] == "long" and row["ttft_s"] > 0 and document["run"] is None
    words = printed(*call)
    assert "long" in words and "TTFT:" in words and "4 characters per token" in words


def test_errors_are_summed_up_over_what_was_predicted() -> None:
    rows = [{"ttft_error": e, "tpot_error": math.nan} for e in (-0.1, 0.3, 0.2)]
    found = summary(rows)
    assert found["ttft_median_error"] == 0.2 and math.isnan(found["tpot_median_error"])

"""The result of many configurations has columns, each computed once however it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import ridgeline

from app.answers.table import Table
from app.planning import sweep_file
from app.scenario import served_rows, summary

LLAMA = "meta-llama/Llama-3.1-8B"
MANY = np.arange(1, 41)
RESULTS: dict[str, tuple[Any, str, Callable[[], Any]]] = {
    "estimate": (summary, "facts", lambda: ridgeline.estimate(LLAMA, batch=MANY)),
    "serve": (
        served_rows, "table", lambda: ridgeline.serve(LLAMA, concurrency=MANY, osl=64),
    ),
    "sweep": (sweep_file, "stated", lambda: ridgeline.sweep(LLAMA, batch=MANY)),
    "sweep of systems": (
        sweep_file, "stated",
        lambda: ridgeline.sweep(LLAMA, system=["h100", "l40s"], batch=list(range(1, 21))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RESULTS)
def test_figures_are_computed_once_however_often_and_by_whichever_way_they_are_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
):
    module, name, make = RESULTS[kind]
    computed, compute = [], getattr(module, name)

    def counted(*args: Any, **keywords: Any) -> Table:
        computed.append(args)
        return compute(*args, **keywords)

    monkeypatch.setattr(module, name, counted)
    found = make()
    for _ in range(3):
        assert len(found) == len(found.rows) == len(found.to_dataframe()) == 40
        assert found.table["tpot_s"].shape == (40,)
        assert found._repr_html_()
        if hasattr(found, "scalar"):
            assert found.tpot_s.shape == found.e2e_high_s.shape == (40,)
    assert len(computed) == 1


@pytest.mark.parametrize("kind", ["estimate", "serve"])
def test_a_row_is_a_slice_of_the_columns(kind: str):
    found = RESULTS[kind][2]()
    rows = found.rows
    for at in (0, 17, 39):
        assert repr(found.table.row(at)) == repr(rows[at])
        assert rows[at]["tpot_s"] == found.table["tpot_s"][at]
    assert list(found.to_dataframe().columns) == list(rows[0])


def test_a_configuration_among_many_has_the_figures_that_it_has_alone():
    many = ridgeline.estimate(LLAMA, batch=MANY, engine="vllm", system="h200")
    alone = ridgeline.estimate(LLAMA, batch=18, engine="vllm", system="h200").to_dict()
    among = many.table.row(17)
    assert list(among) == list(alone)
    for name, value in alone.items():
        close = isinstance(value, float)
        assert among[name] == (pytest.approx(value, rel=1e-12) if close else value), name


def test_the_columns_of_a_result_cannot_be_changed_by_who_reads_them():
    found = ridgeline.estimate(LLAMA, batch=MANY)
    with pytest.raises(ValueError, match="read-only"):
        found.tpot_s[0] = 0.0


def test_rows_that_cannot_run_keep_their_place_and_their_reason():
    found = ridgeline.estimate(LLAMA, tp=[1, 3, 8], on_error="status")
    assert found.status.tolist() == ["ok", "invalid_parallelism", "ok"]
    assert np.isnan(found.tpot_s).tolist() == [False, True, False]
    assert "3" in found.message[1] and "3" not in found.message[0].split(";")[0]


def test_images_are_counted_in_every_row_also_where_one_cannot_run():
    found = ridgeline.estimate(
        "Qwen/Qwen2.5-VL-7B-Instruct", images=1, tp=[1, 3], on_error="status"
    )
    assert found.prompt_tokens.tolist() == (found.isl + found.image_tokens).tolist()
    assert np.isnan(found.encoder_s).tolist() == [False, True]


def test_a_factor_that_varies_is_stated_as_it_was_given():
    found = ridgeline.estimate(
        "Qwen/Qwen3-30B-A3B", tp=2, ep=2, expert_imbalance=[1.0, 1.5], batch=8
    )
    assert [row["expert_imbalance"] for row in found.rows] == [1.0, 1.5]

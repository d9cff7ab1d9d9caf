"""Errors of the shipped fits: averages of the tables, peers with their sources."""

import pytest

from app.accuracy import shipped_errors


def test_the_error_of_an_operator_is_the_mean_of_its_series():
    series = shipped_errors.operator_series()
    errors = [r["mape %"] for r in series if (r["operator"], r["split"]) == ("gemm", "sibling")]
    table = {row["operator"]: row for row in shipped_errors.operator_matrix(series)}
    assert len(errors) > 5
    assert table["gemm"]["sibling"] == pytest.approx(sum(errors) / len(errors), abs=0.051)


def test_held_out_operators_are_predicted_twice_as_well_as_by_a_roofline():
    points = shipped_errors.operator_points()
    assert set(points["operator"]) >= {"gemm", "moe", "decode_attention", "collective"}
    errors, roofs = (
        abs(points[name] / points["measured_s"] - 1) for name in ("predicted_s", "roofline_s")
    )
    assert errors.mean() < roofs.mean() / 2


def test_every_peer_figure_has_a_source():
    rows = [
        row for area in ("operators", "published", "serving") for row in shipped_errors.peers(area)
    ]
    assert len(rows) >= 10
    assert all(row["source"] and row["rows"] and row["peer"] for row in rows)
    assert {row["metric"] for row in shipped_errors.peers("serving", "tpot_s")} == {"tpot_s"}

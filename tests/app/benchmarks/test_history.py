"""Kept results: what became of a deployment over versions and dates."""

import json

import pytest

from app.benchmarks import history
from app.benchmarks.deployment import deployments
from app.benchmarks.upload_parsing import SentResult, read_sent
from app.measuring.run_store import store
from tests.app.benchmarks.conftest import HARDWARE, RUN, slower


def kept(given=HARDWARE, name="result.json", **changes):
    sent = SentResult(name, json.dumps({**RUN, **changes}).encode())
    runs = deployments(read_sent(sent), given)
    return history.keep(sent, runs, given), runs[0]


def test_a_deployment_is_followed_over_its_dates(own_data):
    _, first = kept(date="20260101-120000")
    kept(**{**slower(RUN, 1.5), "date": "20260301-120000"})
    kept({**HARDWARE, "tp": 2}, date="20260201-120000")
    rows = history.rows(first)
    assert [row["date"] for row in rows] == ["2026-01-01T12:00:00", "2026-03-01T12:00:00"]
    assert rows[1]["tpot_mean_s"] == pytest.approx(1.5 * rows[0]["tpot_mean_s"])
    assert len(history.rows()) == 3, "another split is another deployment"


def test_a_kept_result_is_listed_among_the_runs_with_its_file(own_data):
    identity, _ = kept()
    run = store().find(identity)
    assert run.source == "serving" and run.tags == ("benchmark",)
    assert run.phases["tpot"] == pytest.approx(8.9e-3)
    assert json.loads((store().path(identity) / "result" / "result.json").read_text()) == RUN


def test_a_file_name_that_climbs_stays_in_the_folder_of_its_run(own_data, tmp_path):
    identity, _ = kept(name="../../../climbed.json")
    assert (store().path(identity) / "result" / "climbed.json").is_file()
    assert not list(tmp_path.glob("climbed*"))


def test_a_damaged_kept_file_leaves_the_others(own_data):
    identity, first = kept(date="20260101-120000")
    kept(date="20260201-120000")
    (store().path(identity) / "result" / "result.json").write_text("{")
    assert [row["date"][:7] for row in history.rows(first)] == ["2026-02"]

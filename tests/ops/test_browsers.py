"""Five real browsers on one server without an error (run with -m slow)."""

import re
from pathlib import Path

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.conftest import chromium
from tests.dashboards import served
from tests.ops.browsers import Soak, _Reruns, section, soak
from tests.ops.errands import ERRANDS

VIEWS = Path(__file__).parents[2] / "app" / "views"


@pytest.mark.slow
def test_five_browsers_walk_every_page_and_errand_of_a_shared_dashboard_without_an_error(
    tmp_path: Path,
):
    pytest.importorskip("playwright.async_api")
    if chromium() is None:
        pytest.skip("no Chromium or Chrome on this machine")
    with served(tmp_path, "--shared") as server:
        result = soak(server, 5, 1.0)
    assert result.errors == []
    kinds = [kind for kind, _ in result.waits]
    assert kinds.count("open") == 5
    titles = {path.stem.replace("_", " ").capitalize() for path in VIEWS.glob("[a-z]*.py")}
    assert result.seen == titles | {errand.words for errand in ERRANDS}
    assert result.first_bytes > 0 and result.last_bytes < 2 * result.first_bytes


def test_the_result_of_browsers_counts_their_errors_and_growth():
    waits = [("open", 2.0), ("page", 0.5), ("page", 0.5), ("choice", 0.1)]
    seen = {"Plan", "Roofline"}
    soaked = Soak(2, 3.0, waits, ["script: x"], seen, set(), 100_000_000, 110_000_000)
    soaked.answers += [("open", 0.1), ("page", 0.2), ("page", 0.3)]
    soaked.warm_bytes = 104_000_000
    text = section(soaked)
    assert "3 reruns, half of them within 200 ms" in text
    assert "2 Chromiums for 3 min" in text and "4 actions" in text
    assert "2 different pages and errands" in text and "1 error." in text
    assert "104 MB once every page and errand was done, 110 MB at the end (+6%)" in text
    row = re.search(r"\| another page .*", text)
    assert row and re.findall(r"\d+(?: m?s)?", row[0]) == [
        "2",
        "500 ms",
        "500 ms",
        "2",
        "250 ms",
        "295 ms",
    ]


def test_a_rerun_is_answered_when_the_run_that_it_or_its_successor_began_has_ended():
    answers: list[float] = []
    reruns = _Reruns(answers.append)
    asked = BackMsg(rerun_script=ClientState()).SerializeToString()
    ends = {
        name: ForwardMsg(script_finished=getattr(ForwardMsg, name)).SerializeToString()
        for name in ("FINISHED_EARLY_FOR_RERUN", "FINISHED_SUCCESSFULLY")
    }
    reruns.received(ends["FINISHED_SUCCESSFULLY"])  # of a run that nobody asked for
    assert answers == []
    reruns.sent(asked)
    reruns.sent(asked)
    reruns.received(ends["FINISHED_EARLY_FOR_RERUN"])
    assert answers == []
    reruns.received(b"x" * 1000)  # too long to be an end
    reruns.received(ends["FINISHED_SUCCESSFULLY"])
    reruns.received(ends["FINISHED_SUCCESSFULLY"])
    assert len(answers) == 1 and answers[0] > 0

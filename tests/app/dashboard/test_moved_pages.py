"""Addresses of pages of earlier releases lead to the pages that replaced them."""

import pytest

from app.main import MOVED
from tests.app.pages import MAIN, opened, setup_of

#: Every address that a page of an earlier release had.
ADDRESSES = (
    "overview", "roofline", "breakdown", "memory", "serving", "inside", "frontiers", "economics",
    "sensitivity", "reports", "measured", "benchmarks", "run", "calibrate", "hardware", "models",
    "modules", "compare", "plan", "accuracy",
)  # fmt: skip


def test_every_address_of_an_earlier_release_leads_somewhere():
    files = {path.stem for path in (MAIN.parent / "views").glob("**/[a-z]*.py")}
    files -= {"answer"}  # the page at the root
    assert set(ADDRESSES) <= set(MOVED) | files
    assert not set(MOVED) & files, "a page of today has that address"


@pytest.mark.by_day(6)
@pytest.mark.parametrize("address", sorted(set(MOVED) - {"answer"}))
def test_an_old_address_opens_its_page_and_part_with_its_parameters(address: str):
    page, part = MOVED[address]
    query = {"model": "Qwen/Qwen3-8B", "batch": 8, "isl": 512}
    moved, direct = (
        opened(address, **query),
        opened(page, **query, **({"part": part} if part else {})),
    )
    assert not moved.exception
    assert setup_of(moved) == setup_of(direct) and setup_of(moved).scenario.isl == 512
    assert [title.value for title in moved.title] == [title.value for title in direct.title]
    assert dict(moved.query_params) == dict(direct.query_params)
    parts = [control.value for control in moved.segmented_control if control.key == "part"]
    assert parts == [control.value for control in direct.segmented_control if control.key == "part"]
    assert not part or part in (*parts, dict(moved.query_params).get("part"))

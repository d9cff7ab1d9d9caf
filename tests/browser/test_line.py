"""A question typed as a line in a browser: understood, stored in the link, answered as by `ask`."""

from __future__ import annotations

import json
import random
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.wording import quantities
from tests.browser.conftest import SETTLED, SIMULATED
from tests.draws import seed


def ask(page, line: str) -> None:
    """Type a line at the top of the page and wait until its answer is drawn."""
    page.get_by_role("button", name="Type a question").click()
    box = page.get_by_label("Question", exact=True)
    box.fill(line)
    box.press("Enter")
    box.wait_for(state="detached")
    page.wait_for_timeout(300)
    page.wait_for_selector(SETTLED)


def answered(line: str):
    done = CliRunner().invoke(cli, ["ask", line, "--json"])
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def drawn_line(at: int) -> str:
    """A line with values that are no default and in no preset."""
    luck = random.Random(seed(at))
    model, system = luck.choice(("qwen3 8b", "llama-3.1-8b")), luck.choice(("h200", "b200"))
    lengths = f"{luck.randint(300, 3000)}/{luck.randint(40, 400)}"
    return f"{model} on {system} sglang {luck.randint(3, 90)} users {lengths} fp8"


@pytest.mark.by_day(1)
@pytest.mark.draws
@pytest.mark.parametrize("at", range(2))
def test_a_line_typed_on_any_page_is_answered_as_by_the_command(open_page, at: int):
    line = drawn_line(at)
    page = open_page("explain" if at else "")
    ask(page, line)
    (row,) = answered(line)["answer"]["rows"]
    for figure in ("ttft_s", "tpot_s"):
        shown = quantities.seconds(row[figure])
        page.locator('[data-testid="stMetricValue"]', has_text=shown).first.wait_for()
    query = parse_qs(urlsplit(page.url).query)
    users = re.search(r"(\d+) users", line)
    assert users and query["concurrency"] == [users[1]] and query["weights"] == ["fp8"]


@pytest.mark.slow
def test_a_target_leads_to_the_plan_with_all_of_it_in_the_link(open_page):
    line = "llama 8b on up to 2 h200 vllm 3.7/s 700/90 p99 tpot<41ms aggregated"
    page = open_page("")
    ask(page, line)
    page.wait_for_function("() => location.pathname.endsWith('/plan')")
    page.get_by_text("any layout").first.wait_for()
    query = parse_qs(urlsplit(page.url).query)
    assert query["rate"] == ["3.7"] and query["target"] == ["tpot_p99 < 41ms"]
    assert query["devices"] == ["1:2"] and query["isl"] == ["700"]
    best = answered(line)["answer"]["plans"][0]
    page.locator(SIMULATED).first.wait_for()
    page.get_by_text("fewest that do").first.wait_for()
    cards = page.locator('[data-testid="stMetric"]').all_inner_texts()
    (devices,) = (card for card in cards if card.startswith("Devices"))
    assert str(best["devices"]) in devices.split()
    assert any(f"{best['usd_per_mtok']:.3g}" in card for card in cards), cards


@pytest.mark.by_day(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_not_understood_is_named_and_mended_by_the_keyboard(open_page, scheme: str):
    page = open_page("")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 900})
    page.get_by_role("button", name="Type a question").press("Enter")
    box = page.get_by_label("Question", exact=True)
    box.fill("llama 8b h200 23 usrs")
    box.press("Enter")
    page.get_by_text("'usrs' is not understood").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="users", exact=True).press("Enter")
    page.get_by_text("23 users").first.wait_for()
    page.get_by_text("is not understood").wait_for(state="hidden")

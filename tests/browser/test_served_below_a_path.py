"""A dashboard below a path, in a real browser: links, assets, downloads, and refusals."""

import csv
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import SETTLED
from tests.dashboards import served

BASE = "/ridgeline"


@pytest.fixture(scope="module")
def base_url(app_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("below"), "--shared", base_path=BASE) as server:
        yield server.url


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Another server on this machine: its address, and the requested paths.

    It answers each with a page that shows the address in the query in a frame.
    """
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            framed = urlsplit(self.path).query
            self.wfile.write(f"<iframe src='{framed}' width=900 height=700></iframe>".encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.slow
def test_a_deep_link_draws_its_page_and_asks_below_the_path_alone(page, requested, base_url: str):
    page.goto(f"{base_url}/explain?system=mi300x&tp=2")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_selector(SETTLED)
    assert page.locator('.st-key-system input[role="combobox"]').input_value() == "mi300x"
    page.get_by_role("link", name="Compare").first.click()
    page.wait_for_url(f"{base_url}/compare*")
    page.wait_for_selector(SETTLED)
    addresses = [url for url in requested if not url.startswith(("data:", "blob:"))]
    # The page tries its address's folders for the server, the deepest first.
    assert addresses and all(url.startswith(f"{base_url}/") for url in addresses)


@pytest.mark.slow
def test_a_table_is_saved_from_below_the_path(page, base_url: str):
    page.goto(f"{base_url}/explain?part=Breakdown&batch=4")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_selector(SETTLED)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Table (CSV)").first.click()
    rows = list(csv.DictReader(download.value.path().read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 5 and "predicted [µs]" in rows[0]


def test_no_page_breaks_the_policy_that_it_is_served_with(page, base_url: str):
    broken: list[str] = []

    def note(message) -> None:
        if "Content Security Policy" in message.text:
            broken.append(message.text)

    page.on("console", note)
    for path in ("", "roofline", "inside", "plan", "library", "accuracy?accuracy_area=Operators"):
        page.goto(f"{base_url}/{path}")
        page.wait_for_selector(SETTLED)
        page.wait_for_timeout(300)
        assert page.locator("body > style").count() == 1  # app/pages.css, which it lets apply
        caption = page.get_by_test_id("stCaptionContainer").first
        assert caption.evaluate("drawn => getComputedStyle(drawn).opacity") == "0.82"
    page.remove_listener("console", note)
    assert broken == []


@pytest.mark.slow
def test_a_picture_in_a_name_is_not_fetched(page, base_url: str, elsewhere):
    address, asked = elsewhere
    page.goto(f"{base_url}/?model=![x]({address}/b.png)")
    page.wait_for_selector(SETTLED)
    page.wait_for_selector('[data-testid="stAlert"]')
    page.wait_for_timeout(500)
    assert asked == []


@pytest.mark.slow
def test_a_page_of_another_server_cannot_frame_it(page, base_url: str, elsewhere):
    address, asked = elsewhere
    page.goto(f"{address}/?{base_url}/")
    page.wait_for_timeout(1500)
    assert asked and page.frames[1].locator('[data-testid="stApp"]').count() == 0


@pytest.mark.slow
def test_what_a_visitor_may_not_do_is_said_on_the_page(page, base_url: str):
    page.goto(f"{base_url}/measure")
    page.wait_for_selector("text=Visitors cannot measure on this server")
    page.wait_for_selector(SETTLED)
    assert page.get_by_role("button", name="Measure", exact=True).count() == 0

"""The dashboard as tests use it: pages, uploads, buttons, jobs, cards."""

import functools
import json
import time
from pathlib import Path
from typing import Any

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.jobs import server_queue
from app.main import MOVED
from app.scenario.setup import Setup

ROOT = Path(__file__).parents[2]
MAIN = ROOT / "app" / "main.py"
REPORTS = ROOT / "tests" / "fixtures" / "reports"
QWEN = ROOT / "app" / "samples" / "h100_qwen1.5-0.5b.json.gz"
DECODE = REPORTS / "csv" / "llm-perf-opt" / "decode_cuda_gpu_kern_sum.csv"
PREFILL = REPORTS / "csv" / "llm-perf-opt" / "prefill_cuda_gpu_kern_sum.csv"

# AppTest looks for components in the metadata of all installed packages for each page that is
# opened, which takes as long as most pages do.
manifest_scanner.scan_component_manifests = functools.cache(
    manifest_scanner.scan_component_manifests
)


def path_of(page: str) -> str:
    """The file of a page for `switch_page`; for a page of an earlier release, that of its
    successor.
    """
    page, _ = MOVED.get(page, (page, ""))
    return next((MAIN.parent / "views").glob(f"{page}.py")).relative_to(MAIN.parent).as_posix()


def opened(page: str = "answer", **query: object) -> AppTest:
    """A page with parameters in its address; a page of an earlier release by its old address."""
    app = AppTest.from_file(str(MAIN), default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = str(value)
    if page in MOVED and page != "answer":
        app._page_hash = calc_hash(page)  # a hidden page has no file
        return app.run().switch_page(path_of(page))  # the address that the browser then shows
    if page != "answer":
        app.switch_page(path_of(page))
    return app.run()


@functools.cache
def shown(page: str = "answer", **query: object) -> AppTest:
    """A newly opened page, drawn once for all tests that only read it."""
    return opened(page, **query)


def charts(app: AppTest) -> list[dict[str, Any]]:
    """The charts of a page as Plotly's documents."""
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def brought(app: AppTest, uploader: str, *files: Path) -> AppTest:
    """The page after files were added to one of its boxes."""
    box = app.file_uploader(uploader)
    for file in files:
        box = box.upload(file.name, file.read_bytes())
    return box.run()


def pressed(app: AppTest, label: str) -> AppTest:
    """The page after its button with that label was pressed."""
    return next(button for button in app.button if button.label == label).click().run()


def finished(app: AppTest, key: str) -> AppTest:
    """The page after its job with that key succeeded."""
    job = app.session_state[key]
    for _ in range(1000):
        job.poll()
        if job.over:
            break
        time.sleep(0.3)
    assert job.over and job.error == ""
    return app.run()


def settled(app: AppTest) -> AppTest:
    """The page after all jobs of this process have ended, in whatever way."""
    deadline = time.monotonic() + 120.0
    while server_queue().under_way and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server_queue().under_way
    return app.run()


def setup_of(app: AppTest) -> Setup:
    """The setup of the sidebar."""
    return app.session_state["setup"]


def cards(app: AppTest) -> dict[str, str]:
    """The values of a page's cards by label."""
    return {metric.label: metric.value for metric in app.metric}

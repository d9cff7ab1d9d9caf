"""Whatever a link, a form, a run file or a device's name holds: no file is opened, nobody asked.

The functions that the pages call are given thousands of values under a watch on every file and
address of the process; a handful go through the pages themselves.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hardware_db
from app.dashboard import explanations, own_definitions, pinned_scenarios
from app.measuring.device_by_size import system_of
from app.measuring.run_form import run_of_form
from app.question.question import Question
from app.scenario import points_file
from app.scenario.setup import Setup, resolve_setup, setup_from
from app.wording.markdown import plain, without_links
from genz_core.errors import RidgelineError
from genz_core.limits import checked_size
from model_registry.finding.hub import hub_model
from model_registry.finding.sources import json_object
from profilers.schema import KERNEL_COLUMNS, DeviceInfo, table
from tests.app.pages import ROOT, opened
from tests.draws import cases, seed
from tests.ops.hostile import Probe, Reaches, values, watched

COUNT = cases(160)  # for each probe: every value by itself, and 48 joined
PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")


class _Report:
    """The part of a report that says what its device is: its name, and no kernels."""

    def __init__(self, device: str) -> None:
        self.devices = (DeviceInfo(name=device),)
        self.kernels = table(KERNEL_COLUMNS, {}, 0)


def _resolved(**fields: Any) -> object:
    return resolve_setup(Setup(setup_from(fields).scenario))


def _run_of(model: str) -> object:
    """The run of a model, unless the hub may have it, which such a name is allowed to request."""
    return None if hub_model(model) else run_of_form([f"model={model}"])


#: How the pages use a value, by its origin.
PROBES: dict[str, Probe] = {
    "?model": lambda text: _resolved(model=text),
    "?system": lambda text: _resolved(system=text),
    "?engine": lambda text: _resolved(engine=text),
    "?weights": lambda text: _resolved(weights=text),
    "?kv": lambda text: _resolved(kv=text),
    "?tp": lambda text: checked_size("tp", text, "TP"),
    "?pins": lambda text: [setup_from(pin) for pin in pinned_scenarios.parsed(text)],
    "a pinned model": lambda text: [
        resolve_setup(setup_from(pin))
        for pin in pinned_scenarios.parsed(json.dumps([{"model": text}]))
    ],
    "an uploaded system": hardware_db.load_yaml,
    "a pasted config": json_object,
    "the name of a system typed": lambda text: own_definitions.system_yaml(text, {}),
    "the run form's model": _run_of,
    "the run form's further fields": lambda text: run_of_form(["model=gpt2", *text.split()]),
    "a run file's system": lambda text: run_of_form(["model=gpt2", f"predict.system={text}"]),
    "a run file's path": lambda text: run_of_form([f"path={text}", "model=gpt2"]),
    "a sweep's batches": lambda text: run_of_form(
        ["model=gpt2"], {"batches": text, "lengths": "8", "phases": "decode", "rounds": 1}
    ),
    "the device of a trace": lambda text: system_of(_Report(text)),
    "a points file": lambda text: points_file.price(
        [{"model": text, "system": text, "batch": text, "isl": "8", "osl": "2"}]
    ),
    "the command of a page": lambda text: explanations.command(Setup(Question(model=text))),
    "a sentence on a page": plain,
    "an imported report": without_links,
}


@pytest.fixture
def reaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Reaches, Path]]:
    """The watch, and a folder of bait that is also the working folder."""
    bait, own_data = tmp_path / "bait", tmp_path / "data"
    monkeypatch.setenv("RIDGELINE_DATA", str(own_data))
    bait.mkdir()
    (bait / "config.json").write_text('{"model_type": "llama"}')
    (bait / "card.yaml").write_text("include: h100-sxm5-80gb\nid: card\nname: Card\n")
    monkeypatch.chdir(bait)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    interpreter = (Path(sys.prefix), Path(sys.base_prefix), Path(json.__file__).parents[1])
    with watched([*(ROOT / package for package in PACKAGES), own_data, *interpreter]) as watch:
        yield watch, bait


def test_the_watch_sees_files_folders_and_addresses(reaches: tuple[Reaches, Path]) -> None:
    import socket

    watch, bait = reaches
    (bait / "config.json").read_text()
    Path("card.yaml").is_file()
    list(bait.iterdir())
    with pytest.raises(OSError):
        socket.getaddrinfo("nosuch.invalid", 80)
    seen = [words.partition(" ")[0].replace("scandir", "listdir") for words in watch]
    assert seen == ["open", "stat", "os.listdir", "socket.getaddrinfo"]


@pytest.mark.by_day(2)
@pytest.mark.draws
@pytest.mark.parametrize("probe", PROBES)
def test_no_value_opens_a_file_or_asks_anybody(reaches: tuple[Reaches, Path], probe: str) -> None:
    watch, bait = reaches
    for text in values(COUNT, bait, seed(20261122)):
        began = time.process_time()  # so that a busy machine does not fail the test
        try:
            PROBES[probe](text)
        except RidgelineError as error:
            assert len(str(error)) < 3000 and "\n" not in str(error)[:200]
        assert not watch, f"{probe} of {text[:80]!r}"
        assert time.process_time() - began < 5.0, f"{probe} of {text[:80]!r} took long"


#: Accesses that only a value can cause: Streamlit itself reads more than our folders.
NAMED = ("/etc/hosts", "/etc/passwd")


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("answer", {"model": "hf:owner/name"}),
        ("answer", {"model": "![x](http://host/b.png)", "system": "/etc/hosts.yaml"}),
        ("models", {"model": "views/../../../../etc/passwd"}),
        ("compare", {"pins": '[{"model": "hf:owner/name"}, {"system": "card.yaml"}]'}),
        ("hardware", {"system": "../card.yaml", "find": "![x](http://host/b.png)"}),
    ],
)
def test_a_page_opens_with_a_sentence_and_draws_no_picture(
    reaches: tuple[Reaches, Path], page: str, query: dict[str, str]
) -> None:
    watch, bait = reaches
    app = opened(page, **query)
    named = [
        words
        for words in watch
        if words.startswith("socket.") or any(name in words for name in (str(bait), *NAMED))
    ]
    assert not app.exception
    assert [words for words in named if ".streamlit" not in words] == []  # its configuration
    shown = " ".join(str(element.value) for element in (*app.error, *app.markdown, *app.caption))
    assert "](http" not in shown and "http://" not in shown

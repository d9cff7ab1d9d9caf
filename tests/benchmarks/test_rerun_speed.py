"""Processor time of the server for a rerun of a page.

Run with ``pytest -m benchmark tests/benchmarks/test_rerun_speed.py``.  A real server and one
session: the sidebar, the protocol and the garbage collection afterwards are included.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

from tests.dashboards import Served, served
from tests.ops.visitor import Visitor, visit

PAGES = ("Overview", "Roofline", "Breakdown", "Memory", "Serving")
#: Pages that price hundreds of deployments for a new scenario.
DECIDING = ("Plan", "Frontiers", "Sensitivity", "Economics")
MOST_S = 0.080
MOST_DECIDING_S = 0.5
RERUNS = 10  # of each kind, because the system counts processor time in hundredths of a second
_INPUTS = itertools.count(1500, 7)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("server")) as running:
        yield running


def with_input(visitor: Visitor, tokens: int) -> None:
    """The page after the sidebar's input length was changed."""
    box = next(w for w in visitor.widgets if w.in_sidebar and w.proto.label == "Input")
    visitor.set(box, WidgetState(id=box.id, string_value=str(tokens)))
    assert not visitor.reruns[-1].errors


def processor_s(
    server: Served, page: str, inputs: list[int], asked_before: Sequence[int] = ()
) -> float:
    """Mean processor time of reruns of a page, one for each input length [s].

    asked_before: input lengths that are used once before the timing.
    """
    with visit(server.url) as visitor:
        visitor.open().turn_to(page)
        for tokens in (next(_INPUTS), *asked_before):
            with_input(visitor, tokens)
        before = server.processor_s
        for tokens in inputs:
            with_input(visitor, tokens)
        return (server.processor_s - before) / len(inputs)


@pytest.mark.parametrize("page", PAGES)
def test_a_scenario_that_nobody_asked_before(server: Served, page: str):
    inputs = list(itertools.islice(_INPUTS, RERUNS))
    spent = processor_s(server, page, inputs)
    print(f"\n{page}, a new scenario: {1e3 * spent:.0f} ms")
    assert spent < MOST_S


@pytest.mark.parametrize("page", DECIDING)
def test_a_choice_that_nobody_asked_before(server: Served, page: str):
    inputs = list(itertools.islice(_INPUTS, RERUNS))
    spent = processor_s(server, page, inputs)
    print(f"\n{page}, a new scenario: {1e3 * spent:.0f} ms")
    assert spent < MOST_DECIDING_S


@pytest.mark.parametrize("page", (*PAGES, *DECIDING))
def test_a_scenario_that_was_asked_before(server: Served, page: str):
    inputs = list(itertools.islice(_INPUTS, 2))
    spent = processor_s(server, page, inputs * (RERUNS // 2), asked_before=inputs)
    print(f"\n{page}, a scenario asked before: {1e3 * spent:.0f} ms")
    assert spent < MOST_S

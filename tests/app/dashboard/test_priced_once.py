"""Nothing is priced twice on one click: every call of the engine prices something else."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

import genz_core
from tests.app.pages import opened

PAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("answer", {"target": "tpot < 9ms"}),
    ("plan", {"target": "tpot < 30ms", "rate": 2}),
    ("chip_lab", {"part": "Needed hardware", "target": "tpot < 40ms"}),
    ("answer", {"batch": 8}),
    ("answer", {"rate": 3, "part": "Load curves"}),
    ("explain", {"part": "Roofline"}),
    ("explain", {"part": "Memory"}),
    ("chip_lab", {"part": "Another chip"}),
    ("chip_lab", {"part": "Sensitivity"}),
    ("compare", {"part": "Figures", "compare_by": "Systems"}),
    ("plan", {"part": "Economics"}),
)


def content(one: Any) -> object:
    """What an argument of the engine says, whichever object says it."""
    if isinstance(one, np.ndarray):
        return one.tolist()
    if hasattr(one, "precision"):  # a model: its graph follows from its name and formats
        return one.name, repr(one.precision)
    if is_dataclass(one):
        return [(field.name, content(getattr(one, field.name))) for field in fields(one)]
    return repr(one)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each question is priced, by its content."""
    counts: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> None:
        price = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            told = [*map(content, args), *((key, content(v)) for key, v in options.items())]
            counts[f"{name} {told}"] += 1
            return price(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    counting(genz_core, "estimate")
    counting(genz_core, "serve")
    return counts


@pytest.mark.by_day(3)
@pytest.mark.parametrize(("page", "query"), PAGES)
def test_a_changed_question_is_priced_once(priced: Counter[str], page: str, query: dict[str, Any]):
    app = opened(page, **query)
    priced.clear()
    app = app.text_input("lengths_box").set_value("1733 / 231").run()
    assert not app.exception and priced, "the click prices something"
    twice = [one[:300] for one, count in priced.items() if count > 1]
    assert not twice, twice

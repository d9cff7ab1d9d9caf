"""What pages need is loaded in the background once the server runs."""

import pkgutil
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import app.dashboard.panels
from app.dashboard import library_tables, preload
from app.decide import measured_loads
from genz_core.errors import RidgelineError


def test_it_loads_the_modules_of_every_panel_the_lists_of_the_library_and_what_was_measured():
    parts = list(preload.parts())
    loaded = {part.args[0] for part in parts if isinstance(part, partial)}
    panels = pkgutil.iter_modules(app.dashboard.panels.__path__)
    assert {f"app.dashboard.panels.{panel.name}" for panel in panels} <= loaded
    assert parts[-3].func is library_tables.systems_on_disk  # type: ignore[attr-defined]
    assert parts[-2:] == [library_tables.shipped_models, measured_loads.by_family]


def test_a_part_that_a_damaged_file_prevents_does_not_prevent_the_next(
    monkeypatch: pytest.MonkeyPatch,
):
    done: list[str] = []

    def fails() -> None:
        raise RidgelineError("a file cannot be read")

    def parts() -> Iterator[Callable[[], object]]:
        yield fails
        yield lambda: done.append("next")

    monkeypatch.setattr(preload, "parts", parts)
    preload.load()
    assert done == ["next"]

"""Page Explain: what it exports."""

import pytest

from app.dashboard import export
from tests.app.pages import opened


@pytest.mark.parametrize(
    ("part", "columns"),
    [("Memory", {"batch", "memory_bytes_per_device", "fits"}), ("Roofline", {"name", "of bound"})],
)
def test_the_exported_table_is_that_of_the_chart(part: str, columns: set[str], monkeypatch):
    """Part Memory once exported the operators beside its charts."""
    exported = []
    monkeypatch.setattr(export, "downloads", lambda *given: exported.append(given))
    opened("explain", part=part)
    ((_, figures, table, _),) = exported
    assert columns <= set(table) and figures

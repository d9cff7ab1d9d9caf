"""docs/models.md agrees with the registry."""

from pathlib import Path

from model_registry.reports.models_page import markdown

PAGE = Path(__file__).parents[3] / "docs" / "models.md"


def test_the_page_of_models_is_up_to_date() -> None:
    """Renew it with `python -m model_registry.reports.models_page > docs/models.md`."""
    assert PAGE.read_text(encoding="utf-8") == markdown()

"""Files of the registry are short."""

from pathlib import Path

from tests.rules import for_every

FOLDER = Path(__file__).parents[2] / "model_registry"


@for_every(sorted(FOLDER.rglob("*.py")))
def test_a_file_can_be_held_in_the_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 450

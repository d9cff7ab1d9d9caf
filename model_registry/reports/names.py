"""How many names of a list the registry resolves, and its message for the others.

`python -m model_registry.reports.names FILE` reads one name per line; # starts a comment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from genz_core.errors import NotADecoder, RidgelineError
from model_registry.finding.lookup import resolve_name


def answers(names: Iterable[str]) -> list[tuple[str, str, str]]:
    """(name, "resolved", "another kind" or "unknown", the model or the message) of each name."""
    rows = []
    for name in names:
        try:
            rows.append((name, "resolved", resolve_name(name).id))
        except NotADecoder as refusal:
            rows.append((name, "another kind", str(refusal)))
        except RidgelineError as refusal:
            rows.append((name, "unknown", str(refusal)))
    return rows


def main() -> None:
    """Print a line for each name of the file, and the counts."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    rows = answers(line.strip() for line in lines if line.strip() and line[0] != "#")
    for name, outcome, said in rows:
        print(f"{outcome:12}  {name}  {said}")
    for outcome in ("resolved", "another kind", "unknown"):
        print(f"{outcome}: {sum(row[1] == outcome for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()

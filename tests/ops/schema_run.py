"""Requests generated from the API's own schema by Schemathesis (extra nightly).

    python -m tests.ops.schema_run --examples 700    # of each of fourteen operations

A status that the schema does not list (such as 500), a response that does not match it, or
a traceback in the server's log is a failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.app.api.services import service

#: Checks of every response.
CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--examples", type=int, default=20, help="of each operation")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("RIDGELINE_SEED", "0")))
    chosen = parser.parse_args()
    if find_spec("schemathesis") is None:
        print("schemathesis is not installed: pip install -e '.[nightly]'", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with service(folder, "api", "--seconds", "10", "--at-once", "2") as url:
            done = subprocess.run(
                [
                    sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json",
                    "--max-examples", str(chosen.examples), "--seed", str(chosen.seed),
                    "--checks", ",".join(CHECKS), "--request-timeout", "60", "--no-color",
                    "--generation-deterministic", "--phases", "examples,coverage,fuzzing",
                ],
                cwd=folder, check=False,
            )  # fmt: skip
        log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    if "Traceback" in log:
        print(log[log.index("Traceback") :][:5000])
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

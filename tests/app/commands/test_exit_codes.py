"""Every exit code of the command line is declared, and commands return no other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main
from app.commands.exit_codes import FAILED, INTERRUPTED, MEANINGS, REFUSED

APP = Path(__file__).parents[3] / "app"
#: Codes that are no constant: `code` is what typer returns, 0 or that of `typer.Exit`.
NAMES = {"FAILED", "REFUSED", "INTERRUPTED", "code"}


def test_commands_end_only_with_declared_codes():
    assert set(MEANINGS) == {0, FAILED, REFUSED, INTERRUPTED}
    for file in (APP / "cli.py", *(APP / "commands").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:Exit|sys\.exit)\((.*?)\)", text)) <= NAMES, file


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--version"], 0), (["--no-such-option"], REFUSED), (["runs"], REFUSED), ([], REFUSED)],
)
def test_a_command_ends_with_the_code_of_its_meaning(words: list[str], code: int):
    line = [sys.executable, "-c", "from app.cli import main; main()", *words]
    assert subprocess.run(line, check=False, capture_output=True).returncode == code


LARGE, BEYOND = ["meta-llama/Llama-3.1-70B"], ["meta-llama/Llama-3.1-8B", "--isl", "200000"]
FEW = ["--concurrency", "2", "--requests", "2"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["estimate", *LARGE], 0),
        (["serve", *LARGE, "--concurrency", "2"], 0),
        (["simulate", *LARGE, *FEW], REFUSED),
        (["estimate", *BEYOND], REFUSED),
        (["serve", *BEYOND, "--concurrency", "2"], REFUSED),
        (["simulate", *BEYOND, *FEW], REFUSED),
        (["serve", "meta-llama/Llama-3.1-8B", "--rate", "500"], 0),
    ],
)
def test_what_lacks_memory_is_shown_and_what_has_no_times_is_refused(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch
):
    """As docs/faq.md states it; the 70 B model does not fit one H100."""
    monkeypatch.setattr(sys, "argv", ["ridgeline", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0) == code


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end otherwise")
def test_a_command_whose_output_is_closed_fails():
    line = [sys.executable, "-c", "from app.cli import main; main()", "models", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (FAILED, b"")

"""Text of reports: names of bounded length, and tables that stay aligned."""

from app.answers.table import TableFormat, render
from profilers.report_text import markdown_table, shortened


def test_a_name_is_one_line_of_bounded_length():
    assert shortened("void\n  gemm<int>") == "void gemm<int>"
    assert shortened("x" * 100, 10) == "x" * 9 + "…"


def test_commands_and_artifacts_write_the_same_markdown():
    table = markdown_table(["name", "runs"], [["gemm", "3"], ["norm", "12"]])
    assert table == "| name | runs |\n| --- | --- |\n| gemm | 3 |\n| norm | 12 |"
    rows = [{"name": "gemm", "runs": 3}, {"name": "norm", "runs": 12}]
    assert render(rows, TableFormat.markdown) == table

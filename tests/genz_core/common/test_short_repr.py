"""Names in reports are short."""

from genz_core.common.short_repr import shortened


def test_a_name_is_one_line_of_bounded_length() -> None:
    assert shortened("void\n  gemm<int>") == "void gemm<int>"
    assert shortened("x" * 100, 10) == "x" * 9 + "…"

"""Plans whose families are priced elsewhere: as here, kept, and taken up again."""

from __future__ import annotations

import numpy as np
import pytest

from app.planning import family_pricing
from app.planning.search import price
from genz_core.common.progress import Cancelled, silent
from tests.app.planning.asking import asked

MODEL = "Qwen/Qwen3-30B-A3B"


def question():
    return asked(MODEL, systems="h100", engine="vllm,sglang", devices="1:8", rate=4,
                 simulate=False)  # fmt: skip


def same(one, other):
    """Whether two priced plans are equal to the last bit."""
    (first, left), (second, missing) = one, other
    assert list(map(str, first.families)) == list(map(str, second.families))
    assert left == missing and dict(first.messages) == dict(second.messages)
    assert (first.status == second.status).all() and (first.family == second.family).all()
    for name, column in first.columns.items():
        np.testing.assert_array_equal(column, second.columns[name], name)


def test_what_was_priced_before_a_stop_is_not_priced_again(tmp_path, monkeypatch):
    with pytest.raises(Cancelled):
        price(question(), silent, lambda: bool(list(tmp_path.rglob("*.npz"))), folder=tmp_path)
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    calls = []
    own = family_pricing.price_family
    monkeypatch.setattr(
        family_pricing, "price_family", lambda *given: calls.append(given) or own(*given)
    )
    again = price(question(), folder=tmp_path)
    families = len(again[0].families) + len(again[1])
    assert len(calls) == families - 1
    calls.clear()
    same(price(question(), folder=tmp_path), again)
    assert not calls
    same(price(question()), again)


def test_a_damaged_file_is_priced_anew(tmp_path):
    first = price(question(), folder=tmp_path)
    next(tmp_path.rglob("*.npz")).write_bytes(b"PK\3\4 and then nothing")
    same(price(question(), folder=tmp_path), first)


def test_another_question_finds_nothing_in_the_folder_of_this_one(tmp_path):
    price(question(), folder=tmp_path)
    other = asked(MODEL, systems="h100", engine="vllm", devices="1:2", rate=5, simulate=False)
    same(price(other, folder=tmp_path), price(other))

"""Sizes of prompts: valid lines of JSONL, and draws from a distribution."""

import json
from pathlib import Path

import pytest

from genz_core.errors import InvalidValue
from profilers.prompt_sizes import chosen, drawn_sizes, read_sizes


def written(tmp_path: Path, *lines: object, name: str = "prompts.jsonl") -> Path:
    file = tmp_path / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(texts), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("line", "isl", "osl"),
    [
        ({"isl": 100, "osl": 7}, 100, 7),
        ({"prompt_tokens": 12, "output_tokens": 3}, 12, 3),
        ({"input_length": 12, "output_length": 3, "hash_ids": [1]}, 12, 3),
        ({"prompt_len": 5}, 5, 16),
        ({"token_ids": [5, 6, 7], "max_tokens": 2}, 3, 2),
        ({"prompt": "a" * 400}, 100, 16),
        ({"prompt_chars": 41}, 10, 16),
        ({"text": "Hi", "isl": 9}, 9, 16),
    ],
)
def test_a_line_says_its_tokens_in_any_of_the_usual_ways(tmp_path, line, isl, osl):
    (prompt,) = read_sizes([written(tmp_path, line)], osl=16)
    assert (prompt.isl, prompt.osl) == (isl, osl)
    assert prompt.guessed == (not {"isl", "prompt_tokens", "input_length", "prompt_len",
                                   "token_ids"} & set(line))  # fmt: skip


def test_files_follow_each_other_and_prompts_keep_their_place(tmp_path):
    files = [
        written(tmp_path, {"isl": 1}, "", {"isl": 2, "id": "b"}, name="one.jsonl"),
        written(tmp_path, {"isl": 3}, name="two.jsonl"),
    ]
    prompts = read_sizes(files, osl=4)
    assert [(p.id, p.isl, p.origin) for p in prompts] == [
        ("one.jsonl:1", 1, "one.jsonl"), ("b", 2, "one.jsonl"), ("two.jsonl:1", 3, "two.jsonl"),
    ]  # fmt: skip
    assert [p.isl for p in chosen(prompts, 2, False, 0)] == [1, 2]
    shuffled = chosen(prompts, 0, True, 5)
    assert sorted(p.isl for p in shuffled) == [1, 2, 3]
    assert shuffled == chosen(prompts, 0, True, 5), "of the seed"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "prompts.jsonl:1 is not a JSON object"),
        ("[1]", "is not a JSON object"),
        ({"question": "?"}, "prompts.jsonl:1 states no length"),
        ({"isl": 0}, "isl of prompts.jsonl:1"),
        ({"isl": "many"}, "isl of prompts.jsonl:1"),
        ({"isl": 4, "osl": 0}, "osl of prompts.jsonl:1"),
        ({"prompt": ""}, "states no length"),
        ("[" * 100_000, "is not a JSON object"),
        ("", "hold no prompt"),
    ],
)
def test_a_line_without_a_length_is_named(tmp_path, line, message):
    with pytest.raises(InvalidValue) as refused:
        read_sizes([written(tmp_path, line)], osl=16)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidValue, match=r"none\.jsonl: no such file"):
        read_sizes([tmp_path / "none.jsonl"], 4)
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValue, match="not UTF-8"):
        read_sizes([binary], 4)


def test_a_distribution_draws_the_mean_that_it_names():
    prompts = drawn_sizes("lognormal:mean=512,spread=0.5,osl=32,n=1000", 16, seed=1)
    mean = sum(p.isl for p in prompts) / len(prompts)
    assert mean == pytest.approx(512, rel=0.05) and {p.osl for p in prompts} == {32}
    assert prompts == drawn_sizes("lognormal:mean=512,spread=0.5,osl=32,n=1000", 16, seed=1)
    uniform = drawn_sizes("uniform:low=10, high=20, n=200", 16)
    assert {p.isl for p in uniform} == set(range(10, 21)) and uniform[0].osl == 16
    (same, *rest) = drawn_sizes("lognormal:mean=100,spread=0", 16)
    assert {p.isl for p in rest} == {same.isl} == {100}


@pytest.mark.parametrize(
    "spec",
    ["normal:mean=1", "lognormal", "lognormal:mean=5", "lognormal:mean=0,spread=1", "uniform:low=2",
     "uniform:low=9,high=3", "lognormal:mean=5,spread=-1", "lognormal:mean=nan,spread=1",
     "lognormal:mean=5,spread=1,n=0", "lognormal:mean=5,spread=1,n=99999",
     "uniform:low=1,high=2,x=3"],
)  # fmt: skip
def test_an_impossible_distribution_is_refused_in_one_sentence(spec):
    with pytest.raises(InvalidValue) as refused:
        drawn_sizes(spec, 16)
    assert "\n" not in str(refused.value)

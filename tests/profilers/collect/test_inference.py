"""Direct inference: prompts in, predictions out, boxes drawn if an answer contains some."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from genz_core.errors import MeasurementError
from profilers.collect.inference import (
    Generation,
    Prompt,
    Sampling,
    _annotated,
    boxes_of,
    read_prompts,
    run_inference,
    schedule,
)

PROMPTS = [Prompt(name, name) for name in "abcd"]


def order(**options: Any) -> list[list[str]]:
    plan = list(schedule(PROMPTS, Sampling(**options)))
    epochs = sorted({epoch for epoch, _ in plan})
    return [[prompt.id for epoch, prompt in plan if epoch == wanted] for wanted in epochs]


def test_all_prompts_run_once_in_order_unless_asked_otherwise() -> None:
    assert order() == [["a", "b", "c", "d"]]


def test_each_epoch_shuffles_anew_and_the_seed_repeats_it() -> None:
    first, second = order(epochs=2, shuffle=True, seed=3)
    assert sorted(first) == sorted(second) == ["a", "b", "c", "d"]
    assert first != second
    assert order(epochs=2, shuffle=True, seed=3) == [first, second]


def test_samples_per_epoch_and_subset_cut_what_runs() -> None:
    assert order(epochs=2, samples_per_epoch=2) == [["a", "b"], ["a", "b"]]
    assert order(subset=("d", "b")) == [["b", "d"]]


@pytest.mark.parametrize("options", [{"epochs": 0}, {"samples_per_epoch": -1}, {"subset": ("z",)}])
def test_a_plan_that_means_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MeasurementError):
        order(**options)


def test_text_files_hold_a_prompt_a_line(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("one\n\n  two \n", encoding="utf-8")
    assert read_prompts(path) == [Prompt("1", "one"), Prompt("3", "two")]


def test_jsonl_files_hold_objects_with_pictures_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "what?", "id": 7, "image": "x.png"}\n{"prompt": "b"}\n')
    assert read_prompts(path) == [Prompt("7", "what?", str(tmp_path / "x.png")), Prompt("2", "b")]


@pytest.mark.parametrize("line", ["[]", "{", '{"text": "x"}', '{"prompt": 3}', "null", "[" * 5000])
def test_a_line_that_is_no_prompt_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(MeasurementError, match="line 2 is not a prompt"):
        read_prompts(path)


def test_an_empty_or_missing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("\n\n")
    for name in ("e.txt", "missing.txt"):
        with pytest.raises(MeasurementError):
            read_prompts(tmp_path / name)


@pytest.fixture
def checkpoint(tmp_path: Path, tiny_llama: dict[str, Any]) -> str:
    """A saved model with random weights and a tokenizer of a few words."""
    tokenizers = pytest.importorskip("tokenizers")
    import torch
    import transformers

    words = ["[UNK]", "[EOS]", "hello", "world", *(f"w{n}" for n in range(252))]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    torch.manual_seed(0)
    keys = {k: v for k, v in tiny_llama.items() if k not in ("_id", "model_type", "architectures")}
    config = transformers.AutoConfig.for_model("llama", **keys)
    model = transformers.AutoModelForCausalLM.from_config(config)
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_every_prompt_gets_a_line_of_predictions(checkpoint: str, tmp_path: Path) -> None:
    plan = list(schedule([Prompt("a", "hello world"), Prompt("b", "world")], Sampling(epochs=2)))
    how = Generation(max_new_tokens=3, dtype="float32", device="cpu")
    done = run_inference(checkpoint, plan, tmp_path / "out", how)
    lines = [json.loads(line) for line in done.path.read_text().splitlines()]
    assert [(line["epoch"], line["id"]) for line in lines] == [
        (0, "a"),
        (0, "b"),
        (1, "a"),
        (1, "b"),
    ]
    assert [line["input_tokens"] for line in lines] == [2, 1, 2, 1]
    assert all(1 <= line["output_tokens"] <= 3 for line in lines)
    assert lines[0]["text"] == lines[2]["text"]
    assert done.count == 4 and not done.cancelled
    # the first token, and the gaps after it, add up to less than the answer's time
    for line in lines:
        gaps = line["output_tokens"] - 1
        assert 0 < line["ttft_s"] <= line["seconds"]
        assert (line["tpot_s"] is None) is (gaps == 0)
        assert line["ttft_s"] + (line["tpot_s"] or 0) * gaps <= line["seconds"]
    assert done.ttft_s == pytest.approx(median(line["ttft_s"] for line in lines))


def test_a_stopped_run_keeps_the_answers_so_far(checkpoint: str, tmp_path: Path) -> None:
    plan = list(schedule([Prompt("a", "hello"), Prompt("b", "world")], Sampling()))
    answers = iter([False, True])
    how = Generation(max_new_tokens=2, dtype="float32", device="cpu")
    done = run_inference(checkpoint, plan, tmp_path, how, cancelled=lambda: next(answers))
    assert done.cancelled and len(done.path.read_text().splitlines()) == 1


def test_a_checkpoint_that_is_none_ends_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="cannot be loaded"):
        run_inference(str(tmp_path), [(0, Prompt("a", "x"))], tmp_path, Generation(device="cpu"))


def test_a_text_model_cannot_be_asked_about_pictures(checkpoint: str, tmp_path: Path) -> None:
    plan = [(0, Prompt("a", "what?", "x.png"))]
    with pytest.raises(MeasurementError, match="with images"):
        run_inference(checkpoint, plan, tmp_path, Generation(device="cpu"))


def words(*more: str) -> Any:
    """A tokenizer of 64 words."""
    tokenizers = pytest.importorskip("tokenizers")
    known = ["[UNK]", "[EOS]", "<image>", "what", *more]
    known += [f"w{n}" for n in range(64 - len(known))]
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(known)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return inner


@pytest.fixture
def vision_checkpoint(tmp_path: Path) -> str:
    """A Llava of two layers, saved with a processor for pictures of 28 pixels."""
    pytest.importorskip("PIL")
    import transformers as tf

    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_object=words(),
        unk_token="[UNK]",
        pad_token="[EOS]",
        extra_special_tokens={"image_token": "<image>"},
    )
    template = (
        "{% for m in messages %}{% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }}{% endif %}"
        "{% endfor %}{% endfor %}"
    )
    processor = tf.LlavaProcessor(
        image_processor=tf.CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        image_token="<image>",
        chat_template=template,
        num_additional_image_tokens=1,
    )
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 2}  # fmt: skip
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**shape, image_size=28, patch_size=14),
        text_config=tf.LlamaConfig(**shape, vocab_size=64),
        image_token_index=2,
    )
    folder = tmp_path / "vision"
    tf.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def test_a_vision_model_gets_the_picture_with_the_prompt(
    vision_checkpoint: str, tmp_path: Path
) -> None:
    from PIL import Image

    Image.new("RGB", (60, 40), "red").save(tmp_path / "red.png")
    plan = [(0, Prompt("a", "what", str(tmp_path / "red.png")))]
    how = Generation(max_new_tokens=2, dtype="float32", device="cpu")
    done = run_inference(vision_checkpoint, plan, tmp_path / "out", how)
    line = json.loads(done.path.read_text())
    assert line["input_tokens"] == 4 + 1  # four patches and a word
    assert line["image"] == "red.png" and line["boxes"] == []


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        ("<|box_start|>(100,200),(300,400)<|box_end|>", [(20.0, 20.0, 60.0, 40.0)]),
        ('[{"bbox_2d": [10, 20, 30, 40], "label": "cat"}]', [(10.0, 20.0, 30.0, 40.0)]),
        ("<|det|>[[0, 0, 500, 1000]]<|/det|>", [(0.0, 0.0, 100.0, 100.0)]),
        ("a list [1, 2, 3, 4] is no box", []),
        ('"bbox_2d": [30, 20, 10, 40]', []),
    ],
)
def test_boxes_are_read_as_models_write_them(text: str, boxes: list[Any]) -> None:
    assert boxes_of(text, width=200, height=100) == boxes


def test_a_picture_is_saved_with_its_boxes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (200, 100), "white").save(tmp_path / "in.png")
    prompt = Prompt("../evil", "find it", str(tmp_path / "in.png"))
    assert _annotated(prompt, '"bbox_2d": [10, 20, 30, 40]', tmp_path) == [[10.0, 20.0, 30.0, 40.0]]
    drawn = image.open(tmp_path / ".._evil.boxes.png")
    assert drawn.getpixel((10, 30)) != (255, 255, 255)


def test_a_file_that_is_no_picture_ends_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "x.png").write_bytes(b"not a picture")
    with pytest.raises(MeasurementError, match=r"x\.png is not a picture"):
        _annotated(Prompt("a", "q", str(tmp_path / "x.png")), "", tmp_path)

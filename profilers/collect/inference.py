"""Direct inference: run the prompts of a file through a checkpoint and write predictions.jsonl.

Nothing is profiled.  Prompts come one a line (.txt) or as JSON objects (.jsonl: `prompt`, and
optionally `id` and `image`).  A model that takes images gets them with the prompt; where its
answer holds boxes, the picture is saved with the boxes drawn.
"""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genz_core.common.installation import pip_install
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import MeasurementError, file_problem
from profilers.collect.measured_model import first_line, libraries, pick_device

_MOST_PROMPTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt.  image: path of its picture, "" for none."""

    id: str
    text: str
    image: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Choice and order of prompts.

    epochs: passes over the prompts.  samples_per_epoch: prompts of a pass, 0 for all.
    shuffle: a different order in each pass, drawn from `seed`.  subset: ids to keep, empty for all.
    """

    epochs: int = 1
    samples_per_epoch: int = 0
    shuffle: bool = False
    seed: int = 0
    subset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """Settings of generation.  temperature: 0 for the most probable token each time.

    Raises:
        MeasurementError: a temperature outside 0 to 100, or a top_p outside 0 to 1.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    dtype: str = "bfloat16"
    device: str = "auto"

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise MeasurementError(f"temperature = {self.temperature:g}: give 0 to 100")
        if not 0.0 < self.top_p <= 1.0:
            raise MeasurementError(f"top_p = {self.top_p:g}: give a share above 0, up to 1")


@dataclass(frozen=True, slots=True)
class Predictions:
    """The file of answers.  cancelled: the run was stopped; the file holds the answers so far.

    ttft_s, tpot_s: medians over the prompts, NaN where no answer has one.
    """

    path: Path
    count: int
    output_tokens: int
    seconds: float
    cancelled: bool = False
    ttft_s: float = math.nan
    tpot_s: float = math.nan


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a text or JSONL file, whose pictures lie in the same folder.

    Raises:
        MeasurementError: the file cannot be read, or a line is not a prompt (the message gives its
            number).
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MeasurementError(f"{path}: {file_problem(error)}") from None
    kept = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not kept or len(kept) > _MOST_PROMPTS:
        raise MeasurementError(f"{path} holds {len(kept)} prompts; give 1 to {_MOST_PROMPTS}")
    if path.suffix == ".jsonl":
        return [_json_prompt(line, number, path) for number, line in kept]
    return [Prompt(str(number), line.strip()) for number, line in kept]


def _json_prompt(line: str, number: int, path: Path) -> Prompt:
    try:
        record = json.loads(line)
        text = record["prompt"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise MeasurementError(
            f"{path.name} line {number} is not a prompt; give an object with a text `prompt`"
        )
    image = record.get("image") or ""
    return Prompt(str(record.get("id", number)), text, str(path.parent / image) if image else "")


def schedule(prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[tuple[int, Prompt]]:
    """(epoch, prompt) in the order of the run.

    Raises:
        MeasurementError: a subset with an unknown id, or counts below their minimum.
    """
    if sampling.epochs < 1 or sampling.samples_per_epoch < 0:
        raise MeasurementError(
            "epochs must be at least 1 and samples per epoch at least 0 (0: all)"
        )
    ids = {prompt.id for prompt in prompts}
    missing = [name for name in sampling.subset if name not in ids]
    if missing:
        raise MeasurementError(f"the subset names {missing[0]!r}, but no prompt has that id")
    chosen = [p for p in prompts if not sampling.subset or p.id in sampling.subset]
    order = random.Random(sampling.seed)
    for epoch in range(sampling.epochs):
        turn = order.sample(chosen, len(chosen)) if sampling.shuffle else chosen
        for prompt in turn[: sampling.samples_per_epoch or None]:
            yield epoch, prompt


def run_inference(
    checkpoint: str,
    plan: Sequence[tuple[int, Prompt]],
    folder: Path,
    generation: Generation | None = None,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Predictions:
    """Answer every prompt of the plan, with one line of predictions.jsonl each.

    checkpoint: a local folder or hub id with weights and a tokenizer or processor.

    Raises:
        MeasurementError: the checkpoint cannot be loaded, a picture cannot be opened, or the
            model does not run.
    """
    wanted = generation or Generation()
    progress(0.0, "loading the checkpoint")
    answerer = _Answerer.load(checkpoint, wanted, any(prompt.image for _, prompt in plan))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "predictions.jsonl"
    began, tokens, count = time.perf_counter(), 0, 0
    times: dict[str, list[float]] = {"ttft_s": [], "tpot_s": []}
    with path.open("w", encoding="utf-8") as file:
        for at, (epoch, prompt) in enumerate(plan):
            if cancelled():
                break
            progress(at / len(plan), f"prompt {at + 1} of {len(plan)}")
            record = answerer.answer(prompt)
            record["boxes"] = _annotated(prompt, record["text"], folder)
            file.write(json.dumps({"id": prompt.id, "epoch": epoch, **record}) + "\n")
            file.flush()
            tokens, count = tokens + record["output_tokens"], count + 1
            for name, known in times.items():
                known += [record[name]] if record[name] is not None else []
    progress(1.0, "done")
    medians = {name: statistics.median(known) for name, known in times.items() if known}
    spent = time.perf_counter() - began
    return Predictions(path, count, tokens, spent, count < len(plan), **medians)


@dataclass(frozen=True, slots=True)
class _Answerer:
    """A loaded checkpoint.  reader: the tokenizer, or the processor for a model with images."""

    model: Any
    reader: Any
    generation: Generation
    images: bool

    @classmethod
    def load(cls, checkpoint: str, generation: Generation, images: bool) -> _Answerer:
        torch, transformers = libraries()
        device = pick_device(generation.device)
        reader_class = transformers.AutoProcessor if images else transformers.AutoTokenizer
        model_class = (
            transformers.AutoModelForImageTextToText
            if images
            else transformers.AutoModelForCausalLM
        )
        try:
            reader = reader_class.from_pretrained(checkpoint, trust_remote_code=False)
            model = model_class.from_pretrained(
                checkpoint, dtype=getattr(torch, generation.dtype), trust_remote_code=False
            )
        except (ValueError, KeyError, OSError, ImportError, TypeError, AttributeError) as error:
            kind = "with images " if images else ""
            raise MeasurementError(
                f"{checkpoint} cannot be loaded {kind}for inference: {first_line(error)}"
            ) from None
        return cls(model.to(device).eval(), reader, generation, images)

    def answer(self, prompt: Prompt) -> dict[str, Any]:
        """The answer to a prompt with its tokens and seconds."""
        import torch

        inputs = self._inputs(prompt).to(self.model.device)
        length, clock = int(inputs["input_ids"].shape[1]), _TokenClock()
        start = time.perf_counter()
        try:
            with torch.inference_mode():
                out = self.model.generate(**inputs, **self._options(), streamer=clock)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise MeasurementError(f"prompt {prompt.id}: {first_line(error)}") from None
        answered = out[0, length:]
        return {
            "prompt": prompt.text,
            "image": Path(prompt.image).name if prompt.image else None,
            "text": self.reader.decode(answered, skip_special_tokens=not self.images),
            "input_tokens": length,
            "output_tokens": int(answered.numel()),
            "seconds": time.perf_counter() - start,
            **clock.figures(start),
        }

    def _inputs(self, prompt: Prompt) -> Any:
        if not self.images:
            return self.reader(prompt.text, return_tensors="pt", return_token_type_ids=False)
        content: list[dict[str, Any]] = [{"type": "text", "text": prompt.text}]
        if prompt.image:
            content.insert(0, {"type": "image", "image": _picture(prompt.image)})
        return self.reader.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )

    def _options(self) -> dict[str, Any]:
        """Keyword arguments of `generate`."""
        generation = self.generation
        options: dict[str, Any] = {
            "max_new_tokens": generation.max_new_tokens,
            "do_sample": generation.temperature > 0,
        }
        if generation.temperature > 0:
            options |= {"temperature": generation.temperature, "top_p": generation.top_p}
        return options


class _TokenClock:
    """A streamer for transformers' `generate` that records when each token arrives.

    The first call passes the prompt back; each later call passes a token that is already on the
    host.
    """

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, _value: Any) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """End of generation, a callback of transformers; nothing is recorded."""

    def figures(self, start: float) -> dict[str, float | None]:
        """Seconds to the first token and mean gap between later ones, None where there are none."""
        tokens = self.times[1:]
        gaps = len(tokens) - 1
        return {
            "ttft_s": tokens[0] - start if tokens else None,
            "tpot_s": (tokens[-1] - tokens[0]) / gaps if gaps > 0 else None,
        }


# ------------------------------------------------------------------------------- pictures

_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_FOUR = ",".join([_NUMBER] * 4)
#: Boxes as models write them: (pattern, whether the numbers are thousandths of the picture's size).
_BOXES = (
    (re.compile(r"<\|box_start\|>\(" + _NUMBER + "," + _NUMBER + r"\),\(" + _NUMBER + "," + _NUMBER
                + r"\)<\|box_end\|>"), True),
    (re.compile(r"\"bbox(?:_2d)?\"\s*:\s*\[" + _FOUR + r"\]"), False),
    (re.compile(r"\[\[" + _FOUR + r"\]\]"), True),
)  # fmt: skip


def boxes_of(text: str, width: int, height: int) -> list[tuple[float, float, float, float]]:
    """Boxes (left, top, right, bottom) in pixels in an answer, in their order.

    Reads `<|box_start|>(x,y),(x,y)<|box_end|>` and `[[x, y, x, y]]`, in thousandths of the
    picture, and `"bbox_2d": [x, y, x, y]`, in pixels.  Boxes without an area are left out.
    """
    boxes: list[tuple[int, tuple[float, float, float, float]]] = []
    for pattern, thousandths in _BOXES:
        x, y = (width / 1000.0, height / 1000.0) if thousandths else (1.0, 1.0)
        for match in pattern.finditer(text):
            left, top, right, bottom = (float(value) for value in match.groups())
            if right > left and bottom > top:
                boxes.append((match.start(), (left * x, top * y, right * x, bottom * y)))
    return [box for _, box in sorted(boxes)]


def _annotated(prompt: Prompt, text: str, folder: Path) -> list[list[float]]:
    """The boxes of an answer; if any, the picture is saved with them drawn."""
    if not prompt.image:
        return []
    from PIL import ImageDraw

    picture = _picture(prompt.image)
    boxes = boxes_of(text, *picture.size)
    if boxes:
        drawing = ImageDraw.Draw(picture)
        for box in boxes:
            drawing.rectangle(box, outline=(220, 30, 30), width=max(min(picture.size) // 200, 2))
        name = re.sub(r"[^A-Za-z0-9._-]", "_", prompt.id)[:80]
        picture.save(folder / f"{name}.boxes.png")
    return [list(box) for box in boxes]


def _picture(path: str) -> Any:
    import importlib.util

    if importlib.util.find_spec("PIL") is None:
        raise MeasurementError(f"reading pictures needs Pillow; run: {pip_install('pillow')}")
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as opened:
            return opened.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise MeasurementError(f"{Path(path).name} is not a picture: {error}") from None

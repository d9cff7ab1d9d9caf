"""Labels fit into a chart in any font that a machine may use."""

import math
from itertools import pairwise

import pytest

from app.charts import labels, style
from app.wording import quantities

#: Widths in DejaVu Sans 2.37 [em], from its own table of advances.
DEJAVU_EM = {
    "InfiniBand NDR 400 Gb/s 50.0 GB/s": 17.56, "NVLink 4 450 GB/s": 9.30,
    "bf16, fp16 989 TFLOP/s": 11.69, "attention core": 7.07, "100 µs": 3.38, "1 s": 1.48,
}  # fmt: skip


@pytest.mark.parametrize(("words", "wide"), DEJAVU_EM.items())
def test_the_estimated_width_is_that_of_a_wide_font_or_little_more(words: str, wide: float):
    assert 1.0 <= labels.width(words, 10.0) / (10.0 * wide) <= 1.1


def test_of_several_lines_the_longest_counts_and_bold_marks_do_not():
    assert labels.width("<b>1 s</b><br>attention core", 12.0) == labels.width("attention core", 12)


def test_words_that_reach_beyond_the_frame_have_no_room():
    words, room = "InfiniBand NDR 400 Gb/s 50.0 GB/s", labels.Room((0.0, 1.0), (0.0, 1.0))
    assert room.claim(0.0, 0.5, words, 11.0)
    assert not room.claim(0.0, 0.5, words, 11.0)  # taken
    assert not room.claim(0.5, 0.2, words, 11.0)  # to the right of the frame
    assert not room.claim(0.0, 0.0, words, 11.0, lift=-14.0)  # below it
    assert not labels.Room((0.0, 1.0), (0.0, 1.0), frame=(150.0, 300.0)).claim(0, 0.5, words, 11.0)


def test_no_label_stands_on_a_line_and_a_rising_one_has_them_at_the_left():
    words = {"text": ["TP1", "TP2", "TP4"], "textfont": {"size": 11}}
    rising = {"x": [0.2, 0.5, 0.8], "y": [0.2, 0.5, 0.8], **words}
    falling = {"x": [0.2, 0.5, 0.8], "y": [0.8, 0.5, 0.2], **words}
    for trace, side in ((rising, "top left"), (falling, "top right")):
        labels.room_beside([(trace["x"], trace["y"])]).label(trace)
        assert trace["text"][1] == "TP2" and trace["textposition"][1] == side
    crossed = {"x": [0.5], "y": [0.5], "text": ["TP2"], "textfont": {"size": 11}}
    across = [([0.2, 1.0], [0.2, 1.0]), ([0.0, 0.8], [1.0, 0.2])]
    labels.room_beside(across).label(crossed)
    assert crossed["text"] == [""]


def test_words_beside_the_longest_bar_end_inside_the_narrowest_frame():
    end = labels.axis_end([(10.0, "14.6 ms"), (2.0, "a shorter bar")])
    pixels = labels.BESIDE_NAMES * (1.0 - 10.0 / end)
    assert labels.width("14.6 ms", 13.0) <= pixels < 2.0 * labels.width("14.6 ms", 13.0)


def test_a_line_that_is_broken_keeps_every_word():
    words = "openai/gpt-oss-120b · H100 SXM5 80 GB · vLLM 0.11.0 · tp 2 · batch 64 · Ridgeline"
    lines = labels.wrapped(words, 10.0, 200.0)
    assert " ".join(lines) == words and len(lines) > 1
    assert all(labels.width(line, 10.0) <= 200.0 for line in lines)


def test_a_legend_has_as_many_lines_as_its_widest_entry_demands():
    assert labels.legend_lines([]) == 0
    assert labels.legend_lines(["mean", "median"]) == 1
    assert labels.legend_lines(["a name that takes the whole width of a telephone", "b"]) == 2
    assert (
        labels.legend_lines(["a name that takes the whole width of a telephone<br>and more", "b"])
        == 3
    )


@pytest.mark.parametrize("limits", [(8e-7, 2.0), (0.027, 0.122), (0.0075, 0.035), (1e-3, 9e-3)])
def test_ticks_that_stand_side_by_side_keep_apart_in_the_narrowest_frame(
    limits: tuple[float, float],
):
    ticks = style.log_ticks(limits, quantities.seconds, across=True)
    places = [
        labels.NARROWEST[0] * math.log(value / limits[0]) / math.log(limits[1] / limits[0])
        for value in ticks["tickvals"]
    ]
    widths = [labels.width(text, 12.0) for text in ticks["ticktext"]]
    assert len(places) > 2
    for (left, one), (right, other) in pairwise(zip(places, widths, strict=True)):
        assert right - left > (one + other) / 2

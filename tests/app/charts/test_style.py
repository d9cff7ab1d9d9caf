"""Colours and axes: distinguishable with colour blindness, legible on their background, ticks in
words.
"""

import tomllib

import numpy as np
import pytest

from app.charts import style
from app.wording import quantities
from tests.app.charts.figures import both_looks, drawn
from tests.app.pages import ROOT

CONFIG = tomllib.loads((ROOT / "app" / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


def linear(colors: tuple[str, ...]) -> np.ndarray:
    channels = np.array([[int(c[at : at + 2], 16) / 255 for at in (1, 3, 5)] for c in colors])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* (D65) of linear sRGB."""
    matrix = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = np.clip(rgb, 0, 1) @ matrix.T / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


# Machado, Oliveira and Fernandes 2009, doi:10.1109/TVCG.2009.113, severity 1.0.
SIGHTS = {
    "normal": np.eye(3),
    "protanope": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranope": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}


@both_looks
@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_are_told_apart_under_every_sight(look: style.Look, sight: str):
    colors = (*look.classes, look.rest)
    assert len(set(colors)) == 11
    seen = lab(linear(colors) @ SIGHTS[sight].T)
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=2) + 1e3 * np.eye(11)
    assert distance.min() > 10


@both_looks
def test_text_contrasts_with_its_paper(look: style.Look):
    for ink, least in ((look.ink, 7.0), (look.faint, 4.5), (look.alarm, 4.5), (look.rest, 3.0)):
        assert style.contrast(ink, look.paper) >= least


def test_contrast_is_that_of_the_standard():
    assert style.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert style.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # WebAIM's page


@both_looks
def test_words_in_a_bar_are_read_on_its_colour(look: style.Look):
    for name in ("by class", "by cause", "memory now"):
        bars = drawn(name, look).data
        assert len(bars) >= 3
        for bar in bars:
            assert style.contrast(bar.insidetextfont.color, bar.marker.color) >= 3.9
    (tree,) = drawn("icicle", look).data
    for ink, fill in zip(tree.textfont.color, tree.marker.colors, strict=True):
        assert style.contrast(ink, fill) >= 3.9


@pytest.mark.parametrize(("name", "look"), [("light", style.LIGHT), ("dark", style.DARK)])
def test_charts_and_theme_agree_on_colours(name: str, look: style.Look):
    theme = CONFIG["theme"][name]
    assert tuple(theme["chartCategoricalColors"]) == look.classes
    assert theme["backgroundColor"] == look.paper
    assert theme["textColor"] == look.ink


def test_the_dashboard_sends_no_statistics_and_shows_no_deploy_button():
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["toolbarMode"] == "viewer"


@pytest.mark.parametrize("limits", [(1e-6, 1.0), (2.1e-3, 4.6e-3), (3.9e12, 4.9e12), (90.0, 110.0),
                                    (2.13e-3, 2.17e-3)])  # fmt: skip
def test_a_logarithmic_axis_has_ticks_however_narrow_it_is(limits: tuple[float, float]):
    ticks = style.log_ticks(limits, quantities.seconds)["tickvals"]
    assert ticks == sorted(set(ticks)) and len(ticks) >= 1
    assert limits[0] <= ticks[0] and ticks[-1] <= limits[1]

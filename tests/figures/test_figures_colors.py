"""Colors: contrast by WCAG 2.1, and color pairs that differ with red or green color blindness."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pages.figures.colors import DARK, DASHES, LIGHT, Palette, palette, series_styles, translucent
from tests.support.contrast import contrast, linear_rgb

PALETTES = pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])

# Machado, Oliveira, Fernandes (2009), severity 1.0, on linear RGB
VISION = {
    "normal": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
LINEAR_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def test_a_color_with_an_opacity() -> None:
    assert translucent("#1f5fbf", 0.35) == "rgba(31,95,191,0.35)"


def lab(color: str, vision: str) -> np.ndarray:
    """CIE L*a*b* of a color as seen with that vision."""
    seen = np.clip(VISION[vision] @ linear_rgb(color), 0, 1)
    xyz = LINEAR_TO_XYZ @ seen / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(a: str, b: str, vision: str) -> float:
    return float(np.linalg.norm(lab(a, vision) - lab(b, vision)))


def test_the_measures_agree_with_known_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the usual example just below 4.5
    assert difference("#ffffff", "#000000", "normal") == pytest.approx(100.0, abs=0.01)


@PALETTES
def test_text_on_spans_and_on_the_page_can_be_read(colors: Palette) -> None:
    assert contrast(colors.on_prefill, colors.prefill) >= 4.5
    assert contrast(colors.on_decode, colors.decode) >= 4.5
    for ink in (colors.text, colors.faint_text, *colors.series):
        assert contrast(ink, colors.surface) >= 4.5


@PALETTES
def test_marks_contrast_with_the_page(colors: Palette) -> None:
    """WCAG asks for 3:1 where a color has a meaning; pale fills have lines."""
    for fill in (colors.prefill, colors.decode, colors.dead, colors.mixed):
        assert contrast(fill, colors.surface) >= 3
    assert contrast(colors.dead_line, colors.dead) >= 2  # the hatching shows on the red


@PALETTES
@pytest.mark.parametrize("vision", VISION)
def test_phases_differ_for_every_vision(colors: Palette, vision: str) -> None:
    fills = [colors.prefill, colors.decode, colors.dead, colors.empty, colors.waiting, colors.mixed]
    assert min(difference(a, b, vision) for a, b in combinations(fills, 2)) >= 12


@PALETTES
@pytest.mark.parametrize("vision", VISION)
def test_requests_in_the_pool_differ_for_every_vision_and_from_free_blocks(colors: Palette, vision: str) -> None:
    assert min(difference(a, b, vision) for a, b in combinations(colors.requests, 2)) >= 12
    assert min(difference(color, colors.empty, vision) for color in colors.requests) >= 12


@PALETTES
@pytest.mark.parametrize("vision", VISION)
def test_memory_parts_differ_for_every_vision(colors: Palette, vision: str) -> None:
    parts = [colors.decode, colors.padding, colors.dead, colors.fragment, colors.empty]
    assert min(difference(a, b, vision) for a, b in combinations(parts, 2)) >= 12


@PALETTES
@pytest.mark.parametrize("vision", VISION)
def test_runs_differ_for_every_vision_and_from_the_phases(colors: Palette, vision: str) -> None:
    assert min(difference(a, b, vision) for a, b in combinations(colors.series, 2)) >= 12
    phases = (colors.prefill, colors.decode, colors.dead, colors.waiting)
    assert min(difference(a, b, "normal") for a in colors.series for b in phases) >= 12


def test_an_engine_keeps_its_color_and_no_two_runs_share_a_style() -> None:
    both = series_styles(["static", "continuous"])
    assert series_styles(["continuous", "static"]) == both
    assert both["continuous"].color == palette(False).series[0]
    four = series_styles(["static 1", "static 2", "continuous", "other"])
    assert four["static 1"] == both["static"]
    assert four["continuous"] == both["continuous"]
    assert len({style.color for style in four.values()}) == 4
    assert len({style.dash for style in four.values()}) == 4
    five = series_styles(["serial", "static", "continuous", "paged", "chunked"])
    assert [five[name].dash for name in ("continuous", "static", "serial", "paged", "chunked")] == list(DASHES[:5])


def test_many_runs_get_a_style_and_a_single_run_is_solid() -> None:
    assert len(series_styles([f"run {n}" for n in range(9)])) == 9
    assert series_styles(["static"])["static"].dash == "solid"

"""Text, links and the keyboard's place can be told from their background, in the light and in the dark mode.

Contrasts by the Web Content Accessibility Guidelines 2.2 (1.4.3: 4.5 for text; 1.4.11: 3 for the mark of focus).
"""

import re
from pathlib import Path

import pydata_sphinx_theme
import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "docs/_static/site.css"
THEME = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static/styles/pydata-sphinx-theme.css"
TEXT = ("text-base", "text-muted", "heading", "link", "link-hover", "inline-code")
BACKGROUNDS = ("background", "surface", "on-background")


def contrast(*pair):
    luminance = []
    for colour in pair:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * own for own in colour[1:])
        parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        luminance.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(luminance) + 0.05) / (min(luminance) + 0.05)


def colours(mode):
    """The theme's variables of a mode, and the site's own after them, as digits; what refers to another one is followed."""
    text = THEME.read_text(encoding="utf-8") + OWN.read_text(encoding="utf-8")
    found = {}
    for selectors, block in re.findall(r"([^{}]*)\{([^{}]*)\}", text):
        if ":root" in selectors or re.search(rf"""\[data-theme=["']?{mode}["']?\]\s*$""", selectors.strip()):
            found |= dict(re.findall(r"(--[\w-]+)\s*:\s*([^;}]+)", block))

    def followed(value):
        inner = re.fullmatch(r"var\((--[\w-]+)\)", value.strip())
        return followed(found[inner[1]]) if inner else value.strip()

    return {name: followed(value) for name, value in found.items() if "color" in name or name == "--site-focus"}


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_links_and_the_place_of_the_keyboard_can_be_seen(mode):
    assert contrast("#000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.005)  # the grey that just fails
    own = colours(mode)
    for name, least in {f"--pst-color-{text}": 4.5 for text in TEXT}.items() | {("--site-focus", 3.0)}:
        for background in BACKGROUNDS:
            assert contrast(own[name], own[f"--pst-color-{background}"]) >= least, (name, background)
    assert "outline: 3px solid var(--site-focus)" in OWN.read_text(encoding="utf-8")

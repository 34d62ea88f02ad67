"""What a built site has and no reader needs is taken out of it: maps of minified scripts, and colours that nobody tells apart."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageChops  # come with Matplotlib

__all__ = ["lighten"]

_COLOURS = 256
_MOST = 20


def lighten(site: Path) -> None:
    """Take the maps of scripts and style sheets away, and store pictures of notebooks with a palette.

    The notebooks' pictures have a third of their size then. No point's red, green or blue moves by more than 20 of 255, which is hard
    to see in lines and bars; a picture that would suffer more stays as it is, as does one that would not be smaller.

    Parameters
    ----------
    site : pathlib.Path
        The folder that Sphinx has written. Doing it twice changes nothing.
    """
    for found in (site / "_static").rglob("*.map"):
        found.unlink()
    for found in sorted((site / "_images").glob("*.png")):
        _with_palette(found)


def _with_palette(path: Path) -> None:
    with Image.open(path) as stored:
        if stored.mode == "P" or (stored.has_transparency_data and stored.convert("RGBA").getextrema()[3][0] < 255):
            return
        picture = stored.convert("RGB")
    few = picture.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    if _farthest(picture, few.convert("RGB")) > _MOST:
        return
    smaller = path.with_suffix(".smaller")
    few.save(smaller, "PNG", optimize=True)
    if smaller.stat().st_size < path.stat().st_size:
        smaller.replace(path)
    else:
        smaller.unlink()


def _farthest(one: Image.Image, other: Image.Image) -> int:
    """The largest difference of a point in red, green or blue, of 255."""
    return max(most for _, most in ImageChops.difference(one, other).getextrema())

"""A built site without what nobody needs: what is left looks the same."""

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from pages.lighter import lighten  # isort: skip  # from docs/


def _points(path):
    with Image.open(path) as stored:
        return np.asarray(stored.convert("RGB")).astype(int)


def test_pictures_are_smaller_and_look_the_same_or_stay(tmp_path):
    """Lines, bands, text. Colours at random have no palette of 256; a picture that one can look through is left alone."""
    (tmp_path / "_static/scripts").mkdir(parents=True)
    (tmp_path / "_images").mkdir()
    for name in ("theme.js", "theme.js.map"):
        (tmp_path / "_static/scripts" / name).write_text("{}")
    path, wave, figure = tmp_path / "_images/plot.png", np.sin(np.linspace(0.0, 6.0, 200)), Figure(figsize=(5, 3))
    axes = figure.add_subplot(title="a picture")
    axes.plot(wave)
    axes.fill_between(range(200), wave - 0.2, wave + 0.2, alpha=0.2)
    figure.savefig(path)
    before, size = _points(path), path.stat().st_size
    lighten(tmp_path)
    assert path.stat().st_size < size / 2
    assert np.abs(_points(path) - before).max() <= 20
    once = path.read_bytes()
    lighten(tmp_path)
    assert path.read_bytes() == once
    assert [own.name for own in path.parent.iterdir()] == ["plot.png"]
    assert [own.name for own in (tmp_path / "_static/scripts").iterdir()] == ["theme.js"]  # and not its map
    path = tmp_path / "_images/other.png"
    points = np.random.default_rng(0).integers(0, 256, (60, 60, 4), dtype=np.uint8)
    for opacity in (255, 100):
        points[..., 3] = opacity
        Image.fromarray(points).save(path)
        before = path.read_bytes()
        lighten(tmp_path)
        assert path.read_bytes() == before

"""The picture of a noise law: drawn by the law itself, from the small example that its contract is tested with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import bayesdp as bdp
from bayesdp.plots.noise import count_shown, draw_noise_law, noise_scale
from bayesdp.plots.style import COLOURS, figure, style
from tests.noise.contract.examples import LINE, Example

__all__ = ["draw"]

_DRAWS = 4000


def draw(example: Example, path: Path) -> str:
    """Write the picture as SVG; its text alternative."""
    law = example.law
    if law.additive and law.support != "simplex":
        # The picture is of the law alone: numbers without noise do, and nothing is drawn and compiled for them.
        measured = bdp.Measured(bdp.Identity(LINE), example.location, law, example.kept)
        scale = noise_scale(measured)
        drawn = draw_noise_law(measured, scale)
        if drawn.axes[0].get_title("left").rpartition(", ")[2] in LINE["county"]:  # a label that says nothing here
            with style():
                drawn.axes[0].set_title(f"Noise: {law.name}, one answer")
        kept = ", with the total of three cells kept" if law.keeps_invariants else ""
        alt = f"Law of the noise {law.name} of one answer{kept}: standard deviation {scale.sd[0]:.3g}."
    elif law.support == "counts":
        measured = bdp.Measured(bdp.Identity(LINE), example.values, law)
        drawn = draw_noise_law(measured, noise_scale(measured))
        alt = f"Probabilities of what {law.name} publishes for a count of {count_shown(measured)}."
    else:
        drawn, alt = _simulated(example)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bayesdp"}):
        drawn.savefig(path, metadata={"Date": None})
    return alt


def _simulated(example: Example) -> tuple[Figure, str]:
    """Noise whose law depends on where the confidential value is: values published for one."""
    law: Any = example.law
    values = law.draw(np.random.default_rng(0), (3,), size=_DRAWS, location=example.location)[:, 0]
    at = float(example.location.ravel()[0])
    with style():
        drawn = figure(3.0)
        axes = drawn.add_subplot()
        if law.integer:
            found, counts = np.unique(values, return_counts=True)
            axes.bar(found, counts / _DRAWS, width=0.7, color=COLOURS["release"], alpha=0.75)
        else:
            axes.hist(values, bins=60, weights=np.full(_DRAWS, 1 / _DRAWS), color=COLOURS["release"], alpha=0.75)
        axes.axvline(at, color=COLOURS["truth"], linestyle="--", linewidth=1.2, label=f"confidential value {at:.3g}")
        axes.set_xlabel("published value")
        axes.set_ylabel("frequency (simulated)")
        axes.set_title(f"Noise: {law.name}, around one value")
        drawn.legend(loc="outside lower left", frameon=False, fontsize=9.5)
    alt = f"Frequencies of values published by {law.name} for a confidential value of {at:.3g}, within its bounds."
    return drawn, alt

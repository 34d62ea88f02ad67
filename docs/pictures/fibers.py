"""Draw the pictures of the page on fibers: ``python docs/pictures/fibers.py`` writes ``fiber.svg`` and ``moves.svg``.

The fiber is enumerated, and the posterior on it is computed: Poisson counts, normal noise.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

FOLDER = Path(__file__).parents[1] / "_static/pictures"
BLUE, ORANGE, GREY = "#1b5e8c", "#b4500f", "#555555"
TOTAL, NOISY, SIGMA = 7, np.array([4.0, 5.0, -1.0]), 1.5
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def at(shares: np.ndarray) -> np.ndarray:
    """Places in the plane of points with a sum of 1."""
    return shares @ CORNERS


def fiber() -> Figure:
    """The 36 tables of three cells with the total 7, and the posterior on them."""
    tables = np.array([own for own in product(range(TOTAL + 1), repeat=3) if sum(own) == TOTAL])
    weight = stats.norm.pdf(NOISY, tables, SIGMA).prod(axis=1) * stats.poisson.pmf(tables, TOTAL / 3).prod(axis=1)
    weight /= weight.sum()
    places = at(tables / TOTAL)
    figure = Figure(figsize=(6.6, 4.8), layout="constrained")
    axes = figure.add_subplot()
    outline = np.vstack([CORNERS, CORNERS[:1]])
    axes.plot(*outline.T, color=GREY, linewidth=1)
    axes.scatter(
        *places.T, s=14, color="white", edgecolor=GREY, linewidth=0.8, zorder=2, label="a table with the exact total"
    )
    axes.scatter(*places.T, s=3500 * weight, color=BLUE, alpha=0.75, zorder=3, label="area: its posterior probability")
    # What is nearest to the noisy numbers on the plane of the total.
    nearest = NOISY - (NOISY.sum() - TOTAL) / 3
    axes.plot(
        *at(nearest / TOTAL),
        "X",
        color=ORANGE,
        markersize=11,
        zorder=4,
        label="noisy numbers (4, 5, -1), moved to the plane",
    )
    table = np.array([1, 2, 4])
    start = at(table / TOTAL)
    for one, other in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
        move = np.zeros(3)
        move[one], move[other] = 1, -1
        axes.annotate(
            "",
            at((table + move) / TOTAL),
            start,
            arrowprops={"arrowstyle": "->", "color": ORANGE, "linewidth": 1.4},
            zorder=5,
        )
    for corner, name, side in zip(
        CORNERS, ("(7, 0, 0)", "(0, 7, 0)", "(0, 0, 7)"), ("right", "left", "center"), strict=True
    ):
        axes.annotate(
            name, corner, (0, 8 if side == "center" else -14), textcoords="offset points", ha=side, color=GREY
        )
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.09)
    handles, names = axes.get_legend_handles_labels()
    legend = figure.legend(handles, names, loc="outside lower center", ncols=1, frameon=False)
    legend.legend_handles[1].set_sizes([90])
    return figure


def moves() -> Figure:
    """A pair, a square and a cube, with their signs."""
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    pair, square, cube = figure.subplots(1, 3)
    signs = {1: ("+1", ORANGE), -1: ("−1", BLUE)}

    def put(axes, place, sign) -> None:
        text, colour = signs[sign]
        axes.annotate(text, place, ha="center", va="center", color="white", fontsize=11, zorder=4,
                      bbox={"boxstyle": "circle,pad=0.25", "facecolor": colour, "edgecolor": "none"})  # fmt: skip

    for axes, rows in ((pair, 1), (square, 3)):
        for i in range(4):
            for j in range(rows):
                axes.add_patch(mpl.patches.Rectangle((i, j), 1, 1, facecolor="none", edgecolor=GREY, linewidth=0.8))
        axes.set_xlim(-0.2, 4.2)
        axes.set_ylim(-0.6 - (3 - rows) / 2, 3.2 - (3 - rows) / 2)
    put(pair, (0.5, 0.5), 1)
    put(pair, (2.5, 0.5), -1)
    for (i, j), sign in {(0, 0): 1, (2, 0): -1, (0, 2): -1, (2, 2): 1}.items():
        put(square, (i + 0.5, j + 0.5), sign)
    corners = np.array(list(product((0, 1), repeat=3)))
    flat = corners[:, :2] * 2.0 + corners[:, 2:] * np.array([0.9, 0.7])
    for a in range(8):
        for b in range(a):
            if np.abs(corners[a] - corners[b]).sum() == 1:
                cube.plot(*flat[[a, b]].T, color=GREY, linewidth=0.8, zorder=1)
    for place, corner in zip(flat, corners, strict=True):
        put(cube, place, 1 if corner.sum() % 2 == 0 else -1)
    cube.set_xlim(-0.5, 3.4)
    cube.set_ylim(-0.6, 3.2)
    for axes, title in (
        (pair, "a total: pairs"),
        (square, "both margins: squares"),
        (cube, "three two-way margins: cubes"),
    ):
        axes.set_title(title, fontsize=11)
        axes.set_aspect("equal", anchor="N")  # all titles at one height
        axes.set_axis_off()
    return figure


if __name__ == "__main__":
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "bayesdp", "font.family": "sans-serif", "font.size": 11}
    ):
        fiber().savefig(FOLDER / "fiber.svg", metadata={"Date": None})
        moves().savefig(FOLDER / "moves.svg", metadata={"Date": None})

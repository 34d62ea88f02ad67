"""Starting tables of large fibers: the program is solved without asking for integers first."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.fibers import Fiber
from bayesdp.fibers import fiber as fibers
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity, LinearQuery, Margins
from bayesdp.release import Release


def limited_sums(rows: int, columns: int):
    """A two-way table within some of every noisy sum and cell."""
    rng = np.random.default_rng(5)
    frame = Identity({"row": range(rows), "column": range(columns)}).frame
    table = rng.poisson(3.0, (rows, columns))
    below, above = [], []
    for query, width in ((Identity(frame), 4), (Margins(frame, ["row"]), 2), (Margins(frame, ["column"]), 2)):
        centre = query.apply(table) + rng.integers(-width, width + 1, query.shape)
        below.append((query, np.maximum(centre - width, 0)))
        above.append((query, centre + width))
    guide = table.reshape(-1) + rng.integers(-6, 7, table.size)
    return Fiber(frame, (), tuple(below), tuple(above)), guide.astype(float)


def test_a_large_table_is_as_near_as_the_program_with_integers_finds(monkeypatch):
    fiber, guide = limited_sums(12, 9)
    far = fibers.find_point(fiber.system, fiber.invariants, guide)
    with monkeypatch.context() as patch:
        patch.setattr(fibers, "_LARGE", 0)
        patch.setattr(sp, "eye_array", None)  # the program with integers would need it
        near = fibers.find_point(fiber.system, fiber.invariants, guide)
    assert fiber.contains(near.reshape(12, 9))
    assert np.abs(near - np.clip(np.rint(guide), 0, None)).sum() <= np.abs(far - np.clip(np.rint(guide), 0, None)).sum()


def test_a_solution_with_halves_is_not_taken(monkeypatch):
    frame = Identity({"cell": ["a", "b", "c"]}).frame
    pairs = LinearQuery(frame, np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), ["ab", "bc", "ac"])
    fiber = Fiber(frame, (), (), ((pairs, np.ones(3, dtype=np.int64)),))
    monkeypatch.setattr(fibers, "_LARGE", 0)
    point = fibers.find_point(fiber.system, fiber.invariants, np.ones(3))
    assert sorted(point) == [0, 0, 1]


def test_a_contradiction_is_named_all_the_same(monkeypatch):
    frame = Identity({"cell": ["a", "b"], "by": ["u", "v"]}).frame
    sums = Margins(frame, ["cell"])
    other = Margins(frame, ["by"])
    fiber = Fiber(frame, (), ((sums, np.array([3, 3])),), ((other, np.array([2, 2])),))
    monkeypatch.setattr(fibers, "_LARGE", 0)
    with pytest.raises(ValueError, match=r"no nonnegative integer table.*cell=a >= 3"):
        fibers.find_point(fiber.system, fiber.invariants, np.ones(4))


def test_a_search_that_ends_without_an_answer_says_so(monkeypatch):
    """At the fiber, and at a release, which looks for a table; the command line has a test of its own."""
    frame = Identity({"a": ["p", "q", "r"], "b": ["s", "t", "u"], "c": ["v", "w", "x"]}).frame
    exact = [Exact(Margins(frame, [one, other]), np.full((3, 3), 3)) for one, other in ("ab", "bc", "ac")]
    monkeypatch.setattr(fibers, "LONGEST", 0.0)
    with pytest.raises(
        TimeoutError, match=r"^no table was found in 0 s .* nor was shown that there is none; fewer exact or bounded"
    ):
        Fiber.of(exact, frame).find_point()
    measured = [Measured(Identity(frame), np.ones((3, 3, 3)), DiscreteGaussian(2.0))]
    with pytest.raises(TimeoutError, match=r"^no table was found in 0 s"):
        Release.from_published(frame, measured, exact)

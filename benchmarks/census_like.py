"""Releases like the noisy measurement files of the 2020 Census: made-up people, the published noise allocation.

Every level of geography has the queries of the redistricting file with the variances of its production settings
(`bdp.datasets.sigma_squared`). Two histograms: voting age x Hispanic x 63 races (252 cells), and all 2,016 cells, with the eight
kinds of housing, of which a leaf has few: those that it has not are structural zeros, and those that it has have at least one person
and at most 99,999, as the constraints of the files say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import bayesdp as bdp
from bayesdp.datasets.nmf import sigma_squared
from bayesdp.frames import Frame
from bayesdp.queries import Query, SumPart, cell_list

__all__ = ["SMALL", "CensusLike", "census_like"]

type Ints = npt.NDArray[np.int64]

AGE, ORIGIN, RACE, HOUSING = "votingage", "hispanic", "cenrace", "hhgq"
SMALL = (
    (), (RACE,), (ORIGIN,), (AGE,), (ORIGIN, RACE), (AGE, RACE), (AGE, ORIGIN), (AGE, ORIGIN, RACE),
)  # fmt: skip
"""Queries of the histogram of 252 cells."""
KINDS = "hhinstlevels"
_FULL = ((), (RACE,), (ORIGIN,), (AGE,), (KINDS,), (HOUSING,), *SMALL[4:], (HOUSING, AGE, ORIGIN, RACE))
_INSTITUTIONAL = (0, 1, 1, 1, 1, 2, 2, 2)
_NURSING, _JUVENILE = 3, 2


@dataclass(frozen=True)
class CensusLike:
    """A release and the table behind it.

    Attributes
    ----------
    release : Release
    truth : int64 array
        The people, in the order of the release's table.
    queries : dict
        The measured queries by level and name, such as ``("tract", "hispanic * cenrace")``.
    free : bool array
        Cells that are no structural zeros, in the same order.
    """

    release: bdp.Release
    truth: Ints
    queries: dict[tuple[str, str], Query]
    free: npt.NDArray[np.bool_]


def census_like(
    leaves: int,
    levels: Sequence[tuple[str, int]] = (("county", 0),),
    *,
    leaf: str = "tract",
    full: bool = False,
    people: int = 4000,
    kinds: float = 0.25,
    watched: int = 0,
    seed: int = 1,
) -> CensusLike:
    """Make people up and play the agency.

    Parameters
    ----------
    leaves : int
    levels : sequence of (str, int)
        The levels above the leaves, and how many leaves each node of them has; 0 stands for all of them.
    leaf : str
        What a leaf is: its noise is that of this level in the file.
    full : bool
        Whether there are 2,016 cells a leaf, with zeros and limits, or 252.
    people : int
        In a leaf, on average.
    kinds : float
        Chance that a leaf has a kind of group quarters.
    watched : int
        Leaves, evenly spaced, that have a group label ``watched`` of their own, with all others in a group together, so that their
        answers can be recorded where those of all leaves are too many. Nothing is published by it.
    seed : int
        A simulation: its noise is not drawn with the care that real data need.
    """
    rng = np.random.default_rng(seed)
    number = np.arange(leaves)
    labels = {leaf: [f"{leaf} {i}" for i in number]}
    groups = {name: (leaf, [f"{name} {i}" for i in (number // size if size else 0 * number)]) for name, size in levels}
    if watched:
        chosen = set(np.linspace(0, leaves - 1, watched).astype(int).tolist())
        groups["watched"] = (leaf, [f"{leaf} {i}" if i in chosen else "others" for i in number])
    cells = {AGE: ["under 18", "18 and over"], ORIGIN: ["not Hispanic", "Hispanic"], RACE: list(range(1, 64))}
    recodes = {}
    if full:
        cells = {HOUSING: list(range(8)), **cells}
        recodes = {KINDS: (HOUSING, [("household", "institutional", "other")[i] for i in _INSTITUTIONAL])}
    frame = Frame.of({**labels, **cells, **groups, **recodes})
    truth, present = _people(frame, full, people, kinds, rng)
    measured, queries = [], {}
    for level in (leaf, *(name for name, _ in levels)):
        for own in _FULL if full else SMALL:
            name = {(): "total", (HOUSING, AGE, ORIGIN, RACE): "detailed"}.get(own, " * ".join(own))
            variance = sigma_squared(level.replace("_", " ").title().replace(" ", "_"), name)
            query = Query(frame, (SumPart(frame, (level, *own)),))
            queries[level, name] = query
            assert variance is not None
            law = bdp.noise.DiscreteGaussian(sigma=float(variance) ** 0.5)
            answers = np.asarray(query.apply(truth))
            noisy = np.rint(answers + rng.normal(0.0, float(variance) ** 0.5, answers.shape)).astype(np.int64)
            measured.append(bdp.Measured(query, noisy, law))
    exact = [bdp.Exact(bdp.Totals(frame), int(truth.sum()))]
    if full:
        exact += _constraints(frame, leaf, truth, present)
    return CensusLike(bdp.Release.from_published(frame, measured, exact), truth, queries, present)


def _people(
    frame: Frame, full: bool, people: int, kinds: float, rng: np.random.Generator
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """People, and which cells they could be in."""
    leaves = frame.shape[0]
    shares = np.einsum("a,h,r->ahr", [0.25, 0.75], [0.85, 0.15], rng.dirichlet(np.full(63, 0.08)))
    size = rng.integers(people // 2, people * 3 // 2 + 1, leaves)
    if not full:
        truth = np.stack([rng.multinomial(n, shares.reshape(-1)) for n in size])
        return truth.reshape(frame.shape).astype(np.int64), np.ones(frame.shape, dtype=np.bool_)
    has = np.ones((leaves, 8), dtype=np.bool_)
    has[:, 1:] = rng.random((leaves, 7)) < kinds
    weight = np.where(has, 1.0, 0.0)
    weight[:, 1:] *= rng.gamma(0.5, 0.02, (leaves, 7))
    ages = np.ones((8, 2))
    ages[_NURSING, 0], ages[_JUVENILE, 1] = 0.0, 0.2
    expected = np.einsum("tg,ga,ahr->tgahr", weight, ages, shares)
    expected /= expected.sum(axis=(1, 2, 3, 4), keepdims=True)
    truth = np.stack(
        [rng.multinomial(n, own.reshape(-1)).reshape(own.shape) for n, own in zip(size, expected, strict=True)]
    )
    has &= truth.sum(axis=(2, 3, 4)) > 0
    free = has[:, :, None] & (ages > 0.0)
    return truth.astype(np.int64), np.broadcast_to(free[..., None, None], frame.shape).copy()


def _constraints(frame: Frame, leaf: str, truth: Ints, free: npt.NDArray[np.bool_]) -> list[bdp.Exact]:
    """Limits of the kinds of housing, which say what a leaf has not; and that nobody under 18 is in a nursing home that it has."""
    has = free.any(axis=(2, 3, 4))
    zeros = np.flatnonzero((has[:, :, None, None, None] & ~free).reshape(-1))
    kinds = Query(frame, (SumPart(frame, (leaf, HOUSING)),))
    least = has.astype(np.int64)
    least[:, 0] = 0  # of households nothing is said from below
    found = [bdp.Exact(cell_list(frame, zeros), np.zeros(zeros.size, dtype=np.int64))] if zeros.size else []
    return [*found, bdp.Exact(kinds, least, ">="), bdp.Exact(kinds, np.where(has, 99_999, 0), "<=")]

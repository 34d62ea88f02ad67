"""Posteriors of tables in which cells are independent, each summed over its counts: `bdp.fit_cells`.

Where nothing is exact and every noisy answer is about one cell, a prior with independent cells leaves them independent, with the
posterior ``p(x) prod p(y | x) / sum``. The sum over the counts x = 0, 1, ... is cut where what is left out is shown to be small. As a
function of x, each law that is taken here rises up to its published value and falls beyond it, or is a tail probability, which rises
to 1 or falls from 1. (A Laplace law within bounds is divided by its share of them: a step away from y multiplies it by
``exp(-1 / b)``, and its share by no less.) So beyond a count N the terms add up to at most the term there over ``1 - r``, with the
ratio ``r >= p(x + 1) / p(x)``, which is ``exp(theta) / (N + 1)`` (Poisson) or ``exp(theta) max(1, (N + alpha) / (N + 1))`` (negative
binomial); and below a count likewise, with ``r = p(N - 1) / p(N)`` where that is below 1 (farther down it is less), or to at most
the likelihood there, times all of the prior. A truncated Gaussian law is an exponential family of x, log-concave, and need not turn
at y, as it may rise towards a bound for ever: downwards its own step at the count must fall, upwards r has its step as a factor.
Perturbed counts are at most so far from true ones as their tables say, and nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr
from scipy import stats

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import instance, positive_integer, shown
from bayesdp.frames import Frame
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import levels_of, tree_of
from bayesdp.inference.annotating import said_of_run
from bayesdp.inference.memory import LARGE_TABLES, refuse_if_short
from bayesdp.inference.observed import observed_once
from bayesdp.measurements import described
from bayesdp.measurements.consistency import warn_of_law
from bayesdp.noise import NoiseLaw, PerturbedLaw, Rounded, TruncatedGaussian, UnknownPerturbation
from bayesdp.noise.bounded.base import BoundedLaw
from bayesdp.noise.independent.canonical import StandardLaw
from bayesdp.noise.independent.laws import ScaledLaw
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.posteriors import CELLS
from bayesdp.streaming import fitting
from bayesdp.streaming.cells import named_queries
from bayesdp.streaming.result import recorded_draws

_CUT = 1e-12
"""What is left out of a posterior at either end, times the square of the count, is at most this."""
_BLOCK = 2**20
"""Counts of all cells, or draws of cells, that are held at a time."""
_LONGEST = 2**22
"""Counts of one cell that are summed over."""


class NotByCell(ValueError):
    """A release has no posterior cell by cell; the message says why."""


@dataclass(frozen=True, eq=False)
class Cells:
    """What is known of the cells, those with the same prior and the same answers once; arrays are of U different cells.

    A cell has up to K answers, shape (U, K): each by a law, a place in `laws` (-1: no answer), beside which is stated how many sets of
    parameters its answers have; `place` is which one an answer has.
    """

    frame: Frame
    which: Ints  # of every cell of the table, which of the different ones it is
    family: str
    laws: tuple[tuple[NoiseLaw, int], ...]
    theta: Floats
    alpha: Floats
    law: Ints
    place: Ints
    value: Floats

    @classmethod
    def of(cls, release: Release, prior: CellPrior) -> Cells:
        """Of a release and a prior without hyperparameters; `NotByCell` where cells are not independent."""
        laws, answers = _answers_of(release)
        frame = release.frame
        tree = tree_of(frame, 0, levels_of(frame, 0, []))
        shape = len(tree.order), tree.cells
        weights = [tree.in_frame(np.array(np.broadcast_to(own, shape))) for own in prior.weights(tree, {})]
        cell, *columns = answers[:, np.argsort(answers[0], kind="stable")]
        slot = np.arange(len(cell)) - np.searchsorted(cell, cell)
        table = np.zeros((frame.size, int(slot.max(initial=-1)) + 1, 3))
        table[..., 0] = -1
        table[cell.astype(np.int64), slot] = np.stack(columns, axis=1)
        rows, which = np.unique(np.column_stack([*weights, table.reshape(frame.size, -1)]), axis=0, return_inverse=True)
        law, place, value = np.moveaxis(rows[:, 2:].reshape(len(rows), -1, 3), 2, 0)
        own = rows[:, 0].copy(), rows[:, 1].copy(), law.astype(np.int64), place.astype(np.int64), value
        return cls(frame, which.reshape(-1), prior.family, laws, *own)

    @cached_property
    def _turn(self) -> Floats:
        """Up to which count the likelihood of each answer does not fall, and from which on it does not rise."""
        low, high = np.full((2, *self.law.shape), np.nan)  # where tail probabilities stand
        for k, (law, _) in enumerate(self.laws):
            if getattr(law, "has_atoms", False):
                low[self.law == k], high[self.law == k] = self._law_at(k, self.place[self.law == k]).limits
        turn = np.where(self._tilted, np.nan, self.value)
        return np.where(self.value == low, -np.inf, np.where(self.value == high, np.inf, turn))

    @cached_property
    def _tilted(self) -> Mask:
        """Which answers have a log-concave law that turns elsewhere: a truncated Gaussian one."""
        return np.isin(self.law, [k for k, (law, _) in enumerate(self.laws) if isinstance(law, TruncatedGaussian)])

    def _law_at(self, k: int, place: Ints) -> Any:
        """A law with the parameters of some answers, in their shape."""
        law, many = self.laws[k]
        return law if many == 1 else law.of_answer(place, (many,))

    def _log_prior(self, rows: Ints, x: Floats) -> Floats:
        """At counts, shape (rows, counts)."""
        theta, alpha = self.theta[rows, None], self.alpha[rows, None]
        law = stats.poisson(np.exp(theta)) if self.family == "poisson" else stats.nbinom(alpha, -np.expm1(theta))
        return np.asarray(law.logpmf(x))

    def _log_likelihood(self, rows: Ints, x: Floats, without: Mask | None = None) -> Floats:
        """At counts, shape (rows, counts), `without` some answers, shape (rows, K)."""
        total = np.zeros(x.shape)
        law = self.law[rows] if without is None else np.where(without, -1, self.law[rows])
        for slot in range(law.shape[1]):
            order = np.argsort(law[:, slot], kind="stable")
            which, start = np.unique(law[order, slot], return_index=True)
            for k, own in zip(which.tolist(), np.split(order, start[1:]), strict=False):  # one of no rows, but no law
                if k >= 0:
                    place, y = (array[rows[own], slot][:, None] for array in (self.place, self.value))
                    total[own] += self._law_at(k, place).log_each(y, x[own])
        return total

    def _log_left_out(self, rows: Ints, x: Floats, side: int) -> Floats:
        """A bound, as a logarithm, of the terms from x on, up (side 1) or down (-1), times the square of the count."""
        turn, tilted = self._turn[rows], self._tilted[rows]
        rising = turn == side * np.inf  # at most 1
        beyond = (rising | tilted | (self.law[rows] < 0) | (side * (x[:, None] - turn) >= 0)).all(axis=1)
        bound = self._log_likelihood(rows, x[:, None], rising)[:, 0]
        step = np.diff(self._log_likelihood(rows, x[:, None] + [0.0, side], ~tilted))[:, 0]
        prior, theta, alpha = self._log_prior(rows, x[:, None])[:, 0], self.theta[rows], self.alpha[rows]
        poisson = self.family == "poisson"
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if side < 0:
                ratio = np.exp(-theta) * (x if poisson else x / (x + alpha - 1.0))
                bound += np.where(ratio < 1.0, np.minimum(prior - np.log1p(-ratio), 0.0), 0.0) + 2.0 * np.log1p(x)
                return np.where(x < 0, -np.inf, np.where(beyond & (step <= 0.0), bound, np.inf))
            ratio = np.exp(theta + np.maximum(step, 0.0)) / (x + 1.0)
            ratio *= 1.0 if poisson else np.maximum(x + alpha, x + 1.0)
            bound += prior - np.log1p(-ratio) + np.log(2.0 * (x + 1.0 / (1.0 - ratio)) ** 2)
        return np.where(beyond & (ratio < 1.0), bound, np.inf)

    def _reach(self, rows: Ints, at: Floats, height: Floats, side: int) -> Floats:
        """How far from these counts the sums have to go, up or down."""
        far, left = np.ones(len(rows)), np.arange(len(rows))
        while left.size and far[left[0]] < _LONGEST:
            bound = self._log_left_out(rows[left], at[left] + side * (far[left] + 1.0), side)
            left = left[~(bound <= height[left] + np.log(_CUT))]
            far[left] = np.ceil(1.2 * far[left])
        return far

    @cached_property
    def grid(self) -> tuple[Ints, Ints]:
        """The first and the last count of each sum."""
        first, last = np.zeros(len(self.law)), np.full(len(self.law), np.inf)
        for k, (law, _) in enumerate(self.laws):
            if isinstance(law, PerturbedLaw):
                rows, slots = np.nonzero(self.law == k)
                value, table = self.value[rows, slots], law.transitions
                np.maximum.at(first, rows, value - table.highest)
                np.minimum.at(last, rows, np.minimum(value - table.lowest, table.largest_count))
        last = np.maximum(last, first)  # of answers that contradict one another, nothing is possible
        free = np.flatnonzero(np.isinf(last))
        # A count of large probability: the best of those published, their middle, the largest of the prior (or next to it), and 0.
        value, none = self.value[free], self.law[free] < 0
        middle = np.where(none, 0.0, value).sum(axis=1) / np.maximum((~none).sum(axis=1), 1)
        mean = np.exp(self.theta[free])
        if self.family == "negbin":
            mean = np.maximum(self.alpha[free] - 1.0, 0.0) * mean / -np.expm1(self.theta[free])
        tried = np.rint(np.maximum(np.column_stack([value, middle, mean, np.zeros(len(free))]), 0.0))
        terms = self._log_prior(free, tried) + self._log_likelihood(free, tried)
        height, at = terms.max(axis=1), tried[np.arange(len(free)), terms.argmax(axis=1)]
        for bad in free[np.isneginf(height)][:1]:
            raise self._refused(bad, "none of the published counts is possible under the laws of the others")
        first[free] = np.maximum(at - self._reach(free, at, height, -1), 0.0)
        last[free] = at + self._reach(free, at, height, 1)
        for bad in np.flatnonzero(last - first >= _LONGEST)[:1]:
            raise self._refused(bad, f"the posterior spreads over {last[bad] - first[bad]:,.0f} counts")
        return first.astype(np.int64), last.astype(np.int64)

    def _refused(self, one: Any, why: str) -> ValueError:
        value = ", ".join(f"{own:g}" for own in self.value[one][self.law[one] >= 0]) or "nothing"
        name = self.frame.cell_name(int(np.flatnonzero(self.which == one)[0]))
        return ValueError(f"release: of the cell {name}, published: {value}, {why}")

    def posteriors(self) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Some cells at a time: which, their first counts, and probabilities from there on, shape (cells, counts)."""
        first, last = self.grid
        order = np.argsort(last - first, kind="stable")
        while len(order):
            sizes = (last - first + 1)[order[:_BLOCK]]  # the last of some cells is the longest
            many = max(int(np.searchsorted(sizes * np.arange(1, len(sizes) + 1), _BLOCK, side="right")), 1)
            rows, order = order[:many], order[many:]
            x = first[rows, None] + np.arange(float(sizes[many - 1]))
            terms, after = np.zeros(x.shape), x[:, 1:]
            # By ratios, which keep digits that differences of log-gamma functions lose.
            shape = -np.log(after) if self.family == "poisson" else np.log1p((self.alpha[rows, None] - 1.0) / after)
            np.cumsum(self.theta[rows, None] + shape, axis=1, out=terms[:, 1:])
            terms = np.where(x <= last[rows, None], terms + self._log_likelihood(rows, x), -np.inf)
            top = terms.max(axis=1)
            for bad in rows[np.isneginf(top)][:1]:
                raise self._refused(bad, "no count is possible under all of their laws")
            mass = np.exp(terms - top[:, None])
            yield rows, first[rows], mass / mass.sum(axis=1, keepdims=True)


def _answers_of(release: Release) -> tuple[tuple[tuple[NoiseLaw, int], ...], Floats]:
    """The laws, and of every answer: its cell, its law, its set of parameters, and the published value, shape (4, answers)."""
    if release.about != "counts":
        raise NotByCell("it is about statistics")
    if release.exact:
        raise NotByCell(f"{described(release.exact[0].query)} is exact, which ties cells together")
    laws: dict[tuple[NoiseLaw, int], int] = {}
    found = [np.zeros((4, 0))]
    for measured in release.measurements:
        query, law, inner = measured.query, measured.law, measured.law.uncensored
        matrix, rows = query.matrix, np.flatnonzero(~measured.unmeasured.reshape(-1))
        if (np.diff(matrix.indptr) != 1).any() or (matrix.data != 1).any():
            raise NotByCell(f"{described(query)} is noisy, which adds up cells")
        if isinstance(law, UnknownPerturbation):
            raise NotByCell(f"the perturbation table of {law} is learnt, from all cells together")
        known = isinstance(inner, StandardLaw | Rounded | PerturbedLaw)
        known = known or (isinstance(inner, ScaledLaw) and inner.kernel_form is not None)
        if not known and not (isinstance(law, BoundedLaw) and np.ndim(law.lower) == np.ndim(law.upper) == 0):
            raise NotByCell(f"how the noise law {law} falls off is not known")
        own, place = (law, 1), np.zeros(len(rows), dtype=np.int64)
        if len(rows) and law.of_answer(0, query.shape) != law:
            arrays = [each for each in law.model_parameters().values() if isinstance(each, np.ndarray)]
            sets = np.stack([np.broadcast_to(each, query.shape).reshape(-1)[rows] for each in arrays])
            _, first, place = np.unique(sets, axis=1, return_index=True, return_inverse=True)
            own = law.of_answer(rows[first], query.shape), len(first)
        number = np.full(len(rows), laws.setdefault(own, len(laws)))
        found.append(np.stack([matrix.indices[rows], number, place.reshape(-1), measured.values.reshape(-1)[rows]]))
    return tuple(laws), np.concatenate(found, axis=1)


def _summed(
    cells: Cells, counts: int, shares: tuple[float, ...], matrix: sp.csc_array, drawn: Ints, rng: Any
) -> dict[str, Any]:
    """Summaries of all cells, shape ``(..., cells)``; independent draws of the answers of a matrix are added to `drawn`."""
    size, asked = len(cells.law), np.diff(matrix.indptr) > 0
    found: dict[str, Any] = {name: np.zeros(size) for name in ("mean", "sd")}
    found |= {"probability": np.zeros((counts + 1, size)), "quantile": np.zeros((len(shares), size), dtype=np.int64)}
    members = np.split(np.argsort(cells.which, kind="stable"), np.cumsum(np.bincount(cells.which))[:-1])
    for rows, first, mass in cells.posteriors():
        place, total = np.arange(mass.shape[1]), np.cumsum(mass, axis=1)
        inner = mass @ place
        found["mean"][rows] = first + inner
        found["sd"][rows] = np.sqrt((mass * (place - inner[:, None]) ** 2).sum(axis=1))
        above = np.arange(counts + 1)[:, None] - first
        value, of = np.nonzero((above >= 0) & (above < len(place)))
        found["probability"][value, rows[of]] = mass[of, above[value, of]]
        for k, share in enumerate(shares):
            found["quantile"][k, rows] = first + (total < share - _CUT).sum(axis=1)
        own = [members[row][asked[members[row]]] for row in rows]
        one, of = np.concatenate(own), np.repeat(np.arange(len(rows)), [len(some) for some in own])
        step = max(_BLOCK // drawn.shape[1], 1)
        for some in (slice(start, start + step) for start in range(0, len(one), step)):
            uniform = rng.random((len(of[some]), drawn.shape[1])) * total[of[some], -1:]
            x = [first[i] + np.searchsorted(total[i], u, side="right") for i, u in zip(of[some], uniform, strict=True)]
            part = sp.csr_array(matrix[:, one[some]])
            answers = np.flatnonzero(np.diff(part.indptr))
            drawn[answers] += part[answers] @ np.array(x)
    found["width"] = np.ones(size, dtype=np.int8)  # quantiles are those of the posterior
    return {name: own[..., cells.which] for name, own in found.items()}


def fit_cells(
    release: Release,
    prior: CellPrior,
    *,
    record: Query | Mapping[str, Query] | Iterable[Query] = (),
    draws: int = 1000,
    quantiles: Iterable[float] = (0.025, 0.05, 0.5, 0.95, 0.975),
    counts: int = 15,
    random_seed: Any = None,
    memory_check: bool = True,
) -> xr.DataTree:
    """Compute the posterior of a table in which cells are independent, cell by cell, without a chain: 100,000 in seconds.

    For releases in which nothing is exact and every noisy answer is about one cell.

    Parameters
    ----------
    release : Release
        Of counts, by any known independent laws of this package, with scales of each cell, thresholds, perturbed counts, several
        measurements, and cells without any.
    prior : CellPrior
        Without hyperparameters to be learnt: `bayesdp.hierarchies.priors.FixedNegativeBinomial`, which is the prior ``independent``
        of `bayesdp.priors` with its rates integrated out (and nearly flat with shape 1 and a large mean), or `FixedPoisson`.
    record, quantiles, counts, random_seed, memory_check
        As of `bayesdp.fit_hierarchy`.
    draws : int
        Independent draws of the queries in `record`.

    Returns
    -------
    xarray.DataTree
        As of `bayesdp.fit_hierarchy`, with ``mean``, ``sd``, ``probability`` and ``quantile`` in ``cells``, and the verdict *exact*.
        The numbers of cells are no estimates: what is left out of the sums, times the square of the count, is at most 1e-12 of a
        posterior at either end, so that probabilities are off by no more than 4e-12, and means by that or that share of themselves,
        besides rounding.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid; cells are tied together, or how a law falls off is not known; no count of a cell is possible.
    MemoryError
        If the draws need more memory than there is.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> from bayesdp.hierarchies.priors import FixedNegativeBinomial
    >>> table = {"tract": ["a", "b"], "age": ["young", "old"]}
    >>> noise = bdp.noise.DiscreteLaplace(b=2.0)
    >>> release = bdp.Release.from_published(table, [bdp.Measured(bdp.Identity(table), [[3, 8], [-1, 5]], noise)])
    >>> tree = fit_cells(release, FixedNegativeBinomial(mean=4.0, shape=1.0), record=bdp.Margins(table, ["age"]))
    >>> tree["cells"]["mean"].values.round(3)
    array([[2.627, 6.526],
           [0.943, 4.078]])
    >>> tree["posterior"]["by_age"].dims, tree["diagnostics"].attrs["verdict"]
    (('chain', 'draw', 'age'), 'exact')
    """
    instance(release, Release, "release must be a bayesdp.Release")
    fitting.check_prior(prior)
    if prior.names:
        learnt = shown(prior.names)
        raise ValueError(f"prior must have no hyperparameters to be learnt, which tie cells together; it has {learnt}")
    release = observed_once(release)
    frame, number, most = release.frame, positive_integer(draws, "draws"), positive_integer(counts, "counts")
    fitting.refuse_reserved(frame)
    shares, queries = fitting.checked_shares(quantiles), named_queries(record, frame, ())
    try:
        cells = Cells.of(release, prior)
    except NotByCell as reason:
        raise NotByCell(f"release has no posterior cell by cell: {reason}. {LARGE_TABLES}") from reason
    warn_of_law(release.law_check)
    ends = np.cumsum([0, *(query.rows for query in queries.values())])
    if memory_check:
        what = f"{number:,} draws of {ends[-1]:,} answers, and the summaries of cells, need"
        size = 16 * int(number * ends[-1] + (most + len(shares) + 16) * frame.size)
        refuse_if_short(what, size, "Ask for fewer `draws`, or fewer answers in `record`")
    none = sp.csr_array((0, frame.size), dtype=np.int64)
    matrix = sp.csc_array(sp.vstack([none, *(query.matrix for query in queries.values())]))
    drawn = np.zeros((int(ends[-1]), number), dtype=np.int64)
    found = _summed(cells, most, shares, matrix, drawn, fitting.generator_from(random_seed))
    coords: dict[str, Any] = {"chain": [0], "draw": np.arange(number)}
    answers = zip(queries.items(), np.split(drawn, ends[:-1])[1:], strict=True)
    arrays = {name: recorded_draws(name, query, own.T[None], coords, frame) for (name, query), own in answers}
    leads = {"probability": ("value",), "quantile": ("share",)}
    tables = {
        name: ((*leads.get(name, ()), *frame.dims), own.reshape(*own.shape[:-1], *frame.shape))
        for name, own in found.items()
    }
    ticks = {**frame.xarray_coords, "value": np.arange(most + 1), "share": list(shares)}
    meaning = "the posterior of every cell of the table, summed over its counts"
    message = "Computed, not sampled: the posterior of each cell is a sum over its counts, and no chain could fail to converge."
    groups = {
        "posterior": xr.Dataset(arrays, coords),
        CELLS: xr.Dataset(tables, ticks, {"meaning": meaning, "left_out": _CUT}),
        "diagnostics": xr.Dataset(attrs={"verdict": "exact", "converged": 1, "message": message}),
        "fiber": xr.Dataset({"determined": frame.data_array(np.zeros(frame.shape, bool))}, attrs={"variable": CELLS}),
    }
    return fitting.result_tree(groups, release, said_of_run(random_seed, prior.formula))

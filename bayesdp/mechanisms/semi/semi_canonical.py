"""Theorem 37 of Semi-DP as a mechanism: one cell with canonical noise, where the invariants leave a single direction free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp.lattices import kernel_basis
from bayesdp.mechanisms._shared import drawn_exactly
from bayesdp.mechanisms.base import AdditiveMechanism
from bayesdp.mechanisms.independent.canonical import canonical_step, draw_canonical, tulap_statement
from bayesdp.noise import Canonical, NoiseLaw, ProjectedGaussian, Tulap
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    PairLoss,
    TradeOff,
    describe_tradeoff,
    tradeoff_epsilon,
    tradeoff_from_description,
)
from bayesdp.privacy.caveats import CanonicalSteps, IntegersOnly
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.losses import ApproximateDP, GaussianDP, LossAt, PureDP
from bayesdp.privacy.pairs import Sentence
from bayesdp.queries import LinearQuery

_DELTA = 1e-6
"""At which a function f that is neither (epsilon, delta)-DP nor mu-GDP, and not pure, is stated as epsilon."""


@dataclass(frozen=True, init=False)
class SemiCanonical(AdditiveMechanism):
    """Publish one cell with canonical noise of a trade-off function f, and the invariants exactly.

    For invariants that leave one direction free: both margins of a 2 x 2 table, the total of two cells. Tables with the same
    invariants then differ by whole steps along it, and one cell says which table it is. The noise makes two tables a step apart
    as hard to tell apart as f says, at every level and not harder: none of the loss is wasted. One-sided tests of the cell of a
    2 x 2 table (`bayesdp.significance.odds_ratio_test_from_release`) are uniformly most powerful unbiased under Semi-DP.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly; they leave one dimension free.
    tradeoff : TradeOff
        Any symmetric f, as of `bayesdp.privacy.approximate_dp`, `gaussian_dp`, `tradeoff`, their groups and tensor products.
    cell : mapping, optional
        Label of each dimension: the cell that is published. It must change by one in a step. The first such cell by default.

    Raises
    ------
    TypeError, ValueError
        If there is no canonical noise for f, f protects nothing, or no cell changes by one.
    NotImplementedError
        If the invariants leave more than one dimension free: no single number then says which table it is.

    See Also
    --------
    CanonicalNoise : the same noise without invariants.
    SemiGaussian, SemiKNorm : for any number of free dimensions.
    bayesdp.noise.Tulap, bayesdp.noise.ProjectedGaussian, bayesdp.noise.Canonical : the laws of the noise.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 35, Lemma 36 and Theorem 37.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp, gaussian_dp
    >>> from bayesdp.queries import Margins
    >>> table = {"sex": ["men", "women"], "admission": ["yes", "no"]}
    >>> both = Margins(table, ["sex"], ["admission"])
    >>> mechanism = SemiCanonical(both, approximate_dp(1.0))
    >>> mechanism.law
    Tulap(epsilon=1.0, delta=0.0, sensitivity=1.0)
    >>> release = mechanism.release([[12, 30], [25, 17]], rng=1)
    >>> release.measurements[0].query.names
    ['sex=men, admission=yes']
    >>> SemiCanonical(both, gaussian_dp(0.5).group(2)).law.sigma
    1.0
    """

    tradeoff: TradeOff
    cell: Any = None

    name = "semi-canonical"

    def __init__(self, invariants: Any, tradeoff: Any, cell: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "invariants", invariants)
        own = tradeoff_from_description(tradeoff) if isinstance(tradeoff, Mapping) else tradeoff
        describe_tradeoff(own)  # refused here if it is none, or if files cannot name it
        own.canonical_noise()  # or if there is no noise for it
        object.__setattr__(self, "tradeoff", own)
        self._loss()  # or if it protects nothing
        super().__post_init__()
        free = self.invariants.dimension
        if free != 1:
            raise NotImplementedError(
                f"the invariants leave {free} dimensions free, and canonical noise of one cell needs exactly one (such as both "
                "margins of a 2 x 2 table); take SemiGaussian, SemiKNorm or LatticeLaplace, or release a 2 x 2 margin, "
                "or each stratum by itself"
            )
        object.__setattr__(self, "cell", self._chosen(cell))

    @cached_property
    def _step(self) -> npt.NDArray[np.int64]:
        """The smallest difference that the invariants do not see, as a flat table."""
        return np.asarray(kernel_basis(self.invariants).toarray(), dtype=np.int64).reshape(-1)

    def _chosen(self, cell: Any) -> dict[str, Any]:
        """Labels of the published cell."""
        frame = self.frame
        if cell is None:
            ones = np.flatnonzero(np.abs(self._step) == 1)
            if not ones.size:
                raise ValueError(
                    f"no cell changes by one in a step, which is {self._step.tolist()}: its noise would be too narrow"
                )
            index = np.unravel_index(int(ones[0]), frame.shape)
            return {dim: labels[int(i)] for dim, labels, i in zip(frame.dims, frame.labels, index, strict=True)}
        if not isinstance(cell, Mapping) or set(cell) != set(frame.dims):
            raise ValueError(f"cell must give a label for each of {printable(', '.join(frame.dims))}, got {cell!r}")
        for dim, labels in zip(frame.dims, frame.labels, strict=True):
            if cell[dim] not in labels:
                raise ValueError(
                    f"cell has the label {cell[dim]!r} of {dim!r}, which has {', '.join(map(repr, labels))}"
                )
        chosen = {dim: cell[dim] for dim in frame.dims}
        position = self._position(chosen)
        changes = abs(int(self._step[position]))
        if changes != 1:
            raise ValueError(
                "cell must change by one in a step along what the invariants leave free, but "
                f"{frame.cell_name(position)} changes by {changes}"
            )
        return chosen

    def _position(self, cell: Mapping[str, Any]) -> int:
        frame = self.frame
        index = tuple(labels.index(cell[dim]) for dim, labels in zip(frame.dims, frame.labels, strict=True))
        return int(np.ravel_multi_index(index, frame.shape))

    @cached_property
    def released_query(self) -> LinearQuery:
        """The query whose answer gets the noise: the cell."""
        row = np.zeros((1, self.frame.size), dtype=np.int64)
        row[0, self._position(self.cell)] = 1
        return LinearQuery(self.frame, row, [self.frame.exact_cell_name(self._position(self.cell))])

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise: the canonical one of f, in closed form where there is one."""
        f: Any = self.tradeoff
        kind = describe_tradeoff(f)["tradeoff"]
        if kind == "approximate-dp" and f.epsilon > 0.0:
            return Tulap(f.epsilon, f.delta)
        return ProjectedGaussian(1.0 / f.mu) if kind == "gaussian-dp" else Canonical(f)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        return tulap_statement(self.law)

    @property
    def _noise_step(self) -> float:
        return canonical_step(self.law)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        drawn_exactly(method, "the noise of one cell")
        return draw_canonical(self.law, rng, size, 1, self.answer_invariants).reshape(size, 1)

    def _loss(self) -> Loss:
        """What f comes to, in the definition in which it is stated."""
        f: Any = self.tradeoff
        stated = describe_tradeoff(f)
        if stated["tradeoff"] == "gaussian-dp":
            return GaussianDP(f.mu)
        if stated["tradeoff"] == "approximate-dp":
            return ApproximateDP(f.epsilon, f.delta) if f.delta else PureDP(f.epsilon)
        pure = tradeoff_epsilon(f, 0.0)
        if math.isfinite(pure):
            return PureDP(pure)
        for delta in (_DELTA, 1e-3, float(1.0 - f(0.0)) * (1.0 + 1e-12)):
            epsilon = tradeoff_epsilon(f, delta) if delta < 1.0 else math.inf
            if math.isfinite(epsilon):
                return ApproximateDP(epsilon, delta)
        raise ValueError(f"tradeoff {f!r} allows no (epsilon, delta) with delta < 1: it protects nothing")

    def _guarantee(self, method: str) -> Guarantee:
        drawn_exactly(method, "the noise of one cell")
        loss = self._loss()
        unit = "l2" if loss.kind == "gdp" else "l1"
        size = float(np.linalg.norm(self._step.astype(np.float64), 2 if loss.kind == "gdp" else 1))
        moved = self.released_query.answer_name(0)
        relation = f"tables with the same exact statistics that are one step apart, which changes {moved} by one"
        levels = (0.01, 0.05, 0.1)
        steps = CanonicalSteps(levels, tuple(float(self.tradeoff(level)) for level in levels))
        row = PairLoss(Sentence(relation), size, unit, loss)
        return Guarantee(loss.kind, LossAt(loss, size), unit, (row,), caveats=(steps, FLOATING_POINT_CAVEAT))

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data, without its frame. See `Mechanism.describe`."""
        return {
            "mechanism": self.name,
            "invariants": self.invariants.describe(),
            "tradeoff": describe_tradeoff(self.tradeoff),
            "cell": dict(self.cell),
        }

"""Canonical noise: two counts that differ by one are as hard to tell apart as a trade-off function says, and not harder."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._arrays import Floats, Ints
from bayesdp._validate import nonnegative_real, shown
from bayesdp.frames import Frame
from bayesdp.lattices import kernel_basis
from bayesdp.mechanisms.base import AdditiveMechanism, laplace_scale, stated_loss_of
from bayesdp.mechanisms.protects import AnswersMechanism
from bayesdp.mechanisms.real import grid_for
from bayesdp.noise import Canonical, DiscreteLaplace, NoiseLaw, ProjectedGaussian, Tulap
from bayesdp.noise.independent.canonical import symmetric_tradeoff
from bayesdp.noise.secure import draw_independent, statement
from bayesdp.privacy import (
    PairLoss,
    TradeOff,
    approximate_dp,
    describe_tradeoff,
    gaussian_dp,
    query_sensitivity,
    tensor_product,
    tradeoff_epsilon,
)
from bayesdp.privacy.caveats import CanonicalSteps, Fixed, IntegersOnly
from bayesdp.privacy.losses import ApproximateDP, GaussianDP, Loss, PureDP
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, GaussianTradeOff
from bayesdp.privacy.words import Sentence, Statement
from bayesdp.queries import LinearQuery, SumPart

_GRID_BITS = 20
"""Noise is an odd multiple of 2**-21: on a grid that no jump of the density falls on."""

_DELTA = 1e-6
"""At which a function f that is neither (epsilon, delta)-DP nor mu-GDP, and not pure, is stated as epsilon."""


def canonical_law(f: TradeOff) -> NoiseLaw:
    """The canonical law of a trade-off function, in closed form where there is one."""
    if isinstance(f, ApproximateTradeOff) and f.epsilon > 0.0:
        return Tulap(f.epsilon, f.delta)
    return ProjectedGaussian(1.0 / f.mu) if isinstance(f, GaussianTradeOff) else Canonical(f)


@dataclass(frozen=True)
class CanonicalDraws(AdditiveMechanism):
    """Canonical noise, on a public grid."""

    @property
    def _unit(self) -> str:
        return "l2" if self._loss.kind == "gdp" else "l1"

    def _integers_only(self, method: str) -> IntegersOnly | None:
        law = self.law
        return statement() if isinstance(law, Tulap) and not law.delta else None

    @property
    def _noise_step(self) -> float:
        law = self.law
        return grid_for(law.sigma) if isinstance(law, ProjectedGaussian) else 2.0 ** -(_GRID_BITS + 1)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> Floats:
        law, shape = self.law, self.released_query.shape
        if rng is None and isinstance(law, Tulap):
            self._sampler(method)  # refuses unknown methods
            return _from_integers(law, size * self.released_query.rows).reshape(size, *shape)
        drawn = np.asarray(super()._draw(rng, size, method), dtype=np.float64).reshape(size, *shape)
        if isinstance(law, ProjectedGaussian):
            return np.asarray(np.rint(drawn / self._noise_step) * self._noise_step)
        return np.asarray((np.floor(np.ldexp(drawn, _GRID_BITS)) + 0.5) * 2.0**-_GRID_BITS)


def _from_integers(law: Tulap, count: int) -> Floats:
    """Discrete Laplace noise from the operating system's entropy plus a uniform number, drawn again beyond the ends."""
    wide = laplace_scale(1.0, law.epsilon, "1 / epsilon")
    end = law.standard.support()[1]
    out = np.empty(count)
    todo = np.arange(count)
    while todo.size:
        whole = draw_independent(DiscreteLaplace(wide), todo.size)
        part = np.array([secrets.randbits(_GRID_BITS) for _ in range(todo.size)], dtype=np.float64)
        out[todo] = whole + (part + 0.5) * 2.0**-_GRID_BITS - 0.5
        todo = todo[np.abs(out[todo]) > end]
    return out


@dataclass(frozen=True, init=False)
class CanonicalNoise(CanonicalDraws, AnswersMechanism):
    """Publish counts of disjoint groups with canonical noise: Tulap for (epsilon, delta), Gaussian for mu-GDP.

    Noise is canonical for a trade-off function f if telling two counts apart that differ by one is exactly as hard as f says
    (Awan and Vadhan, 2023; paper 003, Definition 35). Where one record changes one count (add-remove, or a single count), f is
    that of the parameters given. Where it changes two by one each (substitution), each count gets noise for an f of its own, so
    that both together stay within the parameters: ``epsilon / 2`` and ``1 - sqrt(1 - delta)``, or ``mu / sqrt(2)``; what
    neighbours then have is the tensor product `tradeoff`.

    Parameters
    ----------
    table : Query, or labels of a table
        What the noise is added to: one set of sums of disjoint cells (`Identity`, `Totals`, or one margin).
    epsilon : float, optional
        Loss for neighbouring tables.
    delta : float, optional
        With epsilon; 0 if left out.
    mu : float, optional
        Loss for neighbouring tables, in Gaussian differential privacy.

    See Also
    --------
    bayesdp.privacy.TradeOff.canonical_noise : canonical noise of any symmetric trade-off function.
    DiscreteLaplace : integers instead, which adding a uniform number turns into this.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> table = {"county": ["Alpha", "Beta"]}
    >>> mechanism = CanonicalNoise(Totals(table), epsilon=1.0, delta=1e-6, neighbours="add-remove")
    >>> mechanism.law
    Tulap(epsilon=1.0, delta=1e-06, sensitivity=1.0)
    >>> CanonicalNoise(table, mu=1.0, neighbours="add-remove").tradeoff
    GaussianTradeOff(mu=1.0)
    >>> release = mechanism.release([20, 5])
    >>> bool(abs(release.values - 25) < 20)
    True
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    name = "canonical-noise"
    _for_invariants = "SemiGaussian or LatticeLaplace"

    def __init__(
        self,
        table: Any,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        *,
        neighbours: str = "substitution",
        query: Any = None,
    ) -> None:
        self._prepare(table, query, neighbours, epsilon=epsilon, delta=delta, mu=mu)

    def __post_init__(self) -> None:
        if self.mu is None:
            self._set(delta=None if self.delta is None else nonnegative_real(self.delta, "delta") or None)
        self._set(**stated_loss_of(self, (("epsilon",), ("epsilon", "delta"), ("mu",))))
        super().__post_init__()
        parts = self.released_query.parts
        if len(parts) != 1 or not isinstance(parts[0], SumPart):
            raise ValueError(
                "query must be one set of sums of disjoint cells, such as Identity(table), Totals(table) or "
                "Margins(table, ['county']), so that a record is counted once; give several queries a mechanism each, or use "
                "DiscreteLaplace"
            )

    @cached_property
    def _touched(self) -> int:
        """How many counts change by one between neighbouring tables: 1 or 2."""
        return round(query_sensitivity(self.released_query, "l1", self.neighbours))

    @property
    def count_tradeoff(self) -> TradeOff:
        """The trade-off function of one count that changes by one: what the noise is canonical for."""
        if self.mu is not None:
            return gaussian_dp(self.mu / math.sqrt(self._touched))
        assert self.epsilon is not None  # the other way to state the loss
        slack = -math.expm1(math.log1p(-(self.delta or 0.0)) / self._touched)
        return approximate_dp(self.epsilon / self._touched, slack)

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise."""
        return canonical_law(self.count_tradeoff)

    @property
    def tradeoff(self) -> TradeOff:
        """The trade-off function of neighbouring tables: that of one count, or its tensor product with itself."""
        return tensor_product(*[self.count_tradeoff] * self._touched)

    @property
    def _law_caveats(self) -> tuple[Statement, ...]:
        return (Fixed("canonical" if self._touched == 1 else "canonical, two counts"),)


def place_of(frame: Frame, cell: Any) -> tuple[int, ...]:
    """Where the cell with these labels stands along each dimension."""
    if not isinstance(cell, Mapping) or set(cell) != set(frame.dims):
        raise ValueError(f"cell must give a label for each of {shown(frame.dims)}, got {cell!r}")
    for dim, labels in zip(frame.dims, frame.labels, strict=True):
        if cell[dim] not in labels:
            raise ValueError(f"cell has the label {cell[dim]!r} of {dim!r}, which has {shown(labels)}")
    return tuple(labels.index(cell[dim]) for dim, labels in zip(frame.dims, frame.labels, strict=True))


@dataclass(frozen=True)
class SemiCanonical(CanonicalDraws):
    """Publish one cell with canonical noise of a trade-off function f, and the invariants exactly.

    For invariants that leave one direction free: both margins of a 2 x 2 table, the total of two cells. Tables with the same
    invariants then differ by whole steps along it, and one cell says which table it is. The noise makes two tables a step apart
    as hard to tell apart as f says, at every level and not harder: none of the loss is wasted. One-sided tests of the cell of a
    2 x 2 table (`bayesdp.significance.odds_ratio_test_from_release`) are uniformly most powerful unbiased under Semi-DP.

    Parameters
    ----------
    tradeoff : TradeOff
        Any symmetric f, as of `bayesdp.privacy.approximate_dp`, `gaussian_dp`, `tradeoff`, their groups and tensor products.
    cell : mapping, optional
        Label of each dimension: the cell that is published. It must change by one in a step. The first such cell by default.

    Raises
    ------
    NotImplementedError
        If the invariants leave more than one dimension free: no single number then says which table it is.

    See Also
    --------
    CanonicalNoise : the same noise without invariants.
    SemiGaussian, SemiKNorm : for any number of free dimensions.

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

    def __post_init__(self) -> None:
        self._set(tradeoff=symmetric_tradeoff(self.tradeoff))
        _ = self._loss  # refused here if it protects nothing
        super().__post_init__()
        free = self.invariants.dimension
        if free != 1:
            raise NotImplementedError(
                f"the invariants leave {free} dimensions free, and canonical noise of one cell needs exactly one (such as both "
                "margins of a 2 x 2 table); take SemiGaussian, SemiKNorm or LatticeLaplace, or release a 2 x 2 margin, "
                "or each stratum by itself"
            )
        self._set(cell=self._chosen(self.cell))

    @cached_property
    def _step(self) -> Ints:
        """The smallest difference that the invariants do not see, as a flat table."""
        return np.asarray(kernel_basis(self.invariants).toarray(), dtype=np.int64).reshape(-1)

    def _chosen(self, cell: Any) -> dict[str, Any]:
        """Labels of the published cell."""
        frame, changes = self.frame, np.abs(self._step)
        if cell is None:
            if not np.any(changes == 1):
                raise ValueError(
                    f"no cell changes by one in a step, which is {self._step.tolist()}: its noise would be too narrow"
                )
            index = np.unravel_index(int(np.argmax(changes == 1)), frame.shape)
            return {dim: labels[int(i)] for dim, labels, i in zip(frame.dims, frame.labels, index, strict=True)}
        position = self._position(cell)
        if changes[position] != 1:
            raise ValueError(
                "cell must change by one in a step along what the invariants leave free, but "
                f"{frame.cell_name(position)} changes by {changes[position]}"
            )
        return {dim: cell[dim] for dim in frame.dims}

    def _position(self, cell: Any) -> int:
        """Where the cell with these labels stands in the flat table."""
        return int(np.ravel_multi_index(place_of(self.frame, cell), self.frame.shape))

    @cached_property
    def released_query(self) -> LinearQuery:
        """The query whose answer gets the noise: the cell."""
        position = self._position(self.cell)
        row = np.eye(1, self.frame.size, position, dtype=np.int64)
        return LinearQuery(self.frame, row, [self.frame.exact_cell_name(position)])

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise: the canonical one of f, in closed form where there is one."""
        return canonical_law(self.tradeoff)

    @property
    def _loss(self) -> Loss:
        """What f comes to, in the definition in which it is stated."""
        f = self.tradeoff
        if isinstance(f, GaussianTradeOff):
            return GaussianDP(f.mu)
        if isinstance(f, ApproximateTradeOff):
            return ApproximateDP(f.epsilon, f.delta) if f.delta else PureDP(f.epsilon)
        for delta in (0.0, _DELTA, 1e-3, float(1.0 - f(0.0)) * (1.0 + 1e-12)):
            epsilon = tradeoff_epsilon(f, delta) if delta < 1.0 else math.inf
            if math.isfinite(epsilon):
                return ApproximateDP(epsilon, delta) if delta else PureDP(epsilon)
        raise ValueError(f"tradeoff {f!r} allows no (epsilon, delta) with delta < 1: it protects nothing")

    @property
    def _stated_size(self) -> float:
        return float(np.linalg.norm(self._step.astype(np.float64), 2 if self._unit == "l2" else 1))

    def _pairs(self) -> tuple[PairLoss, ...]:
        changed = self.released_query.answer_name(0)
        relation = f"tables with the same exact statistics that are one step apart, which changes {changed} by one"
        return (PairLoss(Sentence(relation), self._stated_size, self._unit, self._loss),)

    @property
    def _law_caveats(self) -> tuple[Statement, ...]:
        levels = (0.01, 0.05, 0.1)
        return (CanonicalSteps(levels, tuple(float(self.tradeoff(level)) for level in levels)),)

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data, without its frame. See `Mechanism.describe`."""
        return {**super().describe(), "tradeoff": describe_tradeoff(self.tradeoff), "cell": dict(self.cell)}

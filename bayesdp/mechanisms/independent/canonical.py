"""Canonical noise on counts of disjoint groups, without invariants: nothing of the stated loss is wasted on a single count."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_real
from bayesdp.invariants import Invariants
from bayesdp.mechanisms._shared import drawn_exactly, grid_for, laplace_scale, one_statement
from bayesdp.mechanisms.base import AdditiveMechanism
from bayesdp.mechanisms.independent.base import AnswersMechanism
from bayesdp.noise import DiscreteLaplace, NoiseLaw, ProjectedGaussian, Tulap
from bayesdp.noise.secure import draw_independent, statement
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    PairLoss,
    TradeOff,
    approximate_dp,
    gaussian_dp,
    query_sensitivity,
)
from bayesdp.privacy.caveats import Fixed, IntegersOnly
from bayesdp.privacy.losses import LossAt, stated_loss
from bayesdp.privacy.pairs import Neighbours
from bayesdp.queries import SumPart

_GRID_BITS = 20
"""Noise is an odd multiple of 2**-21: on a grid that no jump of the density falls on."""


@dataclass(frozen=True, init=False)
class CanonicalNoise(AnswersMechanism, AdditiveMechanism):
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
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (the number of records is public), or comes or goes.
    query : Query, optional
        The query, where `table` is the labels.

    Raises
    ------
    TypeError, ValueError
        If the loss is not stated in exactly one way, a parameter is not valid, or cells are counted more than once.

    See Also
    --------
    bayesdp.noise.Tulap, bayesdp.noise.ProjectedGaussian : the laws of the noise.
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
        stated = {"epsilon": epsilon, "delta": delta, "mu": mu}
        if delta is not None and mu is None:
            one_statement({**stated, "delta": delta or None}, (("epsilon",), ("epsilon", "delta"), ("mu",)))
        else:
            one_statement(stated, (("epsilon",), ("epsilon", "delta"), ("mu",)))
        # Checked before they are kept; what is wrong with them is said by the functions that define them.
        if mu is not None:
            gaussian_dp(mu)
        elif epsilon is not None:
            positive_real(epsilon, "epsilon")
            approximate_dp(epsilon, 0.0 if delta is None else delta)
        for name, value in (("epsilon", epsilon), ("delta", delta or None), ("mu", mu)):
            object.__setattr__(self, name, None if value is None else float(value))
        self._prepare(table, query, neighbours)
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
    def sensitivity(self) -> float:
        """The largest change of the answers between neighbouring tables: l1, or l2 if mu is given."""
        return query_sensitivity(self.released_query, "l1" if self.mu is None else "l2", self.neighbours)

    @property
    def count_tradeoff(self) -> TradeOff:
        """The trade-off function of one count that changes by one: what the noise is canonical for."""
        if self.mu is not None:
            return gaussian_dp(self.mu / math.sqrt(self._touched))
        assert self.epsilon is not None  # the other way to state the loss
        slack = -math.expm1(math.log1p(-(self.delta or 0.0)) / self._touched)
        return approximate_dp(self.epsilon / self._touched, slack)

    @property
    def tradeoff(self) -> TradeOff:
        """The trade-off function of neighbouring tables: that of one count, or its tensor product with itself."""
        return self.count_tradeoff.tensor(*[self.count_tradeoff] * (self._touched - 1))

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise."""
        f: Any = self.count_tradeoff
        return Tulap(f.epsilon, f.delta) if self.mu is None else ProjectedGaussian(1.0 / f.mu)

    def _integers_only(self, method: str) -> IntegersOnly | None:
        return tulap_statement(self.law)

    @property
    def _noise_step(self) -> float:
        return canonical_step(self.law)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        drawn_exactly(method, "independent noise")
        return draw_canonical(self.law, rng, size, self.released_query.rows, self.answer_invariants).reshape(
            size, *self.released_query.shape
        )

    def _guarantee(self, method: str) -> Guarantee:
        drawn_exactly(method, "independent noise")
        given = {name: getattr(self, name) for name in ("epsilon", "delta", "mu")}
        loss, unit = (
            stated_loss({name: v for name, v in given.items() if v is not None}),
            "l1" if self.mu is None else "l2",
        )
        which = "canonical" if self._touched == 1 else "canonical, two counts"
        return Guarantee(
            loss.kind,
            LossAt(loss, self.sensitivity),
            unit,
            (PairLoss(Neighbours(self.neighbours), self.sensitivity, unit, loss),),
            caveats=(Fixed(which), FLOATING_POINT_CAVEAT),
        )


@singledispatch
def tulap_statement(law: NoiseLaw) -> IntegersOnly | None:
    """How noise is drawn without a generator, where that is with integer arithmetic only."""
    return None


@tulap_statement.register
def _without_rounding(law: Tulap) -> IntegersOnly | None:
    return None if law.delta else statement()


@singledispatch
def canonical_step(law: NoiseLaw) -> float:
    """The power of two that canonical noise is a multiple of: a whole one for Gaussian noise, half of one for the others."""
    return 2.0 ** -(_GRID_BITS + 1)


@canonical_step.register
def _gaussian_step(law: ProjectedGaussian) -> float:
    return grid_for(law.sigma)


@singledispatch
def draw_canonical(
    law: NoiseLaw, rng: np.random.Generator | None, size: int, answers: int, relations: Invariants
) -> npt.NDArray[np.float64]:
    """Draw canonical noise on a public grid, shape ``(size, answers)``, of the laws Tulap, Canonical and ProjectedGaussian.

    Without a generator from the operating system's entropy, and by integers only for Tulap noise. `relations` is the (empty)
    invariants of the answers.
    """
    drawn = np.asarray(law.draw(rng, (answers,), size), dtype=np.float64)
    return np.asarray((np.floor(np.ldexp(drawn, _GRID_BITS)) + 0.5) * 2.0**-_GRID_BITS)


_draw_any = draw_canonical.dispatch(object)


@draw_canonical.register
def _draw_tulap(
    law: Tulap, rng: np.random.Generator | None, size: int, answers: int, relations: Invariants
) -> npt.NDArray[np.float64]:
    if rng is None:
        return _from_integers(law, size * answers).reshape(size, answers)
    return _draw_any(law, rng, size, answers, relations)


@draw_canonical.register
def _draw_gaussian(
    law: ProjectedGaussian, rng: np.random.Generator | None, size: int, answers: int, relations: Invariants
) -> npt.NDArray[np.float64]:
    drawn = np.asarray(law.draw(rng, relations.frame.shape, size, relations), dtype=np.float64)
    step = canonical_step(law)
    return np.asarray(np.rint(drawn.reshape(size, answers) / step) * step)


def _from_integers(law: Tulap, count: int) -> npt.NDArray[np.float64]:
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

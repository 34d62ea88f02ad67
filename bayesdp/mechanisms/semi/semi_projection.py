"""Projection of additive noise onto what invariants leave free, with the guarantee of Semi-DP (Proposition 26)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayesdp._validate import positive_integer, positive_real
from bayesdp.mechanisms._shared import grid_caveat
from bayesdp.mechanisms.frameworks.base import GRID, checked_loss, semi_given_guarantee
from bayesdp.mechanisms.frameworks.project_extend import ProjectedMechanism
from bayesdp.mechanisms.semi.base import SemiRealMechanism, safe_adjacency
from bayesdp.noise import NoiseLaw
from bayesdp.noise import ProjectedLaplace as Law
from bayesdp.privacy import FLOATING_POINT_CAVEAT, Guarantee
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement, Words
from bayesdp.queries import Query


@dataclass(frozen=True)
class SemiProjectedLaplace(SemiRealMechanism):
    """Publish counts with independent Laplace noise of scale ``Delta_1(S_Semi) / epsilon``, projected onto the span.

    Tables with the same invariants, at most `adjacency` substituted records apart, are told apart with a loss of at most
    epsilon: the l1 mechanism (Algorithm 4), and post-processing. `SemiNorm` with the norm l1 has less noise at the same loss.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    epsilon : float
        Loss for the tables that are protected.
    adjacency : int, optional
        How many substituted records these may be apart; see `SemiGaussian` for the default.
    convention : {"definition", "paper"}
        ``"paper"``: the sensitivity that Proposition 32 prints, with the true epsilon stated in `guarantee`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, adjacency has to be given, or so many records cannot reach all that the invariants leave
        free.

    See Also
    --------
    semi_project : the same for any additive noise, without a likelihood.
    bayesdp.noise.ProjectedLaplace : the law of the noise.
    bayesdp.distributions.ProjectedLaplace : that law as a PyMC distribution; it takes b.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 26 and Algorithm 4.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiProjectedLaplace(Margins(table, ["county"], ["education"]), epsilon=0.5)
    >>> mechanism.b, mechanism.error
    (12.0, 1152.0)
    """

    epsilon: float

    name = "semi-projected-laplace"
    _unit = "l1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        super().__post_init__()

    @property
    def b(self) -> float:
        """The scale of the noise before it is projected, in counts."""
        return self.sensitivity / self.epsilon

    @property
    def error(self) -> float:
        """Expected total squared error of the cells."""
        dimension: int = self.invariants.dimension
        return 2.0 * dimension * self.b**2

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.b)

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(size / self.b)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Words, ...]]:
        sampler, sentences = super()._how(method)
        return sampler, (Fixed("projected"), *sentences)

    @property
    def _noise_scale(self) -> float:
        return self.b


@dataclass(frozen=True, eq=False)
class SemiProjectedMechanism(ProjectedMechanism):
    """Additive noise that is projected, with a guarantee of Semi-DP; build one with `semi_project`."""

    adjacency: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "adjacency", positive_integer(self.adjacency, "adjacency"))

    def _guarantee(self, determined: tuple[str, ...] = (), *, simulated: bool = False) -> Guarantee:
        return semi_given_guarantee(
            self.loss,
            self.adjacency,
            self.invariants,
            (Fixed("stated by the author, Semi-DP"), FLOATING_POINT_CAVEAT, grid_caveat(self.grid)),
            determined,
            trusted_sampler=isinstance(self.mechanism, NoiseLaw),
            simulated=simulated,
        )


def semi_project(
    noise: Callable[..., Any] | NoiseLaw,
    query: Query,
    invariants: Any,
    *,
    loss: Mapping[str, float],
    adjacency: int | None = None,
    unbiased: bool | None = None,
    grid: float = GRID,
) -> SemiProjectedMechanism:
    r"""Project any additive noise onto what the invariants leave free, and state what that protects within Semi-DP.

    If ``W x + e`` has a loss for tables that share the invariants and are at most `adjacency` records apart, then
    ``W x + P e`` has it too, with P the orthogonal projection onto all differences of the answers of such tables, or any
    larger space: here all that the invariants leave free. So calibrate e to the sensitivity space,
    `bayesdp.privacy.SensitivitySpace.semi`, and let the projection make it smaller.

    Parameters
    ----------
    noise : callable or NoiseLaw
        A noise law of independent integers, or ``(rng, size) -> noise`` of shape ``(size, *query.shape)``.
    query : Query
        ``W``, what is answered.
    invariants : Query, iterable of Query, or Invariants
        What is published exactly, of the same table.
    loss : mapping
        What the unprojected noise loses for tables that share the invariants and are at most `adjacency` substituted records
        apart: ``{"epsilon": 1.0}``, ``{"epsilon": 1.0, "delta": 1e-6}``, ``{"rho": 0.1}`` or ``{"mu": 0.5}``. It is taken
        on your word.
    adjacency : int, optional
        Left out, the number that is safe whatever the published totals are, as for `SemiGaussian`.
    unbiased : bool, optional
        Your statement that the noise has mean zero. Known for noise laws.
    grid : float
        As for `project`.

    Returns
    -------
    SemiProjectedMechanism
        With `noise`, `release_values` and `guarantee`; values, without a likelihood.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, adjacency has to be given, or the invariants determine all answers.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 26.

    Examples
    --------
    Noise of the l-infinity mechanism (Algorithm 6), for a 2 x 3 table with both margins:

    >>> import numpy as np
    >>> from bayesdp.privacy import SensitivitySpace
    >>> from bayesdp.queries import Identity, Margins
    >>> table = {"sex": ["F", "M"], "age": ["young", "middle", "old"]}
    >>> margins = Margins(table, ["sex"], ["age"])
    >>> delta = SensitivitySpace.semi(margins, 3).delta("linf")
    >>> def cube(rng, size):
    ...     radius = rng.gamma(7.0, delta / 1.0, (size, 1, 1))
    ...     return radius * rng.uniform(-1.0, 1.0, (size, 2, 3))
    >>> mechanism = semi_project(cube, Identity(table), margins, loss={"epsilon": 1.0})
    >>> drawn = mechanism.noise(np.random.default_rng(1))[0]
    >>> float(np.abs(drawn.sum(axis=0)).max()), mechanism.guarantee.pairs[0].loss
    (0.0, PureDP(epsilon=1.0))
    """
    found = ProjectedMechanism(
        noise, query, invariants, checked_loss(loss), additive=True, unbiased=unbiased, grid=grid
    )
    bound = safe_adjacency(found.invariants) if adjacency is None else adjacency
    if bound is None:
        raise ValueError(
            "adjacency must be given for these invariants: see bayesdp.privacy.semi_adjacency, which computes it from the exact "
            "answers"
        )
    return SemiProjectedMechanism(
        noise, query, found.invariants, found.loss, additive=True, unbiased=unbiased, grid=grid, adjacency=bound
    )

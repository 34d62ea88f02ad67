"""The l1, l2 and l-infinity mechanisms of Semi-DP: real noise on the span of the sensitivity space.

The Gaussian mechanism of Semi-DP: normal noise for what a few records can change while the invariants stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bayesdp._validate import choice, positive_real
from bayesdp.mechanisms.semi.base import SemiQueryMechanism
from bayesdp.noise import ProjectedGaussian as ProjectedGaussianLaw
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.subspace.subspace_norm import NORMS
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm as SubspaceNormLaw
from bayesdp.privacy import DIFFERENCES, Difference, TradeOff, gaussian_dp, gaussian_sigma_for_mu
from bayesdp.privacy.caveats import Drawn
from bayesdp.privacy.losses import GaussianDP, PureDP
from bayesdp.privacy.words import SamplerStatement, Statement


@dataclass(frozen=True)
class SemiGaussian(SemiQueryMechanism):
    """Publish answers with normal noise of scale ``Delta_2(S_Semi) / mu`` on the span of the sensitivity space.

    Tables with the same invariants, at most `adjacency` substituted records apart, are told apart no better than N(0, 1) from
    N(mu, 1): mu-GDP within Semi-DP. With both margins of a table and the default adjacency of 3 the sensitivity is the
    root of 6 (a 3-cycle), or 2 where there are two rows or columns. The paper has 2 in general; see docs/CORRECTIONS.md.
    With a `query`, answers and combinations of answers that the invariants determine have no noise: `exact_answers` names the
    answers.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    mu : float
        Loss for the tables that are protected, by Gaussian differential privacy.
    adjacency : int, optional
        How many substituted records these may be apart. Left out, the number that is safe whatever the published totals are:
        p + 1 for one-way margins of p features (3 for both margins of a table), 2 for disjoint totals, 1 for a grand total.
        Otherwise it must be given: see `bayesdp.privacy.semi_adjacency`.
    query : Query, optional
        What the noise is added to: ``W``; the cells themselves if left out. The sensitivity space is that of the answers,
        ``{W z}``, and the noise lives on its span. Real coefficients: `LinearQuery.of_values`, whose answers, and with them the
        noise and its scale here, are counted in multiples of a unit; ``mechanism.query.unit`` times that is in the user's unit.
    convention : {"definition", "paper"}
        ``"paper"``: the sensitivity that Proposition 32 prints, with the true mu stated in `guarantee`.

    See Also
    --------
    ProjectedGaussian : the same law, for neighbours that differ in one record, whether or not the invariants tell them apart.
    bayesdp.noise.ProjectedGaussian : the law of the noise.
    bayesdp.distributions.ProjectedGaussian : that law as a PyMC distribution; it takes sigma.
    bayesdp.significance.odds_ratio_test_from_release : for 2 x 2 tables.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 1 and Proposition 28.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for mechanism in (SemiGaussian(margins, mu=0.5), SemiGaussian(margins, mu=0.5, convention="paper")):
    ...     row = mechanism.guarantee.pairs[0]
    ...     print(f"sigma {mechanism.sigma:.4f}: mu = {row.loss['mu']:.4f} at {row.size:.4f}")
    sigma 4.8990: mu = 0.5000 at 2.4495
    sigma 4.0000: mu = 0.6124 at 2.4495
    """

    mu: float

    name = "semi-gaussian"
    _unit = "l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive_real(self.mu, "mu"))
        super().__post_init__()

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts, or in multiples of the unit of the query."""
        return gaussian_sigma_for_mu(self.mu, self.sensitivity)

    @property
    def error(self) -> float:
        """Expected total squared error of the answers."""
        dimension: int = self.answer_invariants.dimension
        return dimension * self.sigma**2

    @property
    def law(self) -> ProjectedGaussianLaw:
        """The law of the noise."""
        return ProjectedGaussianLaw(self.sigma)

    @property
    def tradeoff(self) -> TradeOff:
        """The trade-off function of tables that are protected: that of N(0, 1) and N(mu, 1), mu the true one."""
        return gaussian_dp(self._loss_at(self.true_sensitivity).mu)

    def _loss_at(self, size: float) -> GaussianDP:
        return GaussianDP(self.mu * size / self.sensitivity)

    @property
    def _noise_scale(self) -> float:
        return self.sigma


@dataclass(frozen=True)
class SemiNorm(SemiQueryMechanism):
    """Publish answers with noise of density ``exp(-epsilon ||z|| / Delta(S_Semi))`` on the span of the sensitivity space.

    Tables with the same invariants, at most `adjacency` substituted records apart, are told apart with a loss of at most
    epsilon. With both margins of a table and two records the l1 norm is the best of the three, 6 to 13 percent above
    `SemiKNorm` in squared error. With three records, the default, the l-infinity norm is that of `SemiKNorm` for 3 x 3 tables,
    and the l1 norm the best of the three from 4 x 4 on.

    Noise is drawn exactly: for l2 under any invariants; for l1 and l-infinity under disjoint totals, both margins of a table (10
    x 10 in tens of milliseconds) and, by rejection, other small tables. Where no exact sampler is practical,
    `noise`, `release` and `guarantee` say so by a `NotImplementedError`.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    epsilon : float
        Loss for the tables that are protected.
    norm : {"l1", "l2", "linf"}, default "l1"
    adjacency : int, optional
        How many substituted records these may be apart; see `SemiGaussian` for the default.
    query : Query, optional
        What the noise is added to; the cells themselves if left out. See `SemiGaussian`.
    convention : {"definition", "paper"}
        ``"paper"``: the sensitivities that Proposition 32 prints, with the true epsilon stated in `guarantee`.

    See Also
    --------
    SemiLatticeLaplace : the same on integers, l1 and l2.
    SemiProjectedLaplace : independent Laplace noise, projected: more of it than here.
    bayesdp.noise.SubspaceNorm : the law of the noise.
    bayesdp.distributions.SubspaceNorm : that law as a PyMC distribution.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Proposition 7 and Algorithms 4 to 6, on the span.

    Examples
    --------
    Expected squared error of a 3 x 3 table with both margins, in units of ``1 / epsilon**2``, for two records:

    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for norm in ("l1", "l2", "linf"):
    ...     print(norm, round(SemiNorm(margins, epsilon=1.0, norm=norm, adjacency=2).error, 1))
    l1 50.7
    l2 80.0
    linf 64.6
    """

    epsilon: float
    norm: str = field(default="l1")

    name = "semi-norm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        choice(self.norm, NORMS, "norm")
        super().__post_init__()

    @property
    def rate(self) -> float:
        """The rate of the noise per count, ``epsilon / sensitivity``."""
        return self.epsilon / self.sensitivity

    @property
    def law(self) -> SubspaceNormLaw:
        """The law of the noise."""
        return SubspaceNormLaw(self.rate, self.norm)

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where it has no closed form."""
        variance = self.law.variance(self.answer_invariants.frame.shape, self.answer_invariants)
        return None if variance is None else float(variance.sum())

    @property
    def _unit(self) -> str:
        return self.norm

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.rate * size)

    def _size_of(self, difference: Difference) -> float | None:
        if self.norm == "linf":
            # Each named difference changes its cells by one.
            return 1.0 if difference in DIFFERENCES.values() else None
        return difference.size(self.norm)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
        sampler, sentences = super()._how(method)
        return sampler, (Drawn(self.law.sampler(self.answer_invariants).words), *sentences)

    @property
    def _noise_scale(self) -> float:
        return 1.0 / self.rate

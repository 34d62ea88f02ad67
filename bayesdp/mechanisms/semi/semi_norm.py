"""The l1, l2 and l-infinity mechanisms of Semi-DP: real noise on the span of the sensitivity space."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayesdp._validate import choice
from bayesdp.mechanisms.semi.queries import SemiQueryMechanism
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.subspace.subspace_norm import NORMS
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm as Law
from bayesdp.privacy import DIFFERENCES, Difference
from bayesdp.privacy.caveats import Drawn
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement, Words


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

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, adjacency has to be given, or so many records cannot reach all that the invariants leave
        free.

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
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.rate, self.norm)

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

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Words, ...]]:
        sampler, sentences = super()._how(method)
        return sampler, (Drawn(self.law.sampler(self.answer_invariants).words), *sentences)

    @property
    def _noise_scale(self) -> float:
        return 1.0 / self.rate

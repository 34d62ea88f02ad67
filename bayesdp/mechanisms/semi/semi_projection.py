"""Independent Laplace noise, projected onto what invariants leave free, with the guarantee of Semi-DP (Proposition 26)."""

from __future__ import annotations

from dataclasses import dataclass

from bayesdp._validate import positive_real
from bayesdp.mechanisms.semi.base import SemiRealMechanism
from bayesdp.noise import ProjectedLaplace as Law
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement, Statement


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

    See Also
    --------
    bayesdp.papers.semi_dp.semi_project : the same for any additive noise, without a likelihood.
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

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
        sampler, sentences = super()._how(method)
        return sampler, (Fixed("projected"), *sentences)

    @property
    def _noise_scale(self) -> float:
        return self.b

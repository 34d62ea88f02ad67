"""The K-norm mechanism of Semi-DP with real noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer
from bayesdp.hulls import DEFAULT_SWEEPS, HULL_METHODS, Hull, choose_hull_sampler, sample_hull
from bayesdp.lattices.samplers import Sampler
from bayesdp.mechanisms._shared import grid_caveat
from bayesdp.mechanisms.semi.hulls import SemiHullMechanism
from bayesdp.mechanisms.semi.queries import SemiQueryMechanism
from bayesdp.noise import KNorm as ListedLaw
from bayesdp.noise import SemiKNorm as Law
from bayesdp.privacy import EXACT_SAMPLER, FLOATING_POINT_CAVEAT, hit_and_run_sampler
from bayesdp.privacy.caveats import Drawn
from bayesdp.privacy.words import SamplerStatement, Words


@dataclass(frozen=True)
class SemiKNorm(SemiHullMechanism, SemiQueryMechanism):
    """Publish answers with noise in the norm whose unit ball is the hull of all that a few records can change.

    The density is proportional to ``exp(-epsilon ||z||_K)``, K the hull of the sensitivity space: the smallest ball whose noise
    tells tables with the same invariants, at most `adjacency` substituted records apart, apart with a loss of at most epsilon
    (Theorem 31, which calls it optimal; that is no promise of the least error, see docs/CORRECTIONS.md). For both margins of a
    table and 3 records K is the hull of the 2 x 2 moves and the 3-cycles; the paper leaves the latter out, see
    docs/CORRECTIONS.md. With three rows and columns that hull is the cube, and `SemiNorm` with the l-infinity norm the same
    mechanism.

    Noise is drawn exactly wherever that is practical: by triangulation of a small boundary, by rejection from l1 noise (5 x 5
    tables in milliseconds, 10 x 10 in seconds). Elsewhere it is drawn by hit-and-run, which is approximate. The guarantee says how.
    ``method="algorithm-3"`` draws by the paper's rejection from a cube, for comparison.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records. Other invariants than disjoint totals and both
        margins of a table are taken where the sensitivity space can be listed.
    epsilon : float
        Loss for the tables that are protected.
    adjacency : int, optional
        How many substituted records these may be apart; see `SemiGaussian` for the default.
    query : Query, optional
        What the noise is added to; the cells themselves if left out. K is then the hull of what so many
        records can change in the answers; see `SemiGaussian`.
    convention : {"definition", "paper"}
        ``"paper"``: the space that Proposition 32 prints, with the true epsilon stated in `guarantee`.
    sweeps : int
        Length of the chain behind each draw where noise is not drawn exactly.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not valid, adjacency has to be given, so many records cannot reach all that the invariants leave
        free, or there are too many differences to list.

    See Also
    --------
    SemiLatticeKNorm : the same on integers.
    KNorm : for neighbours that differ in one record, whether or not the invariants tell them apart.
    bayesdp.noise.SemiKNorm : the law of the noise.
    bayesdp.distributions.SemiKNorm : that law as a PyMC distribution.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithms 2 and 3, Proposition 30 and Theorem 31.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for mechanism in (SemiKNorm(margins, epsilon=1.0), SemiKNorm(margins, epsilon=1.0, convention="paper")):
    ...     row = mechanism.guarantee.pairs[0]
    ...     print(f"error {mechanism.error:.1f}: epsilon = {row.loss['epsilon']:.1f}")
    error 64.6: epsilon = 1.0
    error 46.9: epsilon = 2.0
    """

    sweeps: int = field(default=DEFAULT_SWEEPS, kw_only=True)

    name = "semi-k-norm"

    def __post_init__(self) -> None:
        positive_integer(self.sweeps, "sweeps")
        super().__post_init__()

    @cached_property
    def law(self) -> Law | ListedLaw:
        """The law of the noise."""
        if self._known:
            return Law(self.epsilon, self._records)
        relations = self.answer_invariants
        return ListedLaw(self.epsilon, relations.coordinates(self._listed), relations.coordinate_rule)

    @property
    def hull(self) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        law = self.law
        return law.hull(self.answer_invariants) if isinstance(law, Law) else law.hull

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where the second moments of K are not computed."""
        moment = self.hull.second_moment
        return None if moment is None else float(np.trace(moment)) / self.epsilon**2

    def sampler(self, method: str = "auto") -> Sampler:
        """How noise is drawn, before any is."""
        return choose_hull_sampler(self.hull, self.answer_invariants, method, self.sweeps)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Words, ...]]:
        choice(method, HULL_METHODS, "method")
        found = self.sampler(method)
        label = EXACT_SAMPLER if found.exact else hit_and_run_sampler(self.sweeps)
        return label, (Drawn(found.words), FLOATING_POINT_CAVEAT, grid_caveat(self.grid))

    @property
    def _noise_scale(self) -> float:
        # K has integer vertices that span the space, so that noise of one unit changes answers by one or more.
        return 1.0 / self.epsilon

    def _raw(self, rng: np.random.Generator, size: int, method: str) -> npt.NDArray[np.float64]:
        relations = self.answer_invariants
        points = sample_hull(self.hull, self.epsilon, rng, size, relations, method, self.sweeps)
        return np.asarray(relations.from_coordinates(points))

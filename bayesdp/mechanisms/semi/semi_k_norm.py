"""The K-norm mechanism of Semi-DP with real noise.

What the K-norm mechanisms of Semi-DP share: the hull of the sensitivity space, and the losses that it gives.

The K-norm mechanism of Semi-DP with integer noise.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, positive_integer
from bayesdp.lattices.samplers import Sampler
from bayesdp.mechanisms._shared import drawn_exactly, grid_caveat
from bayesdp.mechanisms.semi.base import SemiMechanism, SemiQueryMechanism
from bayesdp.noise import KNorm as ListedLaw
from bayesdp.noise import LatticeKNorm as LatticeKNormLaw
from bayesdp.noise import SemiKNorm as SemiKNormLaw
from bayesdp.noise.arrays import positive_rate
from bayesdp.polytopes import (
    DEFAULT_SWEEPS,
    HULL_METHODS,
    Hull,
    SensitivityHull,
    choose_hull_sampler,
    choose_lattice_sampler,
    sample_hull,
    sample_lattice,
    sensitivity_hull,
)
from bayesdp.privacy import DIFFERENCES, EXACT_SAMPLER, FLOATING_POINT_CAVEAT, Difference, hit_and_run_sampler
from bayesdp.privacy.caveats import Drawn
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement, Statement


@dataclass(frozen=True)
class SemiHullMechanism(SemiMechanism):
    """What both share: the hull of the sensitivity space, and what it says of the loss."""

    epsilon: float

    _unit = "K"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        super().__post_init__()

    @property
    def _records(self) -> int:
        """The records whose changes have the hull K: those of the paper's convention are two."""
        return 2 if self.convention == "paper" else self.adjacency

    @cached_property
    def _known(self) -> bool:
        """Whether the number of records fixes K without a list of vertices."""
        if self.published is not None or not self.space.is_of_answers:
            return False
        try:
            sensitivity_hull(self.answer_invariants, self._records)
        except NotImplementedError:
            return False
        return True

    @cached_property
    def _listed(self) -> npt.NDArray[np.int64]:
        """The differences of the sensitivity space in the shape of the answers, where K has no other description."""
        return self.space.differences.reshape(-1, *self.answer_invariants.frame.shape)

    def _reach(self) -> None:
        """See `SemiMechanism`; K must have all dimensions, since its noise has those of K."""
        super()._reach()
        own = self.answer_invariants
        if self.published is not None and self.space.rank < own.dimension:
            raise ValueError(
                f"published leaves differences in {self.space.rank} of the {own.dimension} dimensions that the invariants leave free, "
                "and noise in the norm of their hull has no more. Leave out the parts of the table that the published answers "
                "determine (strata without records), or take SemiNorm or SemiGaussian"
            )

    @property
    def sensitivity(self) -> float:
        """The largest K norm of a difference: 1, by definition of K (Proposition 30)."""
        return 1.0

    @cached_property
    def true_sensitivity(self) -> float:
        """The same of the sensitivity space of the definition: up to 2 under the paper's convention."""
        if self.convention == "definition":
            return 1.0
        found = [self._size_of(difference) for difference in self.differences]
        return max(size for size in found if size is not None)  # both margins: 2 x 2 moves and perhaps 3-cycles

    @property
    @abstractmethod
    def hull(self) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.epsilon * size)

    def _size_of(self, difference: Difference) -> float | None:
        hull = self.hull
        example = _example(difference, self.invariants.frame.shape, self.invariants.blocks)
        if example is None or not isinstance(hull, SensitivityHull):
            return None  # other changes of this kind may have another norm
        return float(hull.gauge(self.invariants.coordinates(example)))


def _example(
    difference: Difference, shape: tuple[int, ...], blocks: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64] | None:
    """A change of a kind that all have one norm: among cells of a total, or in a table with both margins."""
    example = np.zeros(shape, dtype=np.int64)
    if difference == DIFFERENCES["substitution"] and blocks is not None:
        block = int(np.argmax(np.bincount(blocks)))
        example.flat[np.flatnonzero(blocks == block)[:2]] = 1, -1
    elif difference == DIFFERENCES["2x2 move"] and len(shape) == 2:
        example[:2, :2] = [[1, -1], [-1, 1]]
    elif difference == DIFFERENCES["3-cycle"] and len(shape) == 2:
        example[:3, :3] = [[1, -1, 0], [0, 1, -1], [-1, 0, 1]]
    else:
        return None
    return example


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
    def law(self) -> SemiKNormLaw | ListedLaw:
        """The law of the noise."""
        if self._known:
            return SemiKNormLaw(self.epsilon, self._records)
        relations = self.answer_invariants
        return ListedLaw(self.epsilon, relations.coordinates(self._listed), relations.coordinate_rule)

    @property
    def hull(self) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        law = self.law
        return law.hull(self.answer_invariants) if isinstance(law, SemiKNormLaw) else law.hull

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where the second moments of K are not computed."""
        moment = self.hull.second_moment
        return None if moment is None else float(np.trace(moment)) / self.epsilon**2

    def sampler(self, method: str = "auto") -> Sampler:
        """How noise is drawn, before any is."""
        return choose_hull_sampler(self.hull, self.answer_invariants, method, self.sweeps)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
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


@dataclass(frozen=True)
class SemiLatticeKNorm(SemiHullMechanism):
    """Publish integer counts with noise in the norm whose unit ball is the hull of all that a few records can change.

    As `SemiKNorm`, on the integer tables that change no invariant: mass proportional to ``exp(-epsilon ||z||_K)``. Always drawn
    exactly, by rejection from l1 noise on the lattice; where that is not practical, `noise`, `release` and `guarantee` say so by a
    `NotImplementedError`, and `SemiLatticeLaplace` does with a Markov chain.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly. They must determine the number of records.
    epsilon : float
        Loss for the tables that are protected.
    adjacency : int, optional
        How many substituted records these may be apart; see `SemiGaussian` for the default.
    convention : {"definition", "paper"}
        ``"paper"``: the space that Proposition 32 prints, with the true epsilon stated in `guarantee`.

    See Also
    --------
    SemiLatticeLaplace : noise of the l1 or l2 norm, for any size.
    bayesdp.noise.LatticeKNorm : the law of the noise.
    bayesdp.distributions.LatticeKNorm : that law as a PyMC distribution.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 2; on integers as in Dharangutte, Gao, Gong
    and Yu (2023), Integer Subspace Differential Privacy.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiLatticeKNorm(Margins(table, ["county"], ["education"]), epsilon=1.0)
    >>> release = mechanism.release([[3, 0, 5], [2, 8, 1], [0, 4, 6]], rng=np.random.default_rng(1))
    >>> release.values.sum("education").values.tolist()
    [8, 11, 10]
    """

    name = "semi-lattice-k-norm"

    @cached_property
    def law(self) -> LatticeKNormLaw:
        """The law of the noise."""
        if self._known:
            return LatticeKNormLaw(self.epsilon, self._records)
        return LatticeKNormLaw(self.epsilon, vertices=self._listed)

    @property
    def hull(self) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return self.law.hull(self.invariants)

    def sampler(self) -> Sampler:
        """How noise is drawn, before any is."""
        return choose_lattice_sampler(self.hull, self.invariants, self.epsilon)

    def _how(self, method: str) -> tuple[SamplerStatement, tuple[Statement, ...]]:
        drawn_exactly(method)
        return EXACT_SAMPLER, (Drawn(self.sampler().words), FLOATING_POINT_CAVEAT)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.int64]:
        self._how(method)  # refuses unknown methods
        generator = np.random.default_rng() if rng is None else rng
        return sample_lattice(self.hull, self.invariants, self.epsilon, generator, size)

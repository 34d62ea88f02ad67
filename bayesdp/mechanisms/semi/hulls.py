"""What the K-norm mechanisms of Semi-DP share: the hull of the sensitivity space, and the losses that it gives."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.hulls import Hull, SensitivityHull, sensitivity_hull
from bayesdp.mechanisms.semi.base import SemiMechanism
from bayesdp.noise.arrays import positive_rate
from bayesdp.privacy import DIFFERENCES, Difference
from bayesdp.privacy.losses import PureDP


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

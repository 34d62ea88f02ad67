"""The containment order of K-norm mechanisms: whether one's ball lies inside the other's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp._validate import finite_array
from bayesdp.hulls.base import Hull

_ROUNDING = 1e-9


@dataclass(frozen=True)
class ContainmentOrder:
    """Definition 8 in numbers. Made by `containment_order`.

    Attributes
    ----------
    first_sensitivity, second_sensitivity : float
        ``Delta_K`` and ``Delta_H``.
    first_in_second : float
        The least r with ``Delta_K K`` inside ``r Delta_H H``.
    second_in_first : float
        The least r with ``Delta_H H`` inside ``r Delta_K K``.
    """

    first_sensitivity: float
    second_sensitivity: float
    first_in_second: float
    second_in_first: float

    @property
    def preferred(self) -> str:
        """``first``, ``second``, ``both`` (the balls are equal) or ``neither`` (none holds the other), to a relative 1e-9."""
        inside, outside = (ratio <= 1.0 + _ROUNDING for ratio in (self.first_in_second, self.second_in_first))
        return {(True, True): "both", (True, False): "first", (False, True): "second", (False, False): "neither"}[
            inside, outside
        ]

    def __str__(self) -> str:
        return (
            f"preferred in the containment order: {self.preferred} (the first ball is inside {self.first_in_second:.6g} times "
            f"the second, the second inside {self.second_in_first:.6g} times the first)"
        )


def containment_order(first: Hull, second: Hull, differences: npt.ArrayLike | None = None) -> ContainmentOrder:
    """Which of two K-norm mechanisms of one epsilon is preferred in the containment order (Definition 8).

    The noise of norm K has density proportional to ``exp(-epsilon / Delta_K ||v||_K)``. It is preferred over that of norm H if
    ``Delta_K K`` lies inside ``Delta_H H``. It is a partial order: often neither ball holds the other. Preferred noise has less
    entropy and is tighter about zero in the sense of Awan and Slavkovic (2021); that its *expected squared error* is less does
    not follow (see the page of corrections, "What optimal means").

    Parameters
    ----------
    first, second : Hull
        Unit balls of the two norms, in the same coordinates.
    differences : array_like, shape (m, n), optional
        The sensitivity space, from which both sensitivities are computed: the largest norm of a difference. Without it both balls
        are taken as they are, ``Delta_K = Delta_H = 1``.

    Returns
    -------
    ContainmentOrder

    Raises
    ------
    TypeError, ValueError
        If a ball is no `Hull`, the dimensions differ, or the differences have another shape or are all zero.

    Notes
    -----
    K lies inside r H just if every vertex of K has a norm of at most r by H.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 8.

    Examples
    --------
    >>> from bayesdp.hulls import SymmetricHull
    >>> diamond, square = SymmetricHull([[1, 0], [0, 1]]), SymmetricHull([[1, 1], [1, -1]])
    >>> print(containment_order(diamond, square))
    preferred in the containment order: first (the first ball is inside 1 times the second, the second inside 2 times the first)
    >>> containment_order(diamond, square, differences=[[1, 1], [1, -1]]).preferred
    'second'
    """
    for hull, name in ((first, "first"), (second, "second")):
        if not isinstance(hull, Hull):
            raise TypeError(f"{name} must be a Hull, got {type(hull).__name__}")
    if first.dimension != second.dimension:
        raise ValueError(
            f"first and second must have one dimension, got {first.dimension} and {second.dimension}; use the same coordinates"
        )
    own, other = 1.0, 1.0
    if differences is not None:
        array = np.asarray(finite_array(differences, "differences"), dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != first.dimension:
            raise ValueError(f"differences must have shape (m, {first.dimension}), got {array.shape}")
        own, other = (float(np.max(hull.gauge(array), initial=0.0)) for hull in (first, second))
        if not own:
            raise ValueError("differences must not all be zero: nothing has to be hidden, and no noise is needed")
    ratio = own / other
    return ContainmentOrder(
        own,
        other,
        ratio * float(np.max(second.gauge(first.vertices))),
        float(np.max(first.gauge(second.vertices))) / ratio,
    )

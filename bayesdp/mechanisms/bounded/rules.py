"""What Liu (2019) does to noisy proportions so that they add up, on arrays of data sets.

Mechanisms of statistics as plain data, and back: one registry for statistics and for proportions.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, finite_array, positive_integer, shown
from bayesdp.noise.bounded.base import plain_bounds

_REGISTRY: dict[str, type[DescribedMechanism]] = {}


class DescribedMechanism(ABC):
    """A dataclass whose fields are its parameters, and which files know by its ``name``."""

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data: ``{"mechanism": name, "epsilon": ..., ...}``."""
        description: dict[str, Any] = {"mechanism": self.name}
        for item in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, item.name)
            if item.name == "bounds":
                value = plain_bounds(value)
            if value is not None:
                description[item.name] = list(value) if isinstance(value, tuple) else value
        return description

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """Rebuild a mechanism from `describe`.

        Raises
        ------
        TypeError, ValueError
            If the name is not registered or is that of another mechanism, a key is unknown or missing, or a value is not
            valid.
        """
        given: Any = description
        name = given.get("mechanism") if isinstance(given, Mapping) else None
        if not isinstance(name, str) or name not in _REGISTRY:
            known = ", ".join(sorted(own for own, kind in _REGISTRY.items() if issubclass(kind, cls)))
            raise ValueError(
                f"a mechanism for statistics is described by a mapping with 'mechanism', one of {known}, got {description!r}"
            )
        found = _REGISTRY[name]
        if not issubclass(found, cls):
            wanted = repr(cls.name) if hasattr(cls, "name") else f"a {cls.__name__}"
            raise ValueError(f"the description is of the mechanism {found.name!r}, not of {wanted}")
        parameters = {key: value for key, value in given.items() if key != "mechanism"}
        own = fields(found)  # type: ignore[arg-type]
        odd = [key for key in parameters if key not in [item.name for item in own]]
        missing = [item.name for item in own if item.default is MISSING and item.name not in parameters]
        if odd or missing:
            raise ValueError(
                f"mechanism {found.name!r} has no parameter {shown(odd)}; it has {', '.join(item.name for item in own)}"
                if odd
                else f"mechanism {found.name!r} lacks {shown(missing)}"
            )
        return found(**parameters)

    # Parameters may be arrays, which dataclasses cannot compare or hash; the description can do both.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescribedMechanism) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))


type Floats = npt.NDArray[np.float64]

OUTSIDE = ("keep", "clip")
"""What to do with a last share outside its bounds: publish it as it is, or move all shares onto the simplex."""


def rescale(noisy: npt.ArrayLike) -> Floats:
    """Divide noisy proportions by their sum; where all are zero, which clipping can give, all shares are equal.

    This is post-processing and costs nothing, the rule for zeros included: it does not look at the data. Drawing again
    until one is positive would be conditioning on the data having led there, which changes the law and epsilon.

    Parameters
    ----------
    noisy : array_like, shape (..., categories)
        At least 0.

    Returns
    -------
    numpy.ndarray, shape (..., categories)
        Shares that add up to 1.

    Raises
    ------
    ValueError
        If a value is negative or not finite, or there are fewer than two categories.

    References
    ----------
    Liu (2019), Section 4.2, the first approach.

    Examples
    --------
    >>> rescale([[0.3, 0.3, 0.0], [0.0, 0.0, 0.0]]).round(3).tolist()
    [[0.5, 0.5, 0.0], [0.333, 0.333, 0.333]]
    """
    array = _vectors(noisy, "noisy", 2)
    if np.any(array < 0.0):
        raise ValueError(f"noisy must be at least 0 to be divided by its sum, got {array[array < 0.0][0]!r}")
    total = array.sum(axis=-1, keepdims=True)
    return np.where(total > 0.0, array / np.where(total > 0.0, total, 1.0), 1.0 / array.shape[-1])


def all_but_one(noisy: npt.ArrayLike, position: int = -1, outside: str = "keep") -> Floats:
    """Complete all noisy proportions but one by what is missing to 1, which can be negative.

    Both rules are post-processing and cost nothing. Drawing again until the last one is not negative would condition
    on that, which changes the law and epsilon: no function here does it.

    Parameters
    ----------
    noisy : array_like, shape (..., categories - 1)
    position : int
        Where the missing share stands among all.
    outside : {"keep", "clip"}
        A negative share is published as it is, or set to 0 and the others divided by their sum.

    Returns
    -------
    numpy.ndarray, shape (..., categories)

    Raises
    ------
    ValueError
        If a value is not finite, or the position or rule is not valid.

    References
    ----------
    Liu (2019), Section 4.2, the second approach.

    Examples
    --------
    >>> all_but_one([0.5, 0.75]).tolist(), all_but_one([0.5, 0.75], 0, "clip").tolist()
    ([0.5, 0.75, -0.25], [0.0, 0.4, 0.6])
    """
    array = _vectors(noisy, "noisy", 1)
    choice(outside, OUTSIDE, "outside")
    size = array.shape[-1] + 1
    if not -size <= position < size:
        raise ValueError(f"position must be one of the {size} categories, got {position!r}")
    last = 1.0 - array.sum(axis=-1)
    full = np.insert(array, position % size, last, axis=-1)
    if outside == "keep":
        return full
    # Of the others, at least one is positive where the last is negative, so the sum is at least 1.
    inner = np.clip(full, 0.0, None)
    return np.asarray(inner / inner.sum(axis=-1, keepdims=True))


def tree_levels(categories: int, branches: int = 2) -> int:
    """How many levels there are under the root of a full tree whose leaves are the categories.

    Raises
    ------
    ValueError
        If the categories are no power of the branches.

    Examples
    --------
    >>> tree_levels(4), tree_levels(27, 3)
    (2, 3)
    """
    leaves, each = positive_integer(categories, "categories"), positive_integer(branches, "branches")
    if each < 2:
        raise ValueError(f"branches must be at least 2, got {branches!r}")
    levels, size = 0, 1
    while size < leaves:
        size, levels = size * each, levels + 1
    if size != leaves or levels == 0:
        raise ValueError(
            f"a universal histogram with {each} branches has {each}, {each**2}, {each**3}, ... categories, got {leaves}; add "
            "categories that are known to be empty, or take another number of branches"
        )
    return levels


def tree_sums(leaves: npt.ArrayLike, branches: int = 2) -> Floats:
    """All nodes under the root of the tree of sums, level by level from the top, the leaves last.

    Parameters
    ----------
    leaves : array_like, shape (..., categories)
    branches : int
        Children of each node.

    Returns
    -------
    numpy.ndarray, shape (..., nodes)

    Examples
    --------
    >>> tree_sums([1.0, 2.0, 3.0, 4.0]).tolist()
    [3.0, 7.0, 1.0, 2.0, 3.0, 4.0]
    """
    array = _vectors(leaves, "leaves", 2)
    parts = [array]
    for _ in range(tree_levels(array.shape[-1], branches) - 1):
        parts.insert(0, parts[0].reshape(*array.shape[:-1], -1, branches).sum(axis=-1))
    return np.concatenate(parts, axis=-1)


def consistent_tree(nodes: npt.ArrayLike, branches: int = 2, *, total: float = 1.0, nonnegative: bool = True) -> Floats:
    """Least-squares tree of sums with a known total, from equally noisy nodes; then no node below 0.

    The pass upwards weights a node with ``(k^l - k^(l-1)) / (k^l - 1)`` and the sum of its children with ``(k^(l-1) - 1) /
    (k^l - 1)``, for k branches and l levels from the leaves (1); the pass downwards shares what is missing equally. A
    negative node is set to 0 and its siblings scaled to their parent, from the top, so that every level adds up.

    Parameters
    ----------
    nodes : array_like, shape (..., nodes)
        In the order of `tree_sums`.
    branches : int
    total : float
        The root, known.
    nonnegative : bool
        False for the least-squares solution as it is.

    Returns
    -------
    numpy.ndarray, shape (..., nodes)
        The leaves are the last ``categories``.

    Raises
    ------
    ValueError
        If there are not as many nodes as in a full tree.

    References
    ----------
    Hay, Rastogi, Miklau and Suciu (2010), Boosting the accuracy of differentially private histograms through consistency,
    Theorem 3; Liu (2019), Section 4.2, steps 3 to 5 and footnote 3.

    Examples
    --------
    >>> consistent_tree([0.4, 0.7, 0.1, 0.2, 0.3, 0.4]).round(4).tolist()
    [0.3333, 0.6667, 0.1167, 0.2167, 0.2833, 0.3833]
    """
    array = _vectors(nodes, "nodes", 2)
    k = positive_integer(branches, "branches")
    lead, levels, size, filled = array.shape[:-1], [], k, 0
    while k >= 2 and filled < array.shape[-1]:
        levels.append(array[..., filled : filled + size])
        filled, size = filled + size, size * k
    if filled != array.shape[-1] or levels[-1].shape[-1] * k != size:
        raise ValueError(f"nodes must be all of a full tree with {k} branches under the root, got {array.shape[-1]}")
    upward = [levels[-1]]
    for height, level in enumerate(reversed(levels[:-1]), start=2):
        own, below = k**height - k ** (height - 1), k ** (height - 1) - 1
        sums = upward[0].reshape(*lead, -1, k).sum(axis=-1)
        upward.insert(0, (own * level + below * sums) / (k**height - 1))
    parent, done = np.full((*lead, 1), float(total)), []
    for level in upward:
        family = level.reshape(*lead, -1, k)
        family = family + (parent[..., None] - family.sum(axis=-1, keepdims=True)) / k
        if nonnegative:
            inner = np.clip(family, 0.0, None)
            sums = inner.sum(axis=-1, keepdims=True)
            family = np.where(sums > 0.0, inner * (parent[..., None] / np.where(sums > 0.0, sums, 1.0)), 0.0)
        parent = family.reshape(*lead, -1)
        done.append(parent)
    return np.concatenate(done, axis=-1)


def _vectors(values: Any, argument: str, least: int) -> Floats:
    array = np.asarray(finite_array(values, argument), dtype=np.float64)
    if array.ndim < 1 or array.shape[-1] < least:
        raise ValueError(
            f"{argument} must have {least} entries or more along the last axis, got an array of shape {array.shape}"
        )
    return array

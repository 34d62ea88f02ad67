"""Proportions that add up to 1: rescaled, all but one, or a tree of sums, each with its exact likelihood (Liu 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import choice
from bayesdp.mechanisms.bounded.laplace_statistics import LaplaceStatistics
from bayesdp.mechanisms.bounded.proportion_base import ProportionMechanism
from bayesdp.mechanisms.bounded.rules import OUTSIDE, all_but_one, consistent_tree, rescale, tree_levels
from bayesdp.noise.bounded.rescaled_laplace import RescaledLaplace
from bayesdp.privacy import proportion_sensitivity
from bayesdp.privacy.caveats import Fixed
from bayesdp.queries import Identity, LinearQuery, Query

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RescaledProportions(ProportionMechanism):
    """Publish noisy proportions divided by their sum, and nothing else.

    Where clipping makes them all 0, equal shares are published: a rule that does not look at the data, and costs nothing.
    Drawing again instead would condition on not having been there, whose probability depends on the data: the
    stated epsilon would no longer hold.

    Parameters
    ----------
    epsilon : float
        Loss for data sets of which one record is in another category.
    n : int
        Public number of records.
    names : sequence of str
        Names of the categories.
    rule : {"boundary-inflated", "truncated"}
        How noisy proportions are kept between 0 and 1.
    convention : {"exact", "paper"}
        ``"paper"`` takes the scale ``1 / (n epsilon)``; the guarantee states the true epsilon.

    See Also
    --------
    bayesdp.noise.RescaledLaplace : the law of the shares.

    References
    ----------
    Liu (2019), Section 4.2, the first approach.

    Examples
    --------
    >>> mechanism = RescaledProportions(1.0, 50, ["a", "b", "c"])
    >>> release = mechanism.release([10, 15, 25], rng=np.random.default_rng(1))
    >>> print(f"{release.shares.sum():.6f} {mechanism.true_epsilon}")
    1.000000 1.0
    >>> mechanism.log_likelihood(release, [[10, 15, 25], [25, 15, 10]]).round(2).tolist()
    [4.03, -9.64]
    """

    name = "rescaled-proportions"
    _SHARES_ONLY = True
    _STATED = Fixed("shares rescaled")

    @cached_property
    def noise(self) -> LaplaceStatistics:
        """The mechanism that publishes the noisy values, before they are made to add up."""
        return self._noise(sensitivity=proportion_sensitivity(self.n, len(self.names)), names=self.names)

    @property
    def law(self) -> RescaledLaplace:
        """The law of the shares."""
        return RescaledLaplace(self.noise.scale, self.rule)

    @property
    def query(self) -> Query:
        """Each proportion."""
        return Identity(self._frame)

    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """See `bayesdp.mechanisms.bounded.rules.rescale`."""
        return rescale(noisy)

    def _log_density(self, values: Floats, location: Floats) -> Floats:
        """On the face of the simplex that the shares are on; see `bayesdp.noise.RescaledLaplace`."""
        return self.law.log_density(values, location)


@dataclass(frozen=True, eq=False)
class AllButOne(ProportionMechanism):
    """Publish noisy proportions of all categories but one, and what is missing to 1 for that one.

    The missing share leaves its bounds where the others add up to more than 1. With ``outside="keep"`` it is published as
    it is, negative; ``"clip"`` publishes 0, and the others divided by their sum, beside the noisy values. Both are
    post-processing. Drawing again until it is inside would condition on that: the probability depends on the data, so that
    the law has another normaliser, and the stated epsilon no longer holds. It is not offered.

    Parameters
    ----------
    epsilon, n, names, rule, convention
        As for `RescaledProportions`.
    last : str, optional
        The category that gets no noise of its own; the last one by default.
    outside : {"keep", "clip"}
        What is published where its share is outside its bounds.

    References
    ----------
    Liu (2019), Section 4.2, the second approach, and Remark 1.

    Examples
    --------
    >>> mechanism = AllButOne(1.0, 50, ["a", "b", "c"], last="a")
    >>> release = mechanism.release([10, 15, 25], rng=np.random.default_rng(1))
    >>> release.noisy.names
    ('b', 'c')
    >>> mechanism.log_likelihood(release, [10, 15, 25]).shape
    ()
    """

    last: str | None = field(default=None, kw_only=True)
    outside: str = field(default="keep", kw_only=True)

    name = "all-but-one"
    _STATED = Fixed("shares but one")

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.outside, OUTSIDE, "outside")
        object.__setattr__(self, "last", self.names[-1] if self.last is None else choice(self.last, self.names, "last"))

    @property
    def _place(self) -> int:
        return int(self.names.index(self.last))

    @cached_property
    def noise(self) -> LaplaceStatistics:
        """The mechanism that publishes the noisy values, before they are made to add up."""
        # With two categories one proportion is published, and neighbours are 1/n apart.
        return self._noise(sensitivity=proportion_sensitivity(self.n, self.query.rows), names=self.query.names)

    @cached_property
    def query(self) -> Query:
        """The proportions of all categories but one."""
        others = [i for i in range(len(self.names)) if i != self._place]
        picked = sp.coo_array((np.ones(len(others), int), (range(len(others)), others)), (len(others), len(self.names)))
        return LinearQuery(self._frame, picked, [self.names[i] for i in others])

    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """See `bayesdp.mechanisms.bounded.rules.all_but_one`."""
        return all_but_one(noisy, self._place, self.outside)


@dataclass(frozen=True, eq=False)
class UniversalHistogram(ProportionMechanism):
    """Publish a tree of noisy sums of proportions, made consistent by least squares.

    One record counts once in each level of the tree, so that the scale of the noise is that of `RescaledProportions` times
    the number of levels. The release has the noisy sums, and inference conditions on them: the consistent tree is a function
    of them that forgets something.

    Parameters
    ----------
    epsilon, n, names, rule, convention
        As for `RescaledProportions`; the number of categories is a power of the branches.
    branches : int
        Children of each node.

    References
    ----------
    Hay, Rastogi, Miklau and Suciu (2010); Liu (2019), Section 4.2, the third approach.

    Examples
    --------
    >>> mechanism = UniversalHistogram(1.0, 50, ["a", "b", "c", "d"])
    >>> mechanism.noise.names
    ('a + b', 'c + d', 'a', 'b', 'c', 'd')
    >>> mechanism.noise.scale
    0.08
    >>> release = mechanism.release([5, 10, 15, 20], rng=np.random.default_rng(1))
    >>> print(f"{release.shares.sum():.6f}")
    1.000000
    """

    branches: int = field(default=2, kw_only=True)

    name = "universal-histogram"
    _STATED = Fixed("shares of a histogram")

    def __post_init__(self) -> None:
        super().__post_init__()
        tree_levels(len(self.names), self.branches)

    @cached_property
    def noise(self) -> LaplaceStatistics:
        """The mechanism that publishes the noisy values, before they are made to add up."""
        levels = tree_levels(len(self.names), self.branches)
        one = proportion_sensitivity(self.n, len(self.names))
        return self._noise(
            sensitivity=levels * one.l1,
            largest=one.largest,
            changed=2 * levels,
            paper_sensitivity=levels * one.paper_l1,
            names=self.query.names,
        )

    @cached_property
    def query(self) -> Query:
        """The sums in all nodes under the root; see `bayesdp.mechanisms.bounded.rules.tree_sums`."""
        k, levels = len(self.names), tree_levels(len(self.names), self.branches)
        nodes: list[str] = []
        rows: list[int] = []
        for depth in range(1, levels + 1):
            size = self.branches ** (levels - depth)
            for group in (self.names[i : i + size] for i in range(0, k, size)):
                rows += [len(nodes)] * size
                nodes.append(" + ".join(group) if size <= 4 else f"{group[0]} to {group[-1]}")
        leaves = np.tile(np.arange(k), levels)
        return LinearQuery(self._frame, sp.coo_array((np.ones(len(rows), int), (rows, leaves)), (len(nodes), k)), nodes)

    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """The leaves of the consistent tree; see `bayesdp.mechanisms.bounded.rules.consistent_tree`."""
        return consistent_tree(noisy, self.branches)[..., -len(self.names) :]

"""Proportions that add up to 1: rescaled, all but one, or a tree of sums, each with its exact likelihood (Liu 2019).

What the mechanisms for proportions that add up to 1 share: parameters, noise, releases, likelihoods of counts.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import (
    Seed,
    choice,
    exact_total,
    finite_array,
    integer_array,
    positive_integer,
    positive_real,
    shown,
)
from bayesdp.frames import Frame
from bayesdp.mechanisms.bounded.real import CONVENTIONS, BoundaryInflatedLaplace, LaplaceStatistics, TruncatedLaplace
from bayesdp.mechanisms.bounded.rules import (
    OUTSIDE,
    DescribedMechanism,
    all_but_one,
    consistent_tree,
    rescale,
    tree_levels,
)
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease, checked_names
from bayesdp.noise import NoiseLaw
from bayesdp.noise.bounded.rescaled_laplace import RULES, RescaledLaplace
from bayesdp.privacy import StatisticGuarantee, proportion_sensitivity
from bayesdp.privacy.caveats import Fixed
from bayesdp.queries import Identity, LinearQuery, Query
from bayesdp.release import Measured, Release

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ProportionRelease(Release):
    """A `Release` of proportions that add up to 1: the shares, or the noisy values that they are made of, with their law.

    `bayesdp.observe` takes it together with the confidential proportions of the records, such as ``counts / n``, written as a
    function of the parameters of your model. Its frame has the categories, and its measurement is what was published: the shares
    themselves (`RescaledProportions`), or noisy proportions or sums of them, from which everybody can make the shares. There is no
    confidential value, no seed and no state of a generator in it.

    Parameters
    ----------
    shares : array_like, shape (categories,)
        They add up to 1.
    names : sequence of str
        Names of the categories.
    noisy : StatisticRelease, optional
        The noisy values with their law, on which inference conditions; None where only the shares are published.
    mechanism : mapping
        Description of the mechanism, from which the law follows, and how shares are made of noisy values. Proportions with a
        law of your own are a `Release`.
    guarantee : StatisticGuarantee, optional
    simulated : bool
        Whether the noise came from a generator whose seed somebody may know.

    Raises
    ------
    ValueError
        If shares do not add up to 1 (to 1e-9), or there are not as many names; if they are not those of the noisy values, or the
        mechanism is unknown, or what it or the guarantee says contradicts the law. The message names both sides.
    NotImplementedError
        If the mechanism publishes noisy values and these are missing.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> from bayesdp.mechanisms import AllButOne
    >>> release = AllButOne(1.0, 50, ["rents", "owns", "other"]).release([10, 15, 25], rng=1)
    >>> import pymc as pm
    >>> with pm.Model(coords=release.coords) as model:
    ...     counts = pm.DirichletMultinomial("counts", 50, np.ones(3), dims="category")
    ...     bdp.observe(release, counts / 50)
    >>> [variable.name for variable in model.observed_RVs]
    ['noisy']
    """

    def __init__(
        self,
        shares: Any = None,
        names: Any = None,
        noisy: StatisticRelease | None = None,
        mechanism: Mapping[str, Any] | None = None,
        guarantee: StatisticGuarantee | None = None,
        simulated: bool = False,
        **fields: Any,
    ) -> None:
        stated = None if shares is None and fields else _adding_up(shares)
        # `dataclasses.replace` gives the fields of a Release in place of shares, names and noisy values.
        if set(fields) == {"frame", "measurements", "exact", "about"}:
            super().__init__(mechanism=mechanism, guarantee=guarantee, simulated=simulated, **fields)
        elif fields:
            raise TypeError(
                f"ProportionRelease takes shares, names, noisy, mechanism, guarantee and simulated, not {shown(fields)}"
            )
        else:
            source = _source(mechanism)
            measured = source._measured(_published(source, stated, names, noisy, simulated))
            super().__init__(measured.query.frame, (measured,), (), mechanism, guarantee, simulated, "statistics")
        self.check_stated()
        if stated is not None and not np.allclose(self.shares, stated, rtol=0.0, atol=1e-9):
            raise ValueError(
                f"shares are {stated.tolist()!r}, but the mechanism {self._source.name!r} makes {self.shares.tolist()!r} of the "
                "noisy values"
            )

    @property
    def _source(self) -> ProportionMechanism:
        return _source(self.mechanism)

    @property
    def shares(self) -> Floats:
        """The shares, which add up to 1, shape (categories,): read-only."""
        found = self._source._shares_of(self)
        found.flags.writeable = False
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories."""
        return tuple(map(str, self.frame.labels[0]))

    @property
    def noisy(self) -> StatisticRelease | None:
        """The noisy values that the shares are made of, as a release of their own; None where only the shares are published."""
        source, own, known = self._source, self.measurements[0], self.guarantee
        if source._SHARES_ONLY:
            return None
        if known is not None:
            known = replace(known, caveats=tuple(caveat for caveat in known.caveats if caveat != source._STATED))
        law: Any = own.law
        noise = source.noise
        return StatisticRelease(own.values, law, noise.names, noise.describe(), cast(Any, known), self.simulated)

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str], *, max_cells: int | None = None) -> ProportionRelease:
        """Read a release from a netCDF-4 file written by `to_netcdf`; see `bayesdp.Release.from_netcdf`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is damaged, of a newer version, or no release of proportions.
        """
        own = Release.from_netcdf(path, max_cells=max_cells)
        try:
            _source(own.mechanism)
        except ValueError:
            raise ValueError(
                f"{str(path)!r} holds no release of proportions; for others there is Release.from_netcdf"
            ) from None
        parts: dict[str, Any] = own.__getstate__()
        return cls(**parts)


def _source(description: Any) -> ProportionMechanism:
    try:
        return ProportionMechanism.from_description(description)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"mechanism: {error}") from None


def _adding_up(shares: Any) -> Floats:
    array = np.asarray(finite_array(shares, "shares"), dtype=np.float64)
    if array.ndim != 1 or array.size < 2:
        raise ValueError(f"shares must be a vector of two or more, got an array of shape {array.shape}")
    if abs(float(array.sum()) - 1.0) > 1e-9:
        raise ValueError(f"shares must add up to 1, got {float(array.sum())!r}")
    return array


def _published(source: ProportionMechanism, shares: Any, names: Any, noisy: Any, simulated: bool) -> Any:
    """What was published, of the arguments of a `ProportionRelease`: the shares, or the noisy values."""
    listed = checked_names(names, np.shape(shares))
    if listed != source.names:
        raise ValueError(
            f"the mechanism {source.name!r} has the categories {shown(source.names)}, but names are {shown(listed or ())}"
        )
    if source._SHARES_ONLY:
        if noisy is not None:
            raise ValueError(f"the mechanism {source.name!r} publishes shares only, but noisy values are given")
        return shares
    if noisy is None:
        raise NotImplementedError(
            f"the law of the shares of {source.name!r} alone is not known here: they are published with the noisy values "
            "they come from, and this release has none"
        )
    if not isinstance(noisy, StatisticRelease):
        raise TypeError(f"noisy must be a StatisticRelease, got {noisy!r}")
    if noisy.simulated != simulated:
        raise ValueError(
            f"simulated of the release is {simulated}, but simulated of its noisy values is {noisy.simulated}"
        )
    if noisy.names != source.noise.names or noisy.law != source.law:
        raise ValueError(
            f"the mechanism {source.name!r} publishes {shown(source.noise.names or ())} under the law {source.law}, but noisy "
            f"values are {shown(noisy.names or ())} under {noisy.law}"
        )
    return noisy.values


@dataclass(frozen=True, eq=False)
class ProportionMechanism(DescribedMechanism):
    """Publish the proportions of n records in disjoint categories; see the subclasses."""

    epsilon: float
    n: int
    names: Any
    rule: str = field(default="boundary-inflated", kw_only=True)
    convention: str = field(default="exact", kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "epsilon", positive_real(self.epsilon, "epsilon"))
        put(self, "n", positive_integer(self.n, "n"))
        choice(self.rule, RULES, "rule")
        choice(self.convention, CONVENTIONS, "convention")
        if isinstance(self.names, str) or not hasattr(self.names, "__len__") or len(self.names) < 2:
            raise ValueError(f"names must be those of two categories or more, got {self.names!r}")
        put(self, "names", checked_names(self.names, (len(self.names),)))

    @property
    @abstractmethod
    def noise(self) -> LaplaceStatistics:
        """The mechanism that publishes the noisy values, before they are made to add up."""

    @property
    @abstractmethod
    def query(self) -> Query:
        """What is measured of the proportions: each, all but one, or sums of them."""

    @property
    def law(self) -> NoiseLaw:
        """The law of what is published."""
        return self.noise.law

    def statistics(self, counts: npt.ArrayLike) -> Floats:
        """The values that noise is put on, for counts of shape (..., categories)."""
        table = np.asarray(finite_array(counts, "counts", confidential=True), dtype=np.float64)
        if table.ndim < 1 or table.shape[-1] != len(self.names):
            raise ValueError(f"counts must have {len(self.names)} categories last, got shape {table.shape}")
        return np.asarray(self.query.apply(table) / self.n)

    @abstractmethod
    def shares(self, noisy: npt.ArrayLike) -> Floats:
        """Shares that add up to 1, from noisy values along the last axis: post-processing."""

    def log_likelihood(self, release: Release, counts: npt.ArrayLike) -> Floats:
        """Log-density of what was published given counts: of the shares, or of the noisy values that they are made of.

        Parameters
        ----------
        release : ProportionRelease or Release
            Of this mechanism.
        counts : array_like, shape (..., categories)
            Confidential counts of n records.

        Returns
        -------
        numpy.ndarray, shape (...)
        """
        values = np.asarray(self._checked(release).values, dtype=np.float64)
        return self._log_density(values, self.statistics(counts))

    _SHARES_ONLY: ClassVar[bool] = False
    _STATED: ClassVar[Fixed]

    @property
    def _frame(self) -> Frame:
        return Frame.of({"category": list(self.names)})

    def _noise(self, **parameters: Any) -> LaplaceStatistics:
        kind = TruncatedLaplace if self.rule == "truncated" else BoundaryInflatedLaplace
        return kind(self.epsilon, bounds=(0.0, 1.0), convention=self.convention, **parameters)

    @property
    def true_epsilon(self) -> float:
        """What a release costs: that of the noise, which making the values add up does not change."""
        return self.noise.true_epsilon

    @property
    def guarantee(self) -> StatisticGuarantee:
        """What the mechanism protects, in words and numbers, and with what reservations."""
        return self._extended(self.noise.guarantee)

    def _extended(self, stated: StatisticGuarantee) -> StatisticGuarantee:
        return replace(stated, caveats=(*stated.caveats, self._STATED))

    def release(self, counts: npt.ArrayLike, rng: Seed = None) -> ProportionRelease:
        """Publish shares of confidential counts.

        Parameters
        ----------
        counts : array_like of int, shape (categories,)
            They add up to n.
        rng : int, numpy.random.Generator or None
            Without one, a generator as in `TruncatedLaplace.release`: do that to publish. With one the release is marked as simulated.

        Returns
        -------
        ProportionRelease

        Raises
        ------
        ValueError
            If a count is negative or not whole, or they do not add up to n.
        """
        table = integer_array(counts, "counts", lambda i: str(self.names[i % len(self.names)]), confidential=True)
        if table.shape != (len(self.names),):
            raise ValueError(f"counts must be one for each of {len(self.names)} categories, got shape {table.shape}")
        if np.any(table < 0):
            raise ValueError(f"counts must be at least 0, but that of {self.names[int(table.argmin())]} is not")
        if exact_total(table) != self.n:
            raise ValueError(f"counts must add up to the public n = {self.n}, but they do not")
        noisy = self.noise.release(self.statistics(table), rng)
        if not isinstance(noisy.guarantee, StatisticGuarantee):
            raise RuntimeError("a release of a mechanism of statistics has a guarantee of them")
        return ProportionRelease(
            self.shares(noisy.values),
            self.names,
            None if self._SHARES_ONLY else noisy,
            self.describe(),
            self._extended(noisy.guarantee),
            noisy.simulated,
        )

    def _measured(self, published: Any) -> Measured:
        return Measured(self.query, np.asarray(published, dtype=np.float64), self.law)

    def _shares_of(self, release: Release) -> Floats:
        """Shares of what a release of this mechanism has."""
        published = np.array(self._checked(release).values, dtype=np.float64)
        return published if self._SHARES_ONLY else self.shares(published)

    def _log_density(self, values: Floats, location: Floats) -> Floats:
        law: Any = self.law
        return np.asarray(law.log_each(np.broadcast_to(values, location.shape), location).sum(axis=-1))

    def _checked(self, release: Any) -> Measured:
        """The measurement of a release of this mechanism."""
        if not isinstance(release, Release):
            raise TypeError(f"release must be a ProportionRelease, or another Release, got {release!r}")
        if release.mechanism is None:
            alike = [own.query == self.query and own.law == self.law for own in release.measurements] == [True]
        else:
            alike = release.mechanism == self.describe() and len(release.measurements) == 1
        if not alike:
            raise ValueError(
                f"release must come from this mechanism, {self.describe()!r}, got one of {release.mechanism!r}"
            )
        release.check_stated()
        return release.measurements[0]


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

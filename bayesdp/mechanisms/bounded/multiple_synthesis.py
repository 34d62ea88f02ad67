"""Several releases about the same records, each with a share of the budget, and what they say together (Liu 2019).

The intervals that Liu (2019) takes from noisy proportions, of one release and of several, on arrays of data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp._validate import Seed, finite_array, positive_integer, probability, random_generator
from bayesdp.mechanisms.bounded.proportions import ProportionMechanism, ProportionRelease
from bayesdp.privacy import split_budget
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]


def proportion_interval(shares: npt.ArrayLike, n: int, level: float = 0.95) -> tuple[Floats, Floats]:
    """The interval ``share -+ z sqrt(share (1 - share) / n)``, which takes noisy shares for those of the data.

    It leaves out the noise: this is why the intervals of Liu (2019) cover too little. A share outside 0 to 1 counts as the
    nearer of the two in the width.

    Parameters
    ----------
    shares : array_like
    n : int
        Number of records.
    level : float
        Nominal coverage.

    Returns
    -------
    tuple of numpy.ndarray
        Lower and upper ends; they can lie outside 0 to 1.

    Examples
    --------
    >>> low, high = proportion_interval(0.5, 100)
    >>> print(f"{low:.3f} {high:.3f}")
    0.402 0.598
    """
    centre = np.asarray(finite_array(shares, "shares"), dtype=np.float64)
    inner = np.clip(centre, 0.0, 1.0)
    half = stats.norm.isf(0.5 - 0.5 * probability(level, "level")) * np.sqrt(
        inner * (1 - inner) / positive_integer(n, "n")
    )
    return centre - half, centre + half


def combine_syntheses(
    estimates: npt.ArrayLike, variances: npt.ArrayLike, level: float = 0.95
) -> tuple[Floats, Floats, Floats]:
    """Combine m releases about the same records: mean, and a t interval of variance W + B/m.

    W is the mean of the variances that each release would have without noise, B the variance between the m estimates; the
    degrees of freedom are ``(m - 1)(1 + m W / B)^2``. B/m measures the noise, but no bias.

    Parameters
    ----------
    estimates, variances : array_like, shape (m, ...)
        One estimate and its variance for each release, m at least 2.
    level : float
        Nominal coverage.

    Returns
    -------
    tuple of numpy.ndarray, shape (...)
        Estimate, lower and upper ends.

    Raises
    ------
    ValueError
        If there are fewer than two releases, or a variance is negative.

    References
    ----------
    Liu (2016), Model-based differentially private data synthesis; Reiter (2003), for partially synthetic data.

    Examples
    --------
    >>> centre, low, high = combine_syntheses([0.2, 0.3, 0.25], [0.002, 0.002, 0.002])
    >>> print(f"{centre:.3f} {low:.3f} {high:.3f}")
    0.250 0.140 0.360
    """
    each = np.asarray(finite_array(estimates, "estimates"), dtype=np.float64)
    own = np.asarray(finite_array(variances, "variances"), dtype=np.float64)
    if each.ndim < 1 or each.shape[0] < 2:
        raise ValueError(f"estimates must hold two releases or more along the first axis, got shape {each.shape}")
    if own.shape != each.shape:
        raise ValueError(f"variances must have the shape of estimates, {each.shape}, got {own.shape}")
    if np.any(own < 0.0):
        raise ValueError(f"variances must be at least 0, got {own[own < 0.0][0]!r}")
    m = each.shape[0]
    between, within = each.var(axis=0, ddof=1), own.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(between > 0.0, (m - 1) * (1.0 + m * within / between) ** 2, math.inf)
    size = stats.t.isf(0.5 - 0.5 * probability(level, "level"), freedom)
    half = size * np.sqrt(within + between / m)
    return each.mean(axis=0), each.mean(axis=0) - half, each.mean(axis=0) + half


@dataclass(frozen=True)
class MultipleSynthesis:
    """Publish proportions several times; the losses add up.

    Each release has its share of the budget, and so more noise. `combine` is the rule of the paper; the Bayesian
    answer conditions on all releases: `log_likelihood` is the sum of theirs.

    Parameters
    ----------
    mechanisms : sequence of ProportionMechanism
        Two or more, of the same records and categories.

    Raises
    ------
    TypeError, ValueError
        If they are fewer, no mechanisms for proportions, or of other records.

    References
    ----------
    Liu (2019), Section 4.2, multiple synthesis.

    Examples
    --------
    >>> from bayesdp.mechanisms.bounded.proportions import RescaledProportions
    >>> several = MultipleSynthesis.split(RescaledProportions, 1.0, 200, ["a", "b", "c"], parts=5)
    >>> print(f"{several.mechanisms[0].epsilon:.2f} {several.true_epsilon:.6f}")
    0.20 1.000000
    >>> releases = several.release([40, 60, 100], rng=np.random.default_rng(1))
    >>> estimate, low, high = several.combine(releases)
    >>> bool(np.all((low < estimate) & (estimate < high)))
    True
    """

    mechanisms: tuple[ProportionMechanism, ...]

    def __post_init__(self) -> None:
        given: Any = self.mechanisms
        if not isinstance(given, Sequence) or not all(isinstance(own, ProportionMechanism) for own in given):
            raise TypeError(f"mechanisms must be a sequence of mechanisms for proportions, got {given!r}")
        own = tuple(given)
        if len(own) < 2:
            raise ValueError(f"mechanisms must be two or more, got {len(own)}")
        for other in own[1:]:
            if (other.n, other.names) != (own[0].n, own[0].names):
                raise ValueError(
                    f"mechanisms must be for the same records and categories, got n = {own[0].n} of {list(own[0].names)} and "
                    f"n = {other.n} of {list(other.names)}"
                )
        object.__setattr__(self, "mechanisms", own)

    @classmethod
    def split(
        cls,
        kind: type[ProportionMechanism],
        epsilon: float,
        n: int,
        names: Sequence[str],
        *,
        parts: int | Sequence[float] = 5,
        **parameters: Any,
    ) -> Self:
        """Make mechanisms of one kind that share a budget.

        Parameters
        ----------
        kind : type
            `RescaledProportions`, `AllButOne` or `UniversalHistogram`.
        epsilon : float
            The whole budget.
        n, names
            As for the mechanism.
        parts : int or sequence of float
            Number of equal parts, or the parts, which must add up to epsilon.
        **parameters
            Of the mechanism.

        Raises
        ------
        ValueError
            If the parts do not add up to epsilon.
        """
        return cls(tuple(kind(part, n, names, **parameters) for part in split_budget(epsilon, parts)))

    @property
    def true_epsilon(self) -> float:
        """What all releases cost together."""
        return math.fsum(own.true_epsilon for own in self.mechanisms)

    def release(self, counts: npt.ArrayLike, rng: Seed = None) -> tuple[ProportionRelease, ...]:
        """Publish all; see `RescaledProportions.release`. The guarantee of each is that of one release."""
        generator = random_generator(rng)  # once: each release goes on where the last one stopped
        return tuple(own.release(counts, generator) for own in self.mechanisms)

    def combine(self, releases: Sequence[Release], level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """Estimate and t interval of every proportion, by `bayesdp.mechanisms.bounded.multiple_synthesis.combine_syntheses`.

        Returns
        -------
        tuple of numpy.ndarray, shape (categories,)
            Estimate, lower and upper ends.
        """
        matched = self._matched(releases)
        shares = np.stack([own._shares_of(release) for own, release in zip(self.mechanisms, matched, strict=True)])
        inner = np.clip(shares, 0.0, 1.0)
        return combine_syntheses(shares, inner * (1.0 - inner) / self.mechanisms[0].n, level)

    def log_likelihood(self, releases: Sequence[Release], counts: npt.ArrayLike) -> Floats:
        """Log-density of all releases given counts, shape (..., categories): the noise of each is independent."""
        matched = self._matched(releases)
        each = [own.log_likelihood(release, counts) for own, release in zip(self.mechanisms, matched, strict=True)]
        return np.asarray(np.sum(each, axis=0))

    def _matched(self, releases: Sequence[Release]) -> Sequence[Release]:
        if len(releases) != len(self.mechanisms):
            raise ValueError(f"releases must be one for each of {len(self.mechanisms)} mechanisms, got {len(releases)}")
        for own, release in zip(self.mechanisms, releases, strict=True):
            own._checked(release)
        return releases

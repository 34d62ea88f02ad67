"""The projected Gaussian mechanism: real noise that keeps the invariants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice
from bayesdp.lattices.rounding import round_to_lattice
from bayesdp.mechanisms._parameters import one_statement
from bayesdp.mechanisms.base import Mechanism
from bayesdp.noise import ProjectedGaussian as Law
from bayesdp.privacy import (
    FLOATING_POINT_CAVEAT,
    Guarantee,
    gaussian_pairs,
    gaussian_sigma,
    gaussian_sigma_for_mu,
    gaussian_sigma_for_rho,
)

__all__ = ["NEIGHBOURS", "ProjectedGaussian"]

NEIGHBOURS = MappingProxyType({"substitution": math.sqrt(2.0), "add-remove": 1.0})
"""Neighbouring tables, and the l2 distance between them: a record changes its cell, or comes or goes."""

_GRID_BITS = 20
"""Released values are multiples of sigma, rounded down to a power of two, times 2**-20, or of 1 if that is
less."""

_KIND = {("rho",): "zcdp", ("epsilon", "delta"): "approximate", ("mu",): "gdp"}

_SUBSPACE = (
    "Neighbours that the invariants tell apart are not protected against that; the loss bounds what the "
    "noisy table adds about the part that the invariants leave free (subspace differential privacy)."
)


@dataclass(frozen=True)
class ProjectedGaussian(Mechanism):
    """Publish counts with independent normal noise of scale sigma, projected so that it changes no invariant.

    The projection is post-processing of the unprojected noise, and the noise of the projection is again
    normal of scale sigma in orthonormal coordinates. The loss is stated for neighbouring tables, and
    calibrated exactly: by the profile of the Gaussian mechanism for `epsilon` and `delta` (Balle and Wang,
    2018), and not by the paper's Lemma 3.4, which is too small for small delta. See docs/CORRECTIONS.md.

    Released values stand on a public grid, multiples of `grid`, so that the digits of floating-point noise
    tell nothing about the counts. The rounded noise is moved to the nearest grid points that keep the
    invariants, by about a millionth of sigma: the published table has its totals exactly.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    rho : float, optional
        zCDP loss for neighbouring tables.
    epsilon, delta : float, optional
        The same by approximate differential privacy.
    mu : float, optional
        The same by Gaussian differential privacy.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (l2 distance the root of 2; the number of records is
        public), or one record comes or goes (1).

    Raises
    ------
    TypeError, ValueError
        If the loss is not stated in exactly one way, a parameter is not valid, or the invariants determine
        the whole table.

    See Also
    --------
    bayesdp.noise.ProjectedGaussian : the law of the noise.
    bayesdp.distributions.ProjectedGaussian : that law as a PyMC distribution; it takes sigma.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 3.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> mechanism = ProjectedGaussian(Totals({"county": ["Alpha", "Beta", "Gamma"]}), mu=0.5)
    >>> print(f"{mechanism.sigma:.4f}")
    2.8284
    >>> float(mechanism.release([20, 10, 5], rng=np.random.default_rng(1)).values.sum())
    35.0
    """

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    neighbours: str = "substitution"

    name = "projected-gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stated()
        choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")

    def _stated(self) -> tuple[str, ...]:
        given = {"rho": self.rho, "epsilon": self.epsilon, "delta": self.delta, "mu": self.mu}
        return one_statement(given, tuple(_KIND))

    @property
    def sensitivity(self) -> float:
        """The l2 distance between neighbouring tables, in counts."""
        return NEIGHBOURS[self.neighbours]

    @property
    def sigma(self) -> float:
        """The scale of the noise, in counts."""
        if self.rho is not None:
            return gaussian_sigma_for_rho(self.rho, self.sensitivity)
        if self.mu is not None:
            return gaussian_sigma_for_mu(self.mu, self.sensitivity)
        assert self.epsilon is not None  # one of the three ways was taken
        assert self.delta is not None
        return gaussian_sigma(self.epsilon, self.delta, self.sensitivity)

    @property
    def grid(self) -> float:
        """Released values are multiples of this power of two, at most 1 so that counts are on it."""
        return math.ldexp(1.0, min(math.frexp(self.sigma)[1] - 1 - _GRID_BITS, 0))

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.sigma)

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        _check_method(method)
        draws = np.asarray(self.law.draw(rng, self.frame.shape, size, self.invariants))
        whole = round_to_lattice(draws / self.grid, self.invariants)
        return np.asarray(self.grid * whole, dtype=np.float64)

    def _guarantee(self, method: str) -> Guarantee:
        _check_method(method)
        stated = self._stated()
        grid = f"Released values are rounded to multiples of 2**{round(math.log2(self.grid))}, invariants kept."
        return Guarantee(
            _KIND[stated],
            {**{name: getattr(self, name) for name in stated}, "sensitivity": self.sensitivity},
            "l2",
            gaussian_pairs(self.sigma, self.differences, delta=self.delta, continuous=True),
            caveats=(FLOATING_POINT_CAVEAT, grid, _SUBSPACE),
        )


def _check_method(method: Any) -> None:
    if choice(method, ("auto", "exact", "mcmc"), "method") == "mcmc":
        raise ValueError("method must be 'auto' or 'exact': projected Gaussian noise is always drawn exactly")

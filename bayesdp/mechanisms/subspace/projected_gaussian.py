"""The projected Gaussian mechanism: real noise that keeps the invariants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bayesdp.mechanisms.subspace.gaussian import IsotropicGaussian
from bayesdp.privacy import projected_sensitivity, query_sensitivity


@dataclass(frozen=True)
class ProjectedGaussian(IsotropicGaussian):
    """Publish answers with independent normal noise of scale sigma, projected so that it changes no invariant.

    The projection is post-processing of the unprojected noise, and the noise of the projection is again
    normal of scale sigma in orthonormal coordinates. The loss is stated for neighbouring tables, and
    calibrated exactly for the unprojected noise: by the profile of the Gaussian mechanism for `epsilon` and `delta` (Balle and
    Wang, 2018), and not by the paper's Lemma 3.4, which is too small for small delta. See docs/CORRECTIONS.md. The projected
    noise may lose less between neighbours; the guarantee's row on them states what it does lose.

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
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell (l2 distance the root of 2 on the cells; the number of
        records is public), or one record comes or goes (1).
    calibration : {"analytic", "lemma 3.4"}
        How `epsilon` and `delta` become a scale. The lemma's is refused where its exact delta exceeds the stated one.

    Raises
    ------
    TypeError, ValueError
        If the loss is not stated in exactly one way, a parameter is not valid, or the invariants determine
        the whole table or all answers.

    See Also
    --------
    ExtendedGaussian : less noise, from the sensitivity that is left within the noise space.
    bayesdp.noise.ProjectedGaussian : the law of the noise.
    bayesdp.distributions.ProjectedGaussian : that law as a PyMC distribution; it takes sigma.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.queries import Totals
    >>> mechanism = ProjectedGaussian(Totals({"county": ["Alpha", "Beta", "Gamma"]}), mu=0.5)
    >>> print(f"{mechanism.sigma:.4f}")
    2.8284
    >>> float(mechanism.release([20, 10, 5], rng=np.random.default_rng(1)).values.sum())
    35.0
    """

    name = "projected-gaussian"

    @cached_property
    def sensitivity(self) -> float:
        """The largest l2 distance between the answers of neighbouring tables, in counts."""
        return query_sensitivity(self.released_query, "l2", self.neighbours)

    @cached_property
    def _neighbours_apart(self) -> tuple[float, str]:
        # The noise hides what the invariants leave free of a difference, which may be much shorter than the difference.
        try:
            free = projected_sensitivity(self.released_query, self.invariants, "l2", self.neighbours)
        except NotImplementedError:  # too many pairs of cells to compare
            return self.sensitivity, "at most"
        return (self.sensitivity if free >= self.sensitivity * (1.0 - 1e-12) else free), ""

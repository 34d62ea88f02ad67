"""The projected Gaussian law: continuous noise on the subspace that the invariants leave free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.base import Floats, KernelForm, LossByLength, normal_loss
from bayesdp.noise.subspace.base import SubspaceLaw, share_of_projection
from bayesdp.noise.tables import squared_norm
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False)
class ProjectedGaussian(SubspaceLaw):
    r"""Independent normal noise of scale sigma, projected orthogonally onto ``{z : A z = 0}``.

    In orthonormal coordinates of that subspace the noise is again independent normal of scale sigma: its
    density is ``-||z||_2**2 / (2 sigma**2) - n log(sigma sqrt(2 pi))`` with n the dimension, the
    conditional density of the unprojected noise given the invariants (Gao, Gong and Yu, 2022, Theorem 4.2).

    ========  ==================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  ``sigma**2`` times the diagonal of the projection
    ========  ==================================================

    Parameters
    ----------
    sigma : float
        Scale in counts.

    Raises
    ------
    TypeError, ValueError
        If sigma is not a positive finite number below 2**46.

    See Also
    --------
    bayesdp.distributions.ProjectedGaussian : the same law as a PyMC distribution.
    bayesdp.ProjectedGaussian : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 3.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> noise = ProjectedGaussian(sigma=2.0).draw(np.random.default_rng(1), (2,), 1000, pair)
    >>> bool(np.all(np.abs(noise.sum(axis=1)) < 1e-12))
    True
    """

    sigma: float

    name = "projected-gaussian"
    everywhere = True
    normal = True
    kernel_form = KernelForm("gaussian")
    scale_name = "sigma"
    relation = (
        "sigma, the standard deviation before projection: length / sqrt(2 rho) for tables that far "
        "apart (l2), if rho is their loss"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive_number(self.sigma, "sigma"))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density; see `TableLaw.log_kernel`."""
        density = -0.5 * squared_norm(xp, measured, invariants) / scale**2
        return density - invariants.dimension * xp.log(scale * math.sqrt(2.0 * math.pi))

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw normal noise, and project it."""
        return invariants.project(rng.normal(scale=self.sigma, size=(count, *invariants.frame.shape)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        kept = share_of_projection(self.needed(invariants, shape))
        return None if kept is None else self.sigma**2 * kept

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("zcdp", "approximate", "gdp"), "l2", normal_loss(self.sigma, continuous=True))

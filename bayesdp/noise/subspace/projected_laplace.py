"""The projected Laplace law: independent Laplace noise, projected onto the subspace that the invariants leave free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise._verbs import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.arrays import positive_number
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace._laplace_wide import log_integral, within_reach
from bayesdp.noise.subspace.base import SubspaceLaw, share_of_projection
from bayesdp.noise.subspace.laplace_line import blocks_density
from bayesdp.noise.subspace.rows import components_of
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False)
class ProjectedLaplace(SubspaceLaw):
    r"""Independent Laplace noise of scale b, projected orthogonally onto ``{z : A z = 0}``.

    Unlike projected normal noise it is neither independent in any coordinates nor the unprojected noise given the
    invariants. Its density at u, in orthonormal coordinates of the subspace, is that of all noise that is projected to u:

    .. math:: f(u) = \sqrt{\det R R^T}\; (2b)^{-d} \int \exp\Bigl(-\sum_i |u_i + (R^T w)_i| / b\Bigr)\, dw

    with the rows of R a basis of the row space of A. The integral falls apart where no invariant connects cells. For
    disjoint totals (and any other invariants that meet each cell once) it is one-dimensional in each total and in closed
    form, at the cost of one sort. Components of rank 2 and 3 are integrated numerically, to a relative accuracy of 1e-9,
    while they are small: a 2 x 2 table with its margins has rank 3. Beyond that the density is not available; a model does
    without it by keeping w as a latent variable.

    ========  ==================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  ``2 b**2`` times the diagonal of the projection
    ========  ==================================================

    Parameters
    ----------
    b : float
        Scale of the noise before it is projected, in counts.

    Raises
    ------
    TypeError, ValueError
        If b is not a positive finite number below 2**46.

    See Also
    --------
    bayesdp.distributions.ProjectedLaplace : the same law as a PyMC distribution.
    bayesdp.distributions.RowSpaceNoise : its latent form, for any invariants.
    bayesdp.ProjectedLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.8 and Section 4.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> noise = ProjectedLaplace(b=2.0).draw(np.random.default_rng(1), (2,), 1000, pair)
    >>> bool(np.all(np.abs(noise.sum(axis=1)) < 1e-12))
    True

    Half the difference of two Laplace variables; at zero its density in the coordinate ``sqrt(2) u`` is
    ``sqrt(2) / (4 b)``.

    >>> density = ProjectedLaplace(b=2.0).logp([7.0, 3.0], [7, 3], pair)
    >>> bool(np.isclose(np.exp(density), np.sqrt(2.0) / 8.0))
    True
    """

    b: float

    name = "projected-laplace"
    everywhere = True
    kernel_form = KernelForm("l1", of_scale=True)
    scale_name = "b"
    relation = (
        "b, the scale before projection: length / epsilon for tables that far apart (l1), if epsilon is their loss"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_number(self.b, "b"))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> float:
        """Log-density of one table of NumPy: the integral is compiled here, and PyTensor has an Op of its own for it.

        Raises
        ------
        NotImplementedError
            If a component of the invariants has a rank above 3, or is too large for numerical integration.
        """
        parts = components_of(invariants)
        flat = measured.reshape(-1)
        density, _ = blocks_density(flat, scale, parts.starts, parts.cells, parts.entries, np.empty(flat.size))
        density += parts.log_volume
        for part in parts.wide:
            rank, cells = part.rows.shape
            if not within_reach(rank, cells):
                raise NotImplementedError(
                    f"the density of projected Laplace noise is not available here: {cells} cells hang together by "
                    f"invariants of rank {rank}, and its integral over {rank} dimensions has no closed form. In a model, "
                    "use bayesdp.distributions.RowSpaceNoise with ProjectedLaplaceGivenRows, which need no integral"
                )
            rows = part.rows.toarray()
            density += 0.5 * float(np.linalg.slogdet(rows @ rows.T)[1])
            density += log_integral(flat[part.cells], rows, scale) - len(part.cells) * math.log(2.0 * scale)
        return float(density)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw Laplace noise, and project it."""
        return invariants.project(rng.laplace(scale=self.b, size=(count, *invariants.frame.shape)))

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell; None for more than 2048 cells, unless the invariants are disjoint totals."""
        kept = share_of_projection(self.needed(invariants, shape))
        return None if kept is None else 2.0 * self.b**2 * kept

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """An upper bound at a length: what is projected away hides something too. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), "l1", exponential_loss(1.0 / self.b), tight=False)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product where nothing is projected away. See `NoiseLaw.kernel_of`."""
        return self.kernel_form if invariants is None or not invariants.rank else None

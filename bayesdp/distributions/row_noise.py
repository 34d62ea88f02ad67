"""Projected Laplace noise for any invariants: the part of the noise that the projection removed is a latent variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp.distributions.laws import ProjectedLaplace
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    add_likelihood,
    applied,
    check_invariants,
    checked_location,
    is_discrete,
    scale,
)
from bayesdp.distributions.tables import nearest_table, signature_of
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.projected_laplace import ProjectedLaplace as ProjectedLaplaceLaw
from bayesdp.noise.subspace.projected_laplace import components_of, log_gram, rows_of_cells
from bayesdp.noise.subspace.row_noise import row_coordinates
from bayesdp.noise.tables import norm_of


class RowSpaceNoiseRV(PythonRV):
    """Random variable of `RowSpaceNoise`."""

    name, signature, dtype = "row_space_noise", "()->(r)", "float64"
    __props__ = (*PROPS, "invariants")
    invariants: Invariants

    def _supp_shape_from_params(self, dist_params: Any, param_shapes: Any = None) -> tuple[int]:
        return (self.invariants.rank,)

    def rng_fn(self, rng: np.random.Generator, b: Any, size: Sequence[int] | None = None) -> Floats:
        """Draw the part in the row space of independent Laplace noise."""
        width = np.asarray(b, dtype=np.float64)
        lead = width.shape if size is None else tuple(size)
        noise = rng.laplace(size=(*lead, self.invariants.frame.size)) * width[..., None]
        w = row_coordinates(self.invariants, noise.reshape(-1, self.invariants.frame.size))
        return np.ascontiguousarray(w.reshape(*lead, self.invariants.rank))


class ProjectedLaplaceGivenRowsRV(PythonRV):
    """Random variable of `ProjectedLaplaceGivenRows`."""

    law_type = ProjectedLaplaceLaw
    name, dtype = "projected_laplace_given_rows", "float64"
    __props__ = (*PROPS, "invariants")
    invariants: Invariants

    def __init__(self, invariants: Invariants, **props: Any) -> None:
        props.setdefault("signature", signature_of(invariants, "(r)", "()"))
        super().__init__(invariants=invariants, **props)

    def spread(self, w: Any) -> Any:
        """The removed noise ``R^T w`` as a table, shape ``(..., *table)``."""
        places, entries = rows_of_cells(self.invariants)
        # A gather, not a sparse product: one of PyTensor's rewrites cannot look into sparse constants.
        cells = pt.sum(w[..., places] * entries, axis=-1)
        lead = [w.shape[i] for i in range(w.ndim - 1)]
        return pt.reshape(cells, (*lead, *self.invariants.frame.shape), ndim=w.ndim - 1 + self.ndim_supp)

    def rng_fn(self, rng: np.random.Generator, mu: Any, w: Any, b: Any, size: Sequence[int] | None = None) -> Floats:
        """Add projected Laplace noise to mu, whatever w is."""
        mu, width = np.asarray(mu, dtype=np.float64), np.asarray(b, dtype=np.float64)
        table = self.invariants.frame.shape
        batches = (mu.shape[: mu.ndim - len(table)], np.shape(w)[:-1], width.shape)
        lead = np.broadcast_shapes(*batches) if size is None else tuple(size)
        wide = width.reshape(*width.shape, *(1 for _ in table))
        noise = self.invariants.project(rng.laplace(size=(*lead, *table)) * wide)
        return np.ascontiguousarray(mu + noise)


class RowSpaceNoise(pm.Continuous):
    r"""Coordinates w of what a projection has removed from Laplace noise e.

    With R a basis of the row space of the invariants A (some of their rows), ``e = P e + R^T w``. Together,

    .. math:: p(y, w \mid \mu, b) = \sqrt{\det R R^T}\; \prod_i \frac{1}{2b} \exp(-|y - \mu + R^T w|_i / b)

    and integrating w out gives the density of projected Laplace noise. The whole of it is the log-density of
    `ProjectedLaplaceGivenRows`; the log-density of this variable alone is 0. While sampling, the step method
    `bayesdp.steps.RowNoiseGibbs` draws w exactly; it is assigned by itself.

    Parameters
    ----------
    b : tensor_like of float
        Scale of the noise before it is projected, in counts (b > 0). Forward draws are of ``(R R^T)^{-1} R e``.
    invariants : Invariants
        What the noise does not change; of rank 1 at least.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 4.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> table = bdp.datasets.delinquent_children()
    >>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
    >>> with pm.Model() as model:
    ...     counts = pm.Gamma("counts", 2.0, 0.1, shape=(4, 4))
    ...     w = RowSpaceNoise("w", 5.0, invariants=margins)
    ...     noisy = ProjectedLaplaceGivenRows("noisy", counts, w, 5.0, invariants=margins, observed=table.values)
    >>> model["w"].eval().shape
    (7,)
    """

    rv_type = RowSpaceNoiseRV

    @classmethod
    def rv_op(cls, b: Any, *, invariants: Invariants, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of these invariants."""
        return applied(RowSpaceNoiseRV(invariants=invariants), b, size=size, rng=rng)

    @classmethod
    def dist(cls, b: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        check_invariants(invariants)
        if not invariants.rank:
            raise ValueError("without invariants nothing is projected and there is no row-space noise: use pm.Laplace")
        return super().dist([scale(b, "b")], invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, b: Any) -> Any:  # PyMC passes the variable
        """Give zero: the noise that is already in the subspace."""
        return pt.zeros_like(rv)


@_logprob.register(RowSpaceNoiseRV)
def _row_space_logp(op: RowSpaceNoiseRV, values: Any, rng: Any, size: Any, b: Any, **_: Any) -> Any:
    [value] = values
    return pt.zeros(value.shape[:-1])


class ProjectedLaplaceGivenRows(pm.Continuous):
    r"""Projected Laplace noise around mu, with the rest of the noise as a latent variable; see `RowSpaceNoise`.

    Its log-density is that of the table and of w together. Forward draws are of the table alone, with fresh noise: prior
    and posterior predictive tables follow the law of a release, whatever w is.

    Parameters
    ----------
    mu : tensor_like, shape ``(..., *table)``
        The table that the noise was added to.
    w : tensor_like, shape (..., rank)
        A `RowSpaceNoise` of the same invariants, with the same b.
    b : tensor_like of float
        Scale of the noise before it is projected, in counts (b > 0).
    invariants : Invariants
        What the noise does not change.

    See Also
    --------
    ProjectedLaplace : the density without w, where it has a closed form.
    bayesdp.ProjectedLaplace : the mechanism; it takes privacy parameters.
    """

    rv_type = ProjectedLaplaceGivenRowsRV

    @classmethod
    def rv_op(cls, mu: Any, w: Any, b: Any, *, invariants: Invariants, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of these invariants."""
        return applied(ProjectedLaplaceGivenRowsRV(invariants=invariants), mu, w, b, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, w: Any, b: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, rows = checked_location(mu, invariants), pt.as_tensor_variable(w)
        if rows.ndim == 0 or rows.type.shape[-1] not in (None, invariants.rank):
            raise ValueError(
                f"w must have shape (..., {invariants.rank}), the rank of the invariants, got {rows.type.shape}"
            )
        return super().dist([location, rows, scale(b, "b")], invariants=invariants, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, w: Any, b: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(ProjectedLaplaceGivenRowsRV)
def _given_rows_logp(
    op: ProjectedLaplaceGivenRowsRV, values: Any, rng: Any, size: Any, mu: Any, w: Any, b: Any, **_: Any
) -> Any:
    [value] = values
    own = op.invariants
    noise = value - mu + op.spread(w)
    density = -norm_of(pt, noise, "l1", own) / b - own.frame.size * pt.log(2.0 * b) + 0.5 * log_gram(own)
    return check_parameters(density, b > 0, msg="b > 0")


@add_likelihood.register
def _add_projected_laplace(
    law: ProjectedLaplaceLaw, name: str, mu: Any, parameters: Any, *, invariants: Invariants, **data: Any
) -> None:
    """In closed form where it has one, and nothing else has to be sampled anyway; else with its row-space noise."""
    # Counts on a lattice move by exact conditional steps only where the noise is a product, which it is given the row-space noise.
    if not invariants.rank or (not is_discrete(mu) and len(components_of(invariants).wide) == 0):
        ProjectedLaplace(name, mu=mu, b=law.b, invariants=invariants, **data)
        return
    w = RowSpaceNoise(f"{name}_rows", law.b, invariants=invariants)
    ProjectedLaplaceGivenRows(name, mu=mu, w=w, b=law.b, invariants=invariants, **data)

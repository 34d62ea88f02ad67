"""Noise on the subspace of real tables that change no invariant, as PyMC distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayesdp.distributions.subspace._laplace_blocks import blocks_log_density
from bayesdp.distributions.table_densities import check_known, dense_basis, log_density, measured
from bayesdp.distributions.tables import table_distribution
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.coordinates import CoordinateLaw
from bayesdp.noise.subspace.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussianLaw
from bayesdp.noise.subspace.extended_laplace import ExtendedLaplace as ExtendedLaplaceLaw
from bayesdp.noise.subspace.mixed_laplace import MixedLaplace as MixedLaplaceLaw
from bayesdp.noise.subspace.projected_gaussian import ProjectedGaussian as ProjectedGaussianLaw
from bayesdp.noise.subspace.projected_laplace import ProjectedLaplace as ProjectedLaplaceLaw
from bayesdp.noise.subspace.rows import components_of
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm as SubspaceNormLaw

CorrelatedGaussian = table_distribution(
    CorrelatedGaussianLaw,
    r"""Real tables that share the invariants of mu: normal noise with a given covariance in orthonormal coordinates Q.

.. math::
    \log f(x \mid \mu, \sigma) = -\frac{c^\top \Sigma^{-1} c}{2\sigma^2} - n \log(\sigma\sqrt{2\pi})
    - \tfrac12 \log\det\Sigma, \qquad c = Q^\top (x - \mu)

with n the dimension of the null space, on which this is the density in the coordinates Q. It is finite for tables that
break the invariants too: in a model, membership is decided by the exact part of a release alone.

Parameters
----------
sigma : tensor_like of float, default 1
    Multiplies the noise (sigma > 0), one for a table.
covariance : array_like, shape (n, n)
    Symmetric positive definite; fixed numbers, in coordinates Q.
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
TypeError, ValueError
    If the covariance is not symmetric positive definite or does not fit the invariants, or the rule is not known or
    not that of the invariants.
NotImplementedError
    If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
>>> total = bdp.Invariants(bdp.Totals(counties))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=3)
...     noisy = CorrelatedGaussian(
...         "noisy", counts, covariance=[[4.0, 1.0], [1.0, 2.0]], invariants=total, observed=[9.5, 12.5, 8.0]
...     )
""",
)


ExtendedLaplace = table_distribution(
    ExtendedLaplaceLaw,
    r"""Real tables that share the invariants of mu: Laplace noise, independent in orthonormal coordinates Q.

.. math:: \log f(x \mid \mu, b) = -\frac{\|Q^\top (x - \mu)\|_1}{b} - n \log(2 b)

with n the dimension of the null space, on which this is the density in the coordinates Q. It is finite for tables that
break the invariants too: in a model, membership is decided by the exact part of a release alone.

Parameters
----------
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
ValueError
    If the rule is not known, or not that of the invariants.
NotImplementedError
    If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.
""",
    example="5.0",
)


MixedLaplace = table_distribution(
    MixedLaplaceLaw,
    r"""Real tables that share the invariants of mu: Laplace noise in orthonormal coordinates Q, of a scale that was drawn first.

.. math::
    \log f(x \mid \mu, b) = \log \sum_k w_k \frac{\exp(-\|Q^\top (x - \mu)\|_1 / (b r_k))}{(2 b r_k)^n}

with n the dimension of the null space, r the ratios and w the weights. It is finite for tables that break the invariants too: in a
model, membership is decided by the exact part of a release alone.

Parameters
----------
ratios, weights : array_like, shape (m,)
    Scales divided by b, and their public probabilities.
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
ValueError
    If ratios or weights are not valid, the rule is not known, or it is not that of the invariants.
NotImplementedError
    If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.
""",
    example="5.0, ratios=[1.0, 2.0], weights=[0.5, 0.5]",
)


ProjectedGaussian = table_distribution(
    ProjectedGaussianLaw,
    r"""Real tables that share the invariants of mu: normal noise, projected onto what they leave free.

.. math:: \log f(x \mid \mu, \sigma) = -\frac{\|x - \mu\|_2^2}{2\sigma^2} - n \log(\sigma\sqrt{2\pi})

with n the dimension of the null space, on which this is the density in orthonormal coordinates. It is
finite for tables that break the invariants too: in a model, membership is decided by the exact part of a
release alone.
""",
    example="5.0",
)


ProjectedLaplace = table_distribution(
    ProjectedLaplaceLaw,
    r"""Real tables that share the invariants of mu: Laplace noise, projected onto what they leave free.

.. math:: f(x \mid \mu, b) = \prod_{g} \frac{\sqrt{d_g}}{(2b)^{d_g}}
    \int \exp\Bigl(-\sum_{i \in g} |x_i - \mu_i + w| / b\Bigr)\, dw

for disjoint totals over groups of :math:`d_g` cells: the density in orthonormal coordinates of the null space, in
closed form, with gradient, at the cost of one sort a group. It is available for all invariants that fall apart into
components of rank 1; see `RowSpaceNoise` for the others. It is finite for tables that break the invariants too (their
projection counts): in a model, membership is decided by the exact part of a release alone.

Raises
------
NotImplementedError
    If the density is an integral over more than one dimension.

See Also
--------
bayesdp.ProjectedLaplace : the mechanism of the same name; it takes privacy parameters.
bayesdp.noise.ProjectedLaplace : the same law without PyMC.
RowSpaceNoise, ProjectedLaplaceGivenRows : the same law for any invariants, with a latent variable.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> counties = bdp.Invariants(bdp.Margins(table, ["county"]))
>>> with pm.Model():
...     counts = pm.Gamma("counts", 2.0, 0.1, shape=(4, 4))
...     noisy = ProjectedLaplace("noisy", counts, 5.0, invariants=counties, observed=table.values)
""",
)


@log_density.register
def _integrated(law: ProjectedLaplaceLaw, noise: Any, scale: Any, invariants: Invariants) -> Any:
    return blocks_log_density(noise, scale, invariants)


@check_known.register
def _one_dimensional(law: ProjectedLaplaceLaw, scale: Any, invariants: Invariants) -> None:
    wide = components_of(invariants).wide
    if wide:
        rank, cells = max(part.rows.shape for part in wide)
        raise NotImplementedError(
            f"projected Laplace noise has no closed-form density here: {cells} cells hang together by invariants of rank "
            f"{rank}. Use RowSpaceNoise and ProjectedLaplaceGivenRows from bayesdp.distributions, which have the same "
            "law with a latent variable"
        )


SubspaceNorm = table_distribution(
    SubspaceNormLaw,
    r"""Real tables that share the invariants of mu, with density falling exponentially in a norm.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log C - \epsilon \|x - \mu\|

with n the dimension of the null space, on which this is the density in orthonormal coordinates, and C the integral of
``exp(-||v||)`` over it. Where that is not computed its term, a constant, is left out (`bayesdp.noise.SubspaceNorm` says
where). The density is finite for tables that break the invariants too: in a model, membership is decided by the exact
part of a release alone.
""",
    example='0.25, norm="l2"',
)


def linear_coordinates(difference: Any, invariants: Invariants, whitening: Floats | None = None) -> Any:
    """Coordinates ``Q^T z`` of tables z, shape ``(..., *table)``, also off the subspace: those of their projection."""
    # `whitening`, shape (n, n), multiplies the coordinates from the left. NotImplementedError as for `dense_basis`.
    basis = dense_basis(invariants, "noise stated in coordinates")
    matrix = basis if whitening is None else whitening @ basis
    lead = [difference.shape[i] for i in range(difference.ndim - len(invariants.frame.shape))]
    return pt.dot(difference.reshape((*lead, basis.shape[1])), pt.constant(np.ascontiguousarray(matrix.T)))


@measured.register
def _in_coordinates(law: CoordinateLaw, noise: Any, invariants: Invariants) -> Any:
    return linear_coordinates(noise, invariants, law.whitening)

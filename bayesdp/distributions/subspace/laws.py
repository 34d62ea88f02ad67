"""Noise on the subspace of real tables that change no invariant, as PyMC distributions.

The density of projected Laplace noise in closed form, as an Op with gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.blockwise import Blockwise

from bayesdp.distributions.table_densities import check_known, dense_basis, log_density, measured
from bayesdp.distributions.tables import table_distribution
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.base import CoordinateLaw
from bayesdp.noise.subspace.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussianLaw
from bayesdp.noise.subspace.extended_laplace import ExtendedLaplace as ExtendedLaplaceLaw
from bayesdp.noise.subspace.mixed_laplace import MixedLaplace as MixedLaplaceLaw
from bayesdp.noise.subspace.projected_gaussian import ProjectedGaussian as ProjectedGaussianLaw
from bayesdp.noise.subspace.projected_laplace import ProjectedLaplace as ProjectedLaplaceLaw
from bayesdp.noise.subspace.projected_laplace import blocks_density, components_of
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm as SubspaceNormLaw


class BlocksDensity(Op):
    """Log-density of noise on disjoint totals, its gradient in the noise and its derivative in b, in one pass.

    Inputs: noise (vector), b (scalar), and the blocks as in `bayesdp.noise.subspace.projected_laplace.blocks_density`. The blocks are
    inputs and not parameters of the Op, so that all invariants share one compiled function.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply[Any]:
        """Apply to symbolic inputs."""
        given = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, given, [pt.dscalar(), given[0].type(), pt.dscalar()])

    def perform(self, node: Apply[Any], inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate without PyTensor's compiler."""
        u, b, starts, cells, entries = inputs
        gradient = np.empty(len(u))
        value, derivative = blocks_density(u, float(b), starts, cells, entries, gradient)
        output_storage[0][0] = np.asarray(value)
        output_storage[1][0] = gradient
        output_storage[2][0] = np.asarray(derivative)

    def infer_shape(self, node: Apply[Any], shapes: list[Any]) -> list[Any]:
        """The gradient is as long as the noise."""
        return [(), shapes[0], ()]

    def connection_pattern(self, node: Apply[Any]) -> list[list[bool]]:
        """Everything depends on the noise and on b; the blocks are not varied."""
        return [[True] * 3] * 2 + [[False] * 3] * 3

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Reuse what was computed with the value; second derivatives are refused, not taken for zero."""
        fixed = [disconnected_type() for _ in range(3)]
        if any(not isinstance(own.type, DisconnectedType) for own in cotangents[1:]):
            return [*(grad_not_implemented(self, i, inputs[i]) for i in range(2)), *fixed]
        return [cotangents[0] * outputs[1], cotangents[0] * outputs[2], *fixed]


@register_funcify_default_op_cache_key(BlocksDensity)
def _compiled(op: BlocksDensity, node: Any, **_: Any) -> tuple[Any, int]:
    """Give the kernel to PyTensor; the number must change whenever the kernel does, or a stored one is used."""

    @numba_njit
    def density(u, b, starts, cells, entries):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        gradient = np.empty(len(u))
        value, derivative = blocks_density(u, b.item(), starts, cells, entries, gradient)
        return np.asarray(value), gradient, np.asarray(derivative)

    return density, 2


def blocks_log_density(difference: Any, b: Any, invariants: Invariants) -> Any:
    """Log-density in orthonormal coordinates of the null space, for invariants whose components have rank 1."""
    # `difference` is noise, shape `(..., *table)`: what it has off the subspace is ignored; `b` has shape (...).
    parts = components_of(invariants)
    ndim = len(invariants.frame.shape)
    lead = difference.ndim - ndim
    cells = invariants.frame.size
    u = pt.cast(difference, "float64").reshape((*[difference.shape[i] for i in range(lead)], cells), ndim=lead + 1)
    blocks = [pt.constant(array) for array in (parts.starts, parts.cells, parts.entries)]
    op = BlocksDensity()
    batched = lead or b.ndim
    apply: Any = Blockwise(op, signature="(n),(),(s),(m),(m)->(),(n),()") if batched else op
    return apply(u, b, *blocks)[0] + parts.log_volume


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

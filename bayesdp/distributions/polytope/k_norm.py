"""K-norm noise of real and of integer tables, and of Semi-DP, as PyMC distributions.

The norm of a polytope as a PyTensor expression, with its gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayesdp._numba import nb as numba
from bayesdp.distributions.table_densities import dense_basis, measured
from bayesdp.distributions.tables import table_distribution
from bayesdp.hulls import Hull, SensitivityHull
from bayesdp.invariants import Invariants
from bayesdp.noise.polytope.k_norm import HullLaw
from bayesdp.noise.polytope.k_norm import KNorm as KNormLaw
from bayesdp.noise.polytope.lattice_k_norm import LatticeKNorm as LatticeKNormLaw
from bayesdp.noise.semi.semi_k_norm import SemiKNorm as SemiKNormLaw


class GaugeOp(Op):
    """Gauges of points, shape (points, n), by linear programs; and the forms, of that shape, that attain them: the gradient."""

    __props__ = ("hull",)

    def __init__(self, hull: Hull) -> None:
        self.hull = hull

    def make_node(self, *inputs: Any) -> Apply[Any]:
        """Apply the Op to a matrix of points."""
        rows: Any = pt.cast(pt.as_tensor_variable(inputs[0]), "float64")
        count = rows.type.shape[0]
        return Apply(
            self,
            [rows],
            [
                pt.tensor(dtype="float64", shape=(count,)),
                pt.tensor(dtype="float64", shape=(count, self.hull.dimension)),
            ],
        )

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        """Solve one program for each row."""
        output_storage[0][0], output_storage[1][0] = self.values_and_forms(inputs[0])

    def values_and_forms(self, points: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Gauges and forms of the rows."""
        values, forms = np.empty(len(points)), np.empty((len(points), self.hull.dimension))
        for i, point in enumerate(points):
            values[i], forms[i] = self.hull.subgradient(point)
        return values, forms

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """Shapes of both outputs."""
        return [(shapes[0][0],), (shapes[0][0], self.hull.dimension)]

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        """Only the gauge has a gradient; the form is piecewise constant."""
        return [[True, False]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """A subgradient of the gauge, which is the gradient almost everywhere."""
        if isinstance(cotangents[0].type, DisconnectedType):
            return [pt.zeros_like(inputs[0])]
        return [cotangents[0][:, None] * outputs[1]]


@register_funcify_and_cache_key(GaugeOp)
def _in_python(op: GaugeOp, node: Any, **_: Any) -> tuple[Any, None]:
    """Call the solver from compiled code, on purpose and so without PyTensor's warning about it."""
    # None as cache key keeps PyTensor from storing a function that refers to this very Op.
    vector, matrix = numba.types.Array(numba.float64, 1, "C"), numba.types.Array(numba.float64, 2, "C")

    def solve(points: Any) -> Any:
        return op.values_and_forms(points)

    @numba_njit
    def gauge(points):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        with numba.objmode(values=vector, forms=matrix):
            values, forms = solve(points)
        return values, forms

    return gauge, None


def table_gauge(difference: Any, hull: Hull, invariants: Invariants) -> Any:
    """Gauge of ``Q^T z`` for tables z, shape ``(..., *table)``, also off the subspace: of their projection."""
    # The hull is in the coordinates of the invariants. NotImplementedError as for `dense_basis`.
    basis = dense_basis(invariants, "the K-norm")
    lead = [difference.shape[i] for i in range(difference.ndim - len(invariants.frame.shape))]
    flat = difference.reshape((-1, basis.shape[1]))
    gauges: Any
    if isinstance(hull, SensitivityHull) and hull.is_l1:
        tables = pt.dot(pt.dot(flat, basis.T), basis)
        gauges = pt.sum(pt.abs(tables), axis=1) / hull.reach
    elif hull.facets is None:
        op: Any = GaugeOp(hull)
        gauges = op(pt.dot(flat, basis.T))[0]
    else:
        gauges = pt.max(pt.abs(pt.dot(flat, (hull.facets.forms @ basis).T)), axis=1)
    return gauges.reshape(lead) if lead else gauges[0]


@measured.register
def _norm(law: HullLaw, noise: Any, invariants: Invariants) -> Any:
    return table_gauge(noise, law.ball(invariants), invariants)


KNorm = table_distribution(
    KNormLaw,
    r"""Real tables that share the invariants of mu, with density falling exponentially in the norm of a polytope.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

with K the hull of the vertices and their negatives, and n the dimension of the null space, on which this is the
density in orthonormal coordinates Q. Where the volume of K is not computed its term, a constant, is left out. The
density is finite for tables that break the invariants too: in a model, membership is decided by the exact part of a
release alone.

The norm is a maximum of linear forms where the facets of K can be found, and a linear program elsewhere, of microseconds to
some milliseconds. It has a gradient almost everywhere.

Parameters
----------
vertices : array_like, shape (m, n)
    In the orthonormal coordinates of the invariants (see `Invariants.coordinate_rule`); one of each pair v, -v.
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
TypeError, ValueError
    If the vertices do not fit the invariants, or do not span their null space, or the rule is not known or not that of
    the invariants.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children().values[:2, :2]
>>> margins = bdp.Invariants(bdp.Margins({"county": ["A", "B"], "education": ["L", "H"]}, ["county"], ["education"]))
>>> move = margins.coordinates([[1, -1], [-1, 1]])
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(2, 2))
...     noisy = KNorm("noisy", counts, 1.0, vertices=[move], invariants=margins, observed=table)
""",
)


LatticeKNorm = table_distribution(
    LatticeKNormLaw,
    r"""Integer tables that share the invariants of mu, with mass falling exponentially in the norm of a polytope.

.. math:: f(x \mid \mu, \epsilon) = e^{-\epsilon \|x - \mu\|_K} / Z(\epsilon), \qquad A x = A \mu

Either K is the hull of all that a number of records can change without changing an invariant (`adjacency`), or its
vertices are listed. The log-mass is finite for tables that break the invariants too (the norm is that of their
projection): in a model, membership is decided by the exact part of a release alone.

Raises
------
NotImplementedError
    If epsilon is not a constant and the norm is not a multiple of the l1 norm whose Z is known. For a constant
    epsilon, an unknown Z is left out.
""",
    example="1.0, adjacency=3",
)


SemiKNorm = table_distribution(
    SemiKNormLaw,
    r"""Real tables that share the invariants of mu, with density falling in the norm of the hull of a sensitivity space.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

with K the hull of all that so many records can change without changing an invariant. See `KNorm` for the rest.

Parameters
----------
invariants : Invariants
    Disjoint totals, or both margins of a two-way table.

Raises
------
NotImplementedError, TypeError, ValueError
    As `bayesdp.hulls.SensitivityHull`.
""",
    example="1.0, adjacency=3",
)

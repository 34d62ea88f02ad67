"""PyMC distributions of the laws whose noise is a whole table, made from the laws of `bayesdp.noise`.

A law writes its kernel for NumPy and PyTensor at once (`TableLaw.log_kernel`). Two things cannot be written so, and are
`functools.singledispatch` functions, here with the graphs of a family or a law: coordinates and norms of polytopes, which NumPy gets
from structured or adaptive algorithms and a graph from a dense matrix or an Op with a gradient; and integrals. Projected Laplace
noise has its integral for some invariants; for any, the part of the noise that the projection removed is a latent variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from functools import cache, singledispatch
from string import ascii_lowercase
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.variable import TensorConstant

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import nb as numba
from bayesdp._validate import instance
from bayesdp._wiring import connected
from bayesdp.distributions.confidential_counts import as_tied_table
from bayesdp.distributions.registry import (
    PROPS,
    PythonRV,
    WithDerivatives,
    add_likelihood,
    blank,
    checked_location,
    distribution_of,
    in_python,
    is_discrete,
    kind_of,
    made,
    makes,
    op_of_rv_type,
    rv_of,
    scale,
)
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import Hull, SensitivityHull
from bayesdp.noise.lattice.laws import LatticeLaw
from bayesdp.noise.polytope import HullLaw
from bayesdp.noise.subspace.laws import CoordinateLaw
from bayesdp.noise.subspace.projected_laplace import (
    ProjectedLaplace,
    blocks_density,
    components_of,
    log_gram,
    row_coordinates,
    rows_of_cells,
)
from bayesdp.noise.tables import TableLaw, norm_of

_ENTRIES = 4_000_000
"""Largest dense matrix, dimensions times cells, that is put into a graph."""


@singledispatch
def log_density(law: TableLaw, noise: Any, scale: Any, invariants: Invariants) -> Any:
    """Log-mass or log-density at noise, shape (...); finite off the lattice or subspace too."""
    # The scale of `law` is not used. `noise` has the shape `(..., *table)`.
    return law.log_kernel(pt, measured(law, noise, invariants), scale, invariants)


@log_density.register
def _on_a_lattice(law: LatticeLaw, noise: Any, scale: Any, invariants: Invariants) -> Any:
    mass = law.log_kernel(pt, measured(law, noise, invariants), scale, invariants)
    normaliser = log_sum(law, scale, invariants)
    return mass if normaliser is None else mass - normaliser


@singledispatch
def measured(law: TableLaw, noise: Any, invariants: Invariants) -> Any:
    """What of the noise the kernel depends on, as `TableLaw.measured`."""
    return noise


def dense_basis(invariants: Invariants, needed_by: str) -> Floats:
    """Orthonormal coordinates Q^T as a dense matrix, shape (n, cells); NotImplementedError beyond four million entries."""
    n, cells = invariants.dimension, invariants.frame.size
    if n * cells > _ENTRIES:
        raise NotImplementedError(
            f"{needed_by} of a table with {cells} cells and {n} free dimensions needs a dense matrix of {n * cells} numbers in "
            f"the model, more than {_ENTRIES}"
        )
    return invariants.from_coordinates(np.eye(n)).reshape(n, cells)


def flattened(noise: Any, invariants: Invariants) -> Any:
    """Tables with all cells along one axis, shape (..., cells)."""
    lead = noise.ndim - len(invariants.frame.shape)
    return noise.reshape((*[noise.shape[i] for i in range(lead)], invariants.frame.size), ndim=lead + 1)


def log_sum(law: LatticeLaw, scale: Any, invariants: Invariants) -> Any | None:
    """Logarithm of the sum over the lattice; of known scales numbers, so that the graph stays as small as it was."""
    if not isinstance(scale, TensorConstant):
        return law._log_sum(pt, scale, invariants)
    found = [law.at(float(one)).log_normaliser(invariants) for one in np.asarray(scale.data).ravel()]
    if any(one is None for one in found):
        return None
    return pt.constant(np.reshape(np.array(found, dtype=np.float64), np.shape(scale.data)))


@singledispatch
def check_known(law: TableLaw, scale: Any, invariants: Invariants) -> None:
    """Raise NotImplementedError where the log-density is not available."""


@check_known.register
def _constant_or_known(law: LatticeLaw, scale: Any, invariants: Invariants) -> None:
    if isinstance(scale, TensorConstant) or log_sum(law, scale, invariants) is not None:
        return
    raise NotImplementedError(
        f"{law.scale_name} must be a constant here: the normaliser of the law {law.name!r} with these invariants "
        f"({invariants!r}) depends on {law.scale_name}, and {law.unknown_sum}; they leave {invariants.dimension} dimensions "
        f"free. Give the {law.scale_name} that was published, as a number"
    )


@measured.register
def _in_coordinates(law: CoordinateLaw, noise: Any, invariants: Invariants) -> Any:
    """Coordinates ``Q^T z`` of tables z, shape ``(..., *table)``, also off the subspace: those of their projection."""
    basis = dense_basis(invariants, "noise stated in coordinates")
    matrix = basis if law.whitening is None else law.whitening @ basis
    return pt.dot(flattened(noise, invariants), pt.constant(np.ascontiguousarray(matrix.T)))


# Not PyTensor's numba_njit: functions made by that cannot be called from Python, which `perform` does.
@numba.njit
def _blocks(u, b, starts, cells, entries):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    gradient = np.empty(len(u))
    value, derivative = blocks_density(u, b.item(), starts, cells, entries, gradient)
    return np.asarray(value), gradient, np.asarray(derivative)


class BlocksDensity(WithDerivatives):
    """Log-density of noise on disjoint totals, its gradient in the noise and its derivative in b, in one pass.

    Inputs: noise (vector), b (scalar), and the blocks as in `bayesdp.noise.subspace.projected_laplace.blocks_density`. The blocks are
    inputs and not parameters of the Op, so that all invariants share one compiled function.
    """

    derivatives = 2
    evaluate = staticmethod(_blocks)

    def types(self, *inputs: Any) -> list[Any]:
        """A number, as many as the noise has, and a number."""
        return [pt.dscalar(), inputs[0].type(), pt.dscalar()]

    def infer_shape(self, node: Apply[Any], shapes: list[Any]) -> list[Any]:
        """The gradient is as long as the noise."""
        return [(), shapes[0], ()]


def blocks_log_density(difference: Any, b: Any, invariants: Invariants) -> Any:
    """Log-density in orthonormal coordinates of the null space, for invariants whose components have rank 1."""
    # `difference` is noise, shape `(..., *table)`: what it has off the subspace is ignored; `b` has shape (...).
    parts, u = components_of(invariants), flattened(pt.cast(difference, "float64"), invariants)
    blocks = [pt.constant(array) for array in (parts.starts, parts.cells, parts.entries)]
    op: Any = BlocksDensity()
    if u.ndim > 1 or b.ndim:
        op = Blockwise(op, signature="(n),(),(s),(m),(m)->(),(n),()")
    return op(u, b, *blocks)[0] + parts.log_volume


@log_density.register
def _integrated(law: ProjectedLaplace, noise: Any, scale: Any, invariants: Invariants) -> Any:
    return blocks_log_density(noise, scale, invariants)


@check_known.register
def _one_dimensional(law: ProjectedLaplace, scale: Any, invariants: Invariants) -> None:
    components_of(invariants).check()


class GaugeOp(WithDerivatives):
    """The gauge of a point, by a linear program; and the form that attains it, the gradient almost everywhere."""

    __props__ = ("hull",)
    derivatives = 1

    def __init__(self, hull: Hull) -> None:
        self.hull = hull

    def types(self, *inputs: Any) -> list[Any]:
        """A number and a form."""
        return [pt.dscalar(), inputs[0].type()]

    def evaluate(self, point: Any) -> tuple[float, Floats]:
        """The gauge and the form."""
        return self.hull.subgradient(point)

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """The form is as long as the point."""
        return [(), shapes[0]]


register_funcify_and_cache_key(GaugeOp)(in_python)


def table_gauge(difference: Any, hull: Hull, invariants: Invariants) -> Any:
    """Gauge of ``Q^T z`` for tables z, shape ``(..., *table)``, also off the subspace: of their projection."""
    # The hull is in the coordinates of the invariants. NotImplementedError as for `dense_basis`.
    basis, flat = dense_basis(invariants, "the K-norm"), flattened(difference, invariants)
    if isinstance(hull, SensitivityHull) and hull.is_l1:
        return pt.sum(pt.abs(pt.dot(pt.dot(flat, basis.T), basis)), axis=-1) / hull.reach
    if hull.facets is not None:
        return pt.max(pt.abs(pt.dot(flat, (hull.facets.forms @ basis).T)), axis=-1)
    points: Any = pt.dot(flat, basis.T)
    op: Any = GaugeOp(hull)
    if points.ndim > 1:
        op = Blockwise(op, signature="(n)->(),(n)")
    return op(points)[0]


@measured.register
def _norm(law: HullLaw, noise: Any, invariants: Invariants) -> Any:
    return table_gauge(noise, law.ball(invariants), invariants)


@cache
def _know_step_methods() -> None:
    """Tell PyMC of the step methods of the package, once."""
    connected("register step methods")()


def signature_of(invariants: Invariants, *inputs: str) -> str:
    """The signature of random tables around a location: all dimensions of the table are core dimensions."""
    core = f"({','.join(ascii_lowercase[: len(invariants.frame.shape)])})"
    return f"{','.join([core, *inputs])}->{core}"


class TableNoiseRV(PythonRV):
    """A noisy table around a location, with one scale; it holds the invariants that are kept, and the law at scale 1."""

    __props__ = (*PROPS, "invariants", "unit")
    invariants: Invariants
    unit: TableLaw
    law_type: ClassVar[type[TableLaw]]
    moved_only_by: ClassVar[str | None] = None

    def __init__(self, invariants: Invariants, unit: TableLaw, **props: Any) -> None:
        props.setdefault("signature", signature_of(invariants, "()"))
        super().__init__(invariants=invariants, unit=unit, **props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, scale: Any, size: Sequence[int] | None = None) -> Floats | Ints:
        """Draw one table for each location and scale of the batch."""
        mu, scale = np.asarray(mu), np.asarray(scale, dtype=np.float64)
        table = self.invariants.frame.shape
        lead = mu.shape[: mu.ndim - len(table)]
        batch = np.broadcast_shapes(lead, scale.shape) if size is None else tuple(size)
        locations = np.broadcast_to(mu, (*batch, *table)).reshape(-1, *table)
        scales = np.broadcast_to(scale, batch).reshape(-1)
        if np.all(locations == locations[:1]) and np.all(scales == scales[:1]) and len(scales):
            # The usual case, one law for the whole batch: a sampler is set up once.
            law = self.unit.at(float(scales[0]))
            draws = law.draw(rng, table, len(scales), self.invariants, locations[0])
            return np.reshape(draws, (*batch, *table))
        out: Any = np.empty((len(scales), *table), dtype=self.dtype)
        for i, (location, value) in enumerate(zip(locations, scales, strict=True)):
            out[i] = self.unit.at(float(value)).draw(rng, table, None, self.invariants, location)
        return np.reshape(out, (*batch, *table))


@_logprob.register(TableNoiseRV)
def _logp(op: TableNoiseRV, values: Any, rng: Any, size: Any, mu: Any, scale: Any, **_: Any) -> Any:
    # A free variable on a lattice must be left to its own step method.
    value = as_tied_table(values[0]) if op.unit.support == "lattice" else values[0]
    density = log_density(op.unit, value - mu, scale, op.invariants)
    return check_parameters(density, scale > 0, msg=f"{op.unit.scale_name} > 0")


def nearest_table(rv: Any, mu: Any) -> Any:
    """Give mu in every place of the batch; where the law is one of integers, rounded."""
    centre = pt.round(mu) if is_discrete(rv) and not is_discrete(mu) else mu
    return pt.zeros_like(rv) + centre


_BOTH_MARGINS = '["county"], ["education"]'


@makes(TableLaw)
def of_tables(law: Any, example: str | None = None, notes: str = "", *, margins: str = _BOTH_MARGINS) -> Any:
    """The distribution of a law of whole tables; `margins`: those that the table of the example keeps."""
    written = blank(law, kind_of(law), notes)
    on_lattice, rest = law.support == "lattice", {item.name: item for item in fields(law)}
    first = rest.pop(law.scale_name, None)
    # What is None unless it is given is left to the law, and the coordinates to the invariants.
    keywords = {name: item.default for name, item in rest.items()}
    keywords |= {"coordinates": None} if "coordinates" in keywords else {}
    parameters = {law.scale_name: MISSING if first else 1.0, **keywords, "invariants": MISSING}
    body: dict[str, Any] = {}
    if on_lattice:  # by the form that the law has in the kernel: without one a free variable cannot be sampled
        body["moved_only_by"] = "" if law.kernel_form is None else "LatticeNoiseGibbs"
    rv_type = rv_of(law, written, TableNoiseRV, **body)

    def variables(mu: Any, invariants: Invariants, **stated: Any) -> tuple[list[Any], dict[str, Any]]:
        value = scale(stated.pop(law.scale_name), law.scale_name)
        centre = checked_location(mu, invariants)
        given = {name: own for name, own in stated.items() if own is not None or keywords[name] is not None}
        unit = law.unit(invariants, **given)
        if on_lattice:
            # PyMC would give integer noise to its own Metropolis step, which leaves the lattice.
            _know_step_methods()
        check_known(unit, value, invariants)
        return [centre, value], {"invariants": invariants, "unit": unit}

    def support_point(rv: Any, size: Any, mu: Any, value: Any) -> Any:
        """Give mu itself."""
        return nearest_table(rv, mu)

    verbs = {"rv_type": rv_type, "rv_op": op_of_rv_type, "support_point": support_point}
    return made(
        law,
        written,
        parameters,
        variables,
        verbs,
        keywords=[*keywords, "invariants"],
        **_documented(law, first, example, margins),
    )


_EXAMPLE = """>>> import numpy as np
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, MARGINS))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = NAME("noisy", counts, PARAMETERS, invariants=margins, observed=table.values)"""


_OFF = """The density is that of the noise z, the table minus mu. It is finite for tables that break the invariants too (their
projection counts): in a model, membership is decided by the exact part of a release alone."""

_LATENT = """A free variable (noise around a known table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs`
samples it, and is assigned by itself."""

_UNKNOWN_SUM = """NotImplementedError
    If the scale is not a constant and the sum over the lattice is not computed for these invariants. Where it is, it is for every
    positive scale, with its gradient; for a constant scale, an unknown sum is left out."""

_UNKNOWN_DENSITY = """TypeError, ValueError
    If mu or a parameter does not fit the invariants, such as coordinates of another rule.
NotImplementedError
    If the log-density is not known for these invariants, or needs a dense matrix (dimensions times cells) beyond four million."""


def _documented(law: type[TableLaw], first: Any, example: str | None, margins: str) -> dict[str, Any]:
    """Entries and sections of the docstring that all these distributions have; `example`: the scale and other parameters."""
    lattice, kind = law.support == "lattice", " of int" if law.integer else ""
    given = {"mu": f"mu : tensor_like{kind}, shape ``(..., *table)``\n    The table that the noise was added to."}
    if first is None:
        given[law.scale_name] = (
            f"{law.scale_name} : tensor_like of float, default 1, shape (...)\n    Multiplies the noise."
        )
    return {
        "given": given,
        "example": _EXAMPLE.replace("PARAMETERS", example).replace("MARGINS", margins) if example else "",
        "scale_shape": ", shape (...)",
        "notes": f"{_OFF}\n\n{_LATENT}" if lattice and law.kernel_form is not None else _OFF,
        "raises": _UNKNOWN_SUM if lattice else _UNKNOWN_DENSITY,
    }


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

    law_type = ProjectedLaplace
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
    rv_op = op_of_rv_type

    @classmethod
    def dist(cls, b: Any, *, invariants: Invariants, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        instance(invariants, Invariants, "invariants must be a bayesdp.Invariants")
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
    rv_op = op_of_rv_type

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
    kept = op.invariants
    noise = value - mu + op.spread(w)
    density = -norm_of(pt, noise, "l1", kept) / b - kept.frame.size * pt.log(2.0 * b) + 0.5 * log_gram(kept)
    return check_parameters(density, b > 0, msg="b > 0")


@add_likelihood.register
def _add_projected_laplace(
    law: ProjectedLaplace, name: str, mu: Any, parameters: Any, *, invariants: Invariants, **data: Any
) -> None:
    """In closed form where it has one, and nothing else has to be sampled anyway; else with its row-space noise."""
    # Counts on a lattice move by exact conditional steps only where the noise is a product, which it is given the row-space noise.
    if not invariants.rank or (not is_discrete(mu) and components_of(invariants).wide is None):
        distribution_of(type(law))(name, mu=mu, b=law.b, invariants=invariants, **data)
        return
    w = RowSpaceNoise(f"{name}_rows", law.b, invariants=invariants)
    ProjectedLaplaceGivenRows(name, mu=mu, w=w, b=law.b, invariants=invariants, **data)

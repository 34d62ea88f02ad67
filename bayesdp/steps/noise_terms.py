"""Observed noise laws about counts in the form in which the kernel knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.linalg
from pytensor.graph.traversal import ancestors

from bayesdp.distributions.correlated_gaussian import CorrelatedGaussianRV
from bayesdp.distributions.extended_laplace import ExtendedLaplaceRV
from bayesdp.distributions.independent.canonical_of_counts import CanonicalOfCountsRV
from bayesdp.distributions.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.distributions.independent.discrete_laplace import DiscreteLaplace
from bayesdp.distributions.independent.gaussian import Gaussian
from bayesdp.distributions.independent.laplace import Laplace
from bayesdp.distributions.independent.tulap import TulapRV
from bayesdp.distributions.lattice_gaussian import LatticeGaussianRV
from bayesdp.distributions.lattice_laplace import LatticeLaplaceRV
from bayesdp.distributions.projected_gaussian import ProjectedGaussianRV
from bayesdp.distributions.projected_laplace import ProjectedLaplaceRV
from bayesdp.distributions.row_noise import ProjectedLaplaceGivenRowsRV
from bayesdp.distributions.subspace_norm import SubspaceNormRV
from bayesdp.fibers import Fiber, NoiseTerm
from bayesdp.frames import Frame
from bayesdp.noise import BoundedLaw
from bayesdp.steps._compiled import Rest
from bayesdp.steps._graph import published, spread, value_of
from bayesdp.steps.bounded_terms import bounded_term
from bayesdp.steps.tulap_terms import Reach, canonical_reach, tulap_term

__all__ = ["Known", "known_reach", "known_term"]


@dataclass(frozen=True, eq=False)
class Known:
    """What the kernel takes over from one observed variable.

    Parameters
    ----------
    term : NoiseTerm
        Its scale is a placeholder.
    scale : tensor variable
    answers : tensor variable or None
        The noisy answers, where a part of the noise is a variable of the model.
    rest : Rest or None
        What is left of the log-likelihood.
    reach : Reach or None
        The answers that bounded noise allows.
    """

    term: NoiseTerm
    scale: Any
    answers: Any = None
    rest: Rest | None = None
    reach: Reach | None = None


_REAL_ENTRIES = 4_000_000
"""Coordinates times cells of a law that is a product in coordinates; larger ones go through the compiled log-density."""

_GAUSSIAN = (DiscreteGaussian.rv_type, Gaussian.rv_type, LatticeGaussianRV, ProjectedGaussianRV)
_LAPLACE = (DiscreteLaplace.rv_type, Laplace.rv_type)
_NORMS = (LatticeLaplaceRV, SubspaceNormRV)


def known_term(model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> Known | None:
    """Read an observed variable.

    Parameters
    ----------
    model : pymc.Model
    rv : tensor variable
        Observed.
    x : tensor variable
        The counts.
    fiber : Fiber
        From the exact answers.

    Returns
    -------
    Known or None
        None if its law, or what it asks of the counts, is not one of the kernel's: the compiled log-density has it then.
    """
    op = rv.owner.op
    if issubclass(getattr(op, "law_type", object), BoundedLaw):
        return _within_bounds(model, rv, x, fiber)
    if isinstance(op, TulapRV):
        return _canonical(model, rv, x, fiber.frame)
    if isinstance(op, ProjectedLaplaceGivenRowsRV):
        return _given_rows(model, rv, x, fiber.frame)
    if isinstance(op, ExtendedLaplaceRV | CorrelatedGaussianRV):
        return _in_coordinates(model, rv, x, fiber.frame)
    return _simple(model, rv, x, fiber.frame)


def known_reach(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Reach | None:
    """Read the answers that noise of bounded support allows off a variable whose log-density is not one of the kernel's."""
    if not isinstance(getattr(rv.owner, "op", None), CanonicalOfCountsRV):
        return None
    found = published(model, rv, x, frame)
    return None if found is None else canonical_reach(rv, *found)


def _simple(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Known | None:
    """Independent noise, and noise with the density of independent noise on a subspace or lattice."""
    op = rv.owner.op
    independent = isinstance(op, ProjectedLaplaceRV) and not op.invariants.rank
    if not independent and not isinstance(op, (*_GAUSSIAN, *_LAPLACE, *_NORMS)):
        return None
    if isinstance(op, SubspaceNormRV) and op.norm == "linf":
        return None  # the largest cell is not a sum over cells: left to the compiled log-density
    found = published(model, rv, x, frame)
    if found is None:
        return None
    query, keep, observed = found
    values = np.zeros(query.rows)
    values[keep] = observed
    norm = getattr(op, "norm", "l1") if isinstance(op, _NORMS) else "l1"
    kind = "gaussian" if isinstance(op, _GAUSSIAN) else norm
    scale = rv.owner.inputs[3]
    rate = pt.reciprocal(scale) if isinstance(op, (*_LAPLACE, ProjectedLaplaceRV)) else scale
    return Known(NoiseTerm(query, values, kind, np.ones(()), keep), spread(rate, rv, keep))


def _canonical(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Known | None:
    """Tulap noise: a Laplace term, and limits where its support is bounded."""
    found = published(model, rv, x, frame)
    known = None if found is None else tulap_term(model, rv, *found)
    return None if known is None else Known(known[0], known[1], reach=known[2])


def _within_bounds(model: pm.Model, rv: Any, x: Any, fiber: Fiber) -> Known | None:
    """Truncated and clipped noise."""
    bounds = rv.owner.inputs[4:]
    found = published(model, rv, x, fiber.frame)
    free = set(model.value_vars) | set(model.free_RVs)
    if found is None or free & set(ancestors(bounds)):
        return None
    query, keep, observed = found
    shape = value_of(model.rvs_to_values[rv]).shape
    low, high = (np.broadcast_to(value_of(side), shape).reshape(-1) for side in bounds)
    known = bounded_term(model, rv, fiber, query, keep, observed, (low, high))
    return None if known is None else Known(known[0], known[1], rest=known[2])


def _in_coordinates(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Known | None:
    """Noise that is independent in coordinates of the answers: as many real combinations of the cells."""
    op = rv.owner.op
    n = op.invariants.dimension
    found = published(model, rv, x, frame)
    if found is None or not found[1].all() or n * max(frame.size, found[0].rows) > _REAL_ENTRIES:
        return None
    query, _, observed = found
    combinations = op.invariants.from_coordinates(np.eye(n)).reshape(n, query.rows)
    if isinstance(op, CorrelatedGaussianRV):
        factor = np.linalg.cholesky(op.covariance.values)
        combinations = scipy.linalg.solve_triangular(factor, combinations, lower=True)
    rows = np.asarray((query.matrix.T @ combinations.T).T, dtype=np.float64)
    laplace = isinstance(op, ExtendedLaplaceRV)
    scale = pt.reciprocal(rv.owner.inputs[3]) if laplace else rv.owner.inputs[3]
    measured = np.ones(len(rows), dtype=np.bool_)
    kind = "l1" if laplace else "gaussian"
    term = NoiseTerm(query, combinations @ observed, kind, np.ones(()), measured, rows)
    return Known(term, pt.cast(scale, "float64"))


def _given_rows(model: pm.Model, rv: Any, x: Any, frame: Frame) -> Known | None:
    """Projected Laplace noise, its part in the row space a variable: Laplace noise about answers that move."""
    found = published(model, rv, x, frame)
    if found is None or not found[1].all():
        return None
    query, keep, observed = found
    row_noise, b = rv.owner.inputs[3:5]
    located = pt.as_tensor_variable(observed) + rv.owner.op.spread(row_noise).flatten()
    term = NoiseTerm(query, observed, "l1", np.ones(()), keep)
    return Known(term, pt.cast(pt.reciprocal(b), "float64"), answers=pt.cast(located, "float64"))

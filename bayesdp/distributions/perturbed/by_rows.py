"""Perturbed counts whose table of probabilities is an input: of `observe`, of a table that is learnt, of any expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import _support_point
from pymc.logprob.abstract import _logprob
from scipy.special import gammaln

from bayesdp import noise
from bayesdp.distributions.parameters import is_discrete
from bayesdp.distributions.perturbed.base import PerturbedRV, counts_of, perturbed_distribution, perturbed_op
from bayesdp.distributions.registry import add_likelihood, distribution_of
from bayesdp.noise.base import Floats
from bayesdp.noise.perturbed.base import PerturbedLaw


@perturbed_distribution(noise.UnknownPerturbation)
class UnknownPerturbation(pm.Discrete):
    """Counts mu perturbed by a table that is not known, each by itself; several have `PerturbedByRows` with `PerturbationRows`.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     published = UnknownPerturbation("published", mu=count, max_deviation=4, observed=12)
    """


class PerturbationRowsRV(PerturbedRV):
    """Random variable of `PerturbationRows`; its input are the prior means."""

    name, signature, dtype = "perturbation_rows", "(r,d)->(r,d)", "float64"

    def rng_fn(self, rng: np.random.Generator, means: Any, size: Sequence[int] | None = None) -> Floats:  # type: ignore[override]
        """Draw tables."""
        lead = () if size is None else tuple(size)
        drawn = [self.law.drawn_rows(rng) for _ in range(int(np.prod(lead)))]
        return np.reshape(drawn, (*lead, *np.shape(means)[-2:]))


class PerturbationRows(pm.Continuous):
    """The rows of a perturbation table that is not known, with the prior of its law; `bayesdp.steps.PerturbationGibbs` draws them.

    Parameters
    ----------
    law : bayesdp.noise.UnknownPerturbation

    Examples
    --------
    >>> pm.draw(PerturbationRows.dist(noise.UnknownPerturbation(1)), random_seed=1)[0].tolist()
    [0.0, 1.0, 0.0]
    """

    rv_type = PerturbationRowsRV
    rv_op = perturbed_op

    @classmethod
    def dist(cls, law: noise.UnknownPerturbation, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([pt.constant(law.transitions.mass)], law=law, **kwargs)


@_support_point.register(PerturbationRowsRV)
def _rows_point(op: PerturbationRowsRV, rv: Any, rng: Any, size: Any, means: Any) -> Any:
    """The prior means, or the table in the middle of the family."""
    return means if op.law.prior == "dirichlet" else pt.constant(op.law.tables[len(op.law.tables) // 2])


@_logprob.register(PerturbationRowsRV)
def _rows_logp(op: PerturbationRowsRV, values: Any, rng: Any, size: Any, means: Any, **_: Any) -> Any:
    [value], law = values, op.law
    if law.prior != "dirichlet":
        known = pt.any(pt.all(pt.lt(pt.abs(value - pt.constant(law.tables)), 1e-9), axis=(1, 2)))
        return pt.switch(known, -np.log(len(law.tables)), -np.inf)
    possible = law.concentrations > 0
    own = np.where(possible, law.concentrations, 1.0)
    constant = gammaln(law.concentrations.sum(axis=1)).sum() - gammaln(own).sum()
    inside = pt.all(pt.lt(pt.abs(pt.sum(value, axis=1) - 1.0), 1e-6))
    inside = inside & pt.all(pt.switch(possible, pt.ge(value, 0.0), pt.eq(value, 0.0)))
    return pt.switch(inside, constant + pt.sum((own - 1.0) * pt.log(pt.switch(possible, value, 1.0))), -np.inf)


class PerturbedByRows(pm.Discrete):
    """Counts published for counts mu with probabilities that are given, or variables of the model.

    The posterior kernel of a `ConfidentialCounts` takes the rows as they stand at each draw. What cannot be has a large negative
    log-mass while mu is being sampled, as for exact answers.

    Parameters
    ----------
    mu : tensor_like of int
        The true counts; real numbers raise TypeError.
    rows : tensor_like of float, shape (counts, deviations)
        Row x for counts x from 0 on, each with sum 1, in the layout of ``like.transitions.mass``: a `PerturbationRows`, or any
        expression, such as a table for rounding with an unknown probability. Another shape raises ValueError.
    like : PerturbedLaw
        A law with the same possible deviations, whose last rows repeat in the same way. Only that is read off it.

    Examples
    --------
    Rounding to base 3, where it is not known how often the nearest multiple is taken:

    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     p = pm.Beta("p", 2, 1)
    ...     rows = pt.stack([[0, 0, 1, 0, 0], [0, p, 0, 0, 1 - p], [1 - p, 0, 0, p, 0]])
    ...     published = PerturbedByRows("published", count, rows, like=noise.RandomRounding(3), observed=12)
    """

    rv_type = PerturbedRV
    rv_op = perturbed_op

    @classmethod
    def dist(cls, mu: Any, rows: Any, like: PerturbedLaw, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        table, shape = pt.as_tensor_variable(rows), like.transitions.mass.shape
        if table.ndim != 2 or any(own not in (None, n) for own, n in zip(table.type.shape, shape, strict=True)):
            raise ValueError(f"rows must have the shape {shape} of like.transitions.mass, got {table.type.shape}")
        return super().dist([counts_of(mu, like.name), pt.cast(table, "float64")], law=like, of_counts=True, **kwargs)


def rows_of(model: pm.Model, law: noise.NoiseLaw) -> Any:
    """The variable of a model that has the rows of an unknown law, or of an equal one; None if there is none."""
    own = (rv for rv in model.free_RVs if isinstance(rv.owner.op, PerturbationRowsRV))
    return next((rv for rv in own if rv.owner.op.law == law), None)


@add_likelihood.register
def _add_perturbed(law: PerturbedLaw, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any) -> None:
    """Answers that are real numbers are left to the distribution of the law, which says that it needs counts."""
    if not is_discrete(mu):
        distribution_of(type(law))(name, mu=mu, **parameters, **data)
        return
    rows: Any = pt.constant(law.transitions.mass)
    if isinstance(law, noise.UnknownPerturbation):
        model = pm.modelcontext(None)
        known = rows_of(model, law)
        rows = _new_rows(model, law, name) if known is None else known
    PerturbedByRows(name, mu, rows, like=law, **data)


def _new_rows(model: pm.Model, law: noise.UnknownPerturbation, name: str) -> Any:
    """Add the rows of a law, with their dimensions, which have the name of the measurement before them where theirs are taken."""
    dims = []
    for dim, labels in (("count", law.counts), ("deviation", law.deviations)):
        taken = dim in model.named_vars or tuple(model.coords.get(dim) or labels) != tuple(labels)
        dims.append(f"{name}_{dim}" if taken else dim)
        model.add_coord(dims[-1], labels)
    rows = PerturbationRows(f"{name}_law", law, dims=dims)
    if law.prior != "dirichlet":
        place = pt.argmin(pt.sum(pt.abs(rows - pt.constant(law.tables)), axis=(1, 2)))
        pm.Deterministic(f"{name}_law_variance", pt.constant(law.variances)[place])
    return rows

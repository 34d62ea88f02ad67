"""Perturbed counts whose table of probabilities is a variable of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.abstract import _logprob
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from bayesdp import noise
from bayesdp.distributions._python_draws import applied, drawn_in_python
from bayesdp.distributions.exact_answers import OFF_FIBER
from bayesdp.distributions.independent.tulap_of_counts import are_free
from bayesdp.distributions.likelihoods import add_likelihood
from bayesdp.distributions.parameters import is_discrete
from bayesdp.distributions.perturbed.base import looked_up, perturbed_distribution
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.perturbed.base import PerturbedLaw
from bayesdp.noise.perturbed.transitions import Transitions
from bayesdp.noise.perturbed.unknown import dirichlet_rows

__all__ = ["PerturbationRows", "PerturbationVariance", "PerturbedByRows", "UnknownPerturbation", "rows_of"]


@perturbed_distribution(noise.UnknownPerturbation)
class UnknownPerturbation(pm.Discrete):
    """Counts mu perturbed by a table that is not known: each number by itself, its row integrated out.

    Several numbers tell of one table: give them `PerturbedByRows`, as `bayesdp.observe` does.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     published = UnknownPerturbation("published", mu=count, max_deviation=4, observed=12)
    """


class PerturbationRowsRV(RandomVariable):
    """Random variable of `PerturbationRows`."""

    name = "perturbation_rows"
    signature = "(r,d)->(r,d)"
    dtype = "float64"
    _print_name = ("PerturbationRows", r"\operatorname{PerturbationRows}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, concentrations: Any, size: Sequence[int] | None = None) -> Floats:
        """Draw tables."""
        own = np.asarray(concentrations, dtype=np.float64)
        return dirichlet_rows(rng, own if size is None else np.broadcast_to(own, (*size, *own.shape[-2:])))


class PerturbationVarianceRV(RandomVariable):
    """Random variable of `PerturbationVariance`."""

    name = "perturbation_variance"
    signature = "(k)->()"
    dtype = "float64"
    _print_name = ("PerturbationVariance", r"\operatorname{PerturbationVariance}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, variances: Any, size: Sequence[int] | None = None) -> Any:
        """Draw values."""
        return np.asarray(rng.choice(np.asarray(variances, dtype=np.float64), size))


class PerturbedByRowsRV(RandomVariable):
    """Random variable of `PerturbedByRows`; `law` says which deviations of which counts are possible."""

    name = "perturbed_by_rows"
    signature = "(),(r,d)->()"
    dtype = "int64"
    _print_name = ("PerturbedByRows", r"\operatorname{PerturbedByRows}")
    __props__: tuple[str, ...] = (*RandomVariable.__props__, "law")  # type: ignore[assignment]

    def __init__(self, law: PerturbedLaw, **props: Any) -> None:
        self.law = law
        super().__init__(**props)

    def rng_fn(self, rng: np.random.Generator, mu: Any, rows: Any, size: Sequence[int] | None = None) -> Ints:
        """Draw an array of published counts by one table."""
        counts, table = np.asarray(mu), self.law.transitions
        counts = np.array(counts if size is None else np.broadcast_to(counts, size), order="C")
        return Transitions(table.lowest, np.reshape(rows, table.mass.shape), table.period).draw(rng, counts)

    @staticmethod
    def table(rv: Any) -> Any:
        """The rows of such a variable, without the dimensions that a random variable gives them for its answers."""
        rows = rv.owner.inputs[3]
        return rows.owner.inputs[0] if rows.ndim > 2 else rows

    def log_mass(self, rows: Any) -> Any:
        """Logarithms of the rows, minus infinity for what is not possible."""
        possible = self.law.transitions.mass > 0.0
        return pt.switch(possible, pt.log(pt.switch(possible, rows, 1.0)), -np.inf)


for _kind, _ndim in ((PerturbationRowsRV, 2), (PerturbationVarianceRV, 0), (PerturbedByRowsRV, 0)):
    numba_core_rv_funcify.register(_kind)(lambda op, node, ndim=_ndim: drawn_in_python(op, ndim))


class PerturbationRows(pm.Continuous):
    """Rows of a perturbation table with independent Dirichlet laws; `bayesdp.steps.PerturbationGibbs` draws them.

    Parameters
    ----------
    concentrations : array_like of float, shape (counts, deviations)
        0 where a deviation is not possible, which is then 0.

    Examples
    --------
    >>> pm.draw(PerturbationRows.dist([[0, 1, 0], [2, 2, 2]]), random_seed=1)[0].tolist()
    [0.0, 1.0, 0.0]
    """

    rv_type = PerturbationRowsRV
    rv_op = PerturbationRowsRV()

    @classmethod
    def dist(cls, concentrations: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([pt.as_tensor_variable(np.asarray(concentrations, dtype=np.float64))], **kwargs)

    def support_point(rv: Any, size: Any, concentrations: Any) -> Any:  # PyMC passes the variable
        """Their means."""
        return pt.zeros_like(rv) + concentrations / pt.sum(concentrations, axis=-1, keepdims=True)

    def logp(value: Any, concentrations: Any) -> Any:  # type: ignore[misc]  # as PyMC has it
        """Sum over rows; minus infinity where a deviation that is not possible has a probability."""
        possible = pt.gt(concentrations, 0)
        own = pt.switch(possible, concentrations, 1.0)
        each = (own - 1.0) * pt.log(pt.switch(possible, value, 1.0)) - pt.gammaln(own)
        rows = pt.sum(each, axis=-1) + pt.gammaln(pt.sum(concentrations, axis=-1))
        sums = pt.all(pt.lt(pt.abs(pt.sum(value, axis=-1) - 1.0), 1e-6), axis=-1)
        inside = sums & pt.all(pt.switch(possible, pt.ge(value, 0), pt.eq(value, 0)), axis=(-1, -2))
        return pt.switch(inside, pt.sum(rows, axis=-1), -np.inf)


class PerturbationVariance(pm.Continuous):
    """One of some variances, all equally likely; `bayesdp.steps.PerturbationGibbs` draws it.

    Parameters
    ----------
    variances : array_like of float, shape (k,)
        As `bayesdp.noise.UnknownPerturbation.variances`.

    Examples
    --------
    >>> round(float(pm.logp(PerturbationVariance.dist([1.0, 1.5, 2.0]), 1.5).eval()), 4)
    -1.0986
    """

    rv_type = PerturbationVarianceRV
    rv_op = PerturbationVarianceRV()

    @classmethod
    def dist(cls, variances: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([pt.as_tensor_variable(np.asarray(variances, dtype=np.float64))], **kwargs)

    def support_point(rv: Any, size: Any, variances: Any) -> Any:  # PyMC passes the variable
        """The one in the middle."""
        return pt.zeros_like(rv) + variances[..., variances.shape[-1] // 2]

    def logp(value: Any, variances: Any) -> Any:  # type: ignore[misc]  # as PyMC has it
        """Minus the logarithm of their number."""
        known = pt.any(pt.eq(value[..., None], variances), axis=-1)
        return pt.switch(known, -pt.log(variances.shape[-1]), -np.inf)


class PerturbedByRows(pm.Discrete):
    """Counts published for counts mu, with probabilities that are variables of the model.

    The posterior kernel of a `ConfidentialCounts` takes the rows as they stand at each draw. Where an answer is not possible, the
    log-mass is a large negative constant while mu is being sampled, as for exact answers: other variables may be sampled before the step
    method of the counts has moved the start.

    Parameters
    ----------
    mu : tensor_like of int
        The true counts.
    rows : tensor_like of float, shape (counts, deviations)
        Row x for counts x from 0 on, each with sum 1, in the layout of ``like.transitions.mass``: a `PerturbationRows`, or any
        expression, such as a table for rounding with an unknown probability.
    like : PerturbedLaw
        A known law with the same possible deviations, whose last rows repeat in the same way. Only what is possible is read off it.

    Raises
    ------
    TypeError, ValueError
        If `mu` holds real numbers, or the shape of `rows` is another.

    Examples
    --------
    Rounding to base 3, where it is not known how often the nearest multiple is taken:

    >>> import pytensor.tensor as pt
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     p = pm.Beta("p", 2, 1)
    ...     rows = pt.stack([[0, 0, 1, 0, 0], [0, p, 0, 0, 1 - p], [1 - p, 0, 0, p, 0]])
    ...     published = PerturbedByRows("published", count, rows, like=noise.RandomRounding(3), observed=12)
    """

    rv_type = PerturbedByRowsRV

    @classmethod
    def rv_op(cls, mu: Any, rows: Any, *, law: PerturbedLaw, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this law."""
        return applied(PerturbedByRowsRV(law), mu, rows, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, rows: Any, like: PerturbedLaw, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, table = pt.as_tensor_variable(mu), pt.as_tensor_variable(rows)
        if not is_discrete(location):
            raise TypeError(
                f"mu must hold counts, whole numbers, under the law {like.name!r}, got a variable of {location.dtype} "
                "(ConfidentialCounts has whole numbers; ContinuousCounts has not)"
            )
        shape = like.transitions.mass.shape
        if table.ndim != 2 or any(own not in (None, n) for own, n in zip(table.type.shape, shape, strict=True)):
            raise ValueError(
                f"rows must have the shape {shape} of like.transitions.mass, got {table.type.shape}"
            )
        return super().dist([pt.cast(location, "int64"), pt.cast(table, "float64")], law=like, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, rows: Any) -> Any:  # PyMC passes the variable
        """The counts themselves."""
        return pt.zeros_like(rv) + mu


@_logprob.register(PerturbedByRowsRV)
def _by_rows_logp(op: PerturbedByRowsRV, values: Any, rng: Any, size: Any, mu: Any, rows: Any, **_: Any) -> Any:
    mass = looked_up(op.law.transitions, values[0], mu, op.log_mass(rows))
    return pt.maximum(mass, OFF_FIBER) if are_free(mu) else mass


def rows_of(model: pm.Model, law: noise.NoiseLaw) -> Any:
    """The rows of an unknown law in a model, which all measurements with an equal law have; None without."""
    for rv in model.observed_RVs:
        if isinstance(rv.owner.op, PerturbedByRowsRV) and rv.owner.op.law == law:
            return PerturbedByRowsRV.table(rv)
    return None


@add_likelihood.register
def _add_unknown(
    law: noise.UnknownPerturbation, name: str, mu: Any, parameters: Any, *, invariants: None, **data: Any
) -> None:
    """Add the rows, unless an equal law has them, and the observed variable."""
    model = pm.modelcontext(None)
    rows = rows_of(model, law)
    if rows is None:
        dims = tuple(_dim(model, name, *own) for own in (("count", law.counts), ("deviation", law.deviations)))
        if law.prior == "dirichlet":
            rows = PerturbationRows(f"{name}_law", law.concentrations, dims=dims)
        else:
            variance = PerturbationVariance(f"{name}_law_variance", law.variances)
            place = pt.argmin(pt.abs(pt.constant(law.variances) - variance))
            rows = pm.Deterministic(f"{name}_law", pt.constant(law.rows_by_variance)[place], dims=dims)
    PerturbedByRows(name, mu, rows, like=law, **data)


def _dim(model: pm.Model, name: str, dim: str, labels: Ints) -> str:
    """The dimension, with the name of the measurement before it where the model has another of that name."""
    known = model.coords.get(dim)
    own = f"{name}_{dim}" if dim in model.named_vars or (known is not None and tuple(known) != tuple(labels)) else dim
    if own not in model.coords:
        model.add_coord(own, labels)
    return own

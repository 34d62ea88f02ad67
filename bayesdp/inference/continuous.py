"""Counts as real numbers on the space of the exact answers: an approximation for large counts, sampled by NUTS alone.

The table, whose coordinates are a flat variable without prior draws; log-densities of laws of whole numbers between these; and
the declaration, in a posterior, of what the approximation costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.dist_math import check_parameters, factln, logpow
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.logprob.basic import logp
from pymc.util import check_dist_not_registered
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.variable import TensorVariable

from bayesdp._validate import shown
from bayesdp.inference.coordinates import coordinates_of
from bayesdp.inference.observed import continuous_tables, observe_noisy, remember, remember_continuous, shape_of
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]

_ELEMENTWISE = {"PoissonRV", "NegBinomialRV", "BinomialRV", "BetaBinomialRV"}
"""Mass functions whose formula in PyMC, with gamma functions for factorials, holds between whole numbers."""

_OF_A_TOTAL = {"MultinomialRV": "Multinomial", "DirichletMultinomialRV": "DirichletMultinomial"}
"""Mass functions that PyMC sets to zero where rounding errors change the total: written out below."""

_WITH_N = {"BinomialRV": 0, "BetaBinomialRV": 0, **dict.fromkeys(_OF_A_TOTAL, 0)}
"""Position of the parameter n, by law."""

_REASON = (
    "the coordinates of ContinuousCounts have no prior of their own: the prior of the table, restricted to the exact answers, "
    "is known up to a constant and cannot be drawn from directly. bayesdp.inference.add_prior_predictive(tree, model) draws "
    "tables from the base, before any exact answer, and noisy tables around them"
)

MEAN_COUNTS = (1, 5, 20, 100, 1000)
"""Mean counts of the three cells for which the error is known."""

SCALES = (2.0, 10.0)
"""Scales b of the discrete Laplace noise for which it is known."""

MEAN_ERROR = ((0.37, 0.09), (0.05, 0.05), (0.00, 0.01), (0.00, 0.00), (0.00, 0.00))
"""Largest error of a posterior mean, in posterior standard deviations: a row a mean count, a column a scale."""

SD_ERROR = ((0.25, 0.28), (0.02, 0.05), (0.03, 0.00), (0.03, 0.00), (0.03, 0.00))
"""Largest error of a posterior standard deviation, in the same units."""

_CASE = (
    "three cells of half, once and one and a half times the mean count, their sum exact, discrete Laplace noise of scale b, "
    "Poisson counts with a Gamma(2) rate each; by summation and quadrature"
)


@dataclass(frozen=True, eq=False)
class ContinuousTable:
    """What a model knows about a table of continuous counts."""

    variable: Any  # the table in the model
    release: Release  # whose exact part it obeys
    fixed: npt.NDArray[np.bool_]  # cells that have one value only, shape (*table)
    base: Any  # an unnamed PyMC distribution: the prior of the counts, with its own shape

    @property
    def coordinates_name(self) -> str:
        """Name of the free variable behind the table."""
        return f"{self.variable.name}_coordinates"

    @property
    def prior(self) -> str:
        """The prior in words: the model's own text knows a Potential only."""
        kind = type(self.base.owner.op).__name__.removesuffix("RV")
        name = self.variable.name
        return (
            f"{name}: real numbers, nonnegative, that agree with the exact values (continuous relaxation), with the density of "
            f"the base {kind}, which is {name}_density; {self.coordinates_name} are coordinates of that space, without a prior "
            "of their own"
        )


def ContinuousCounts(name: str, base: Any, release: Release) -> Any:
    r"""Counts as real numbers, nonnegative and with the exact answers of a release: a fast approximation for large counts.

    .. math:: p(x \mid \theta) \propto \text{base}(x \mid \theta), \qquad x \in \mathbb{R}^{cells}, \; A x = t, \; x \ge 0

    with respect to volume on the space ``A x = t``. `bayesdp.observe` adds the noisy answers. All variables are then
    continuous: NUTS samples counts and parameters together (`bayesdp.sample` takes nutpie where it is installed). As with
    `bayesdp.ConfidentialCounts`, what the exact answers say about the parameters is used: the integral over the space
    stands for the sum over the fiber.

    A function rather than a distribution: it adds three variables to the model.

    ``{name}_coordinates``
        Free, flat: unconstrained coordinates of the space, scaled so that they are of order 1 in the posterior. For
        disjoint totals (or no exact answers) shares of what is left of the total, without any dense matrix; otherwise
        orthonormal coordinates of ``null(A)``, rotated, scaled, and stretched so that the boundary is at infinity.
    ``{name}``
        Deterministic, with the dimensions of the release: the table.
    ``{name}_density``
        Potential: log-density of the base at the table, and of the change of variables. Constants are left out.

    Parameters
    ----------
    name : str
    base : unnamed PyMC distribution
        Of whole numbers, continued by the gamma function: Poisson, negative binomial, binomial, beta-binomial,
        multinomial, Dirichlet-multinomial. Or any continuous distribution, such as ``pm.Normal.dist(mean, sd)`` or
        ``pm.Gamma.dist``; its density is not renormalised to ``x >= 0``.
    release : Release
        Its exact part defines the space, bounds included. Its noisy part is used to choose the coordinates, and enters
        the posterior by `bayesdp.observe` only.

    Returns
    -------
    tensor variable, shape ``(*table)``

    Raises
    ------
    TypeError
        If an argument has the wrong type, or the mass function of `base` has no continuation.
    ValueError
        If the model's labels differ from those of the release, nothing is left free, no table agrees with the exact
        answers, or n of a multinomial law is not what the exact answers say.
    NotImplementedError
        If a dense matrix of more than 4,000,000 entries (cells times free dimensions) would be needed: not for disjoint
        totals without bounds under a prior without bounds. Also if n of a binomial law is not a constant.

    See Also
    --------
    bayesdp.ConfidentialCounts : whole numbers, without approximation.

    Notes
    -----
    No proposal is ever outside of the space, so that cells near 0 cause no divergences. With exact answers other than
    disjoint totals, a posterior piled up at the boundary has kinks there (rays to different faces of the space), which
    slow NUTS down. So do laws with absolute values (Laplace), which have a kink at every published number: the number of
    steps grows with the square root of the cells. For thousands of cells under such noise `ConfidentialCounts` is faster.

    What the approximation costs, against the exact posterior of whole numbers: the largest error of a posterior mean, and
    of a posterior standard deviation, in posterior standard deviations. Three cells of half, once and one and a half times
    the mean count; their sum exact; discrete Laplace noise of scale b, the numbers published being 0.9 b above, 1.3 b below
    and 0.6 b above the counts; Poisson counts with a Gamma(2) rate each. By summation and quadrature:

    ==========  =============  ===========  =============  ===========
    mean count  mean, b = 2    sd, b = 2    mean, b = 10   sd, b = 10
    ==========  =============  ===========  =============  ===========
    1           0.37           0.25         0.09           0.28
    5           0.05           0.02         0.05           0.05
    20          0.00           0.03         0.01           0.00
    100         0.00           0.03         0.00           0.00
    1000        0.00           0.03         0.00           0.00
    ==========  =============  ===========  =============  ===========

    So cells near 0 are what it is wrong about; the 0.03 that stay at b = 2 are the kinks of the law between whole numbers
    (with discrete Gaussian noise of sigma 2 they are below 0.001).

    ``pm.sample_prior_predictive`` is refused: the prior restricted to the exact answers cannot be drawn from directly.
    `bayesdp.inference.add_prior_predictive` draws tables from the base, before any published number, exact ones included.
    Posterior predictive draws under a lattice law are refused, as it draws around whole numbers only.

    The posterior says that it is a relaxation: `bayesdp.sample` adds the group ``relaxation``, with the errors above, which
    summaries, pictures and reports read. Nothing is rounded.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> county = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> release = bdp.Release.from_published(
    ...     county,
    ...     measured=[bdp.Measured(bdp.Identity(county), [1210, 305, 4480], bdp.noise.DiscreteGaussian(sigma=20.0))],
    ...     exact=[bdp.Exact(bdp.Totals(county), 6000)],
    ... )
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2.0, 0.001, dims="county")
    ...     x = bdp.ContinuousCounts("x", pm.Poisson.dist(rate), release)
    ...     bdp.observe(release, x)
    >>> [variable.name for variable in model.free_RVs]
    ['rate', 'x_coordinates']
    """
    if not name or not isinstance(name, str):
        raise TypeError(f"name must be a non-empty string, got {name!r}")
    if not isinstance(release, Release):
        raise TypeError(f"release must be a bayesdp.Release, got {type(release).__name__}")
    check_base(base)
    _check_shape(base, release)
    model = pm.modelcontext(None)
    _check_labels(model, release)
    coordinates = coordinates_of(release, caps(base, release))
    free = FreeCoordinates(f"{name}_coordinates", shape=coordinates.size)
    flat, log_jacobian = coordinates.table(free)
    x = pm.Deterministic(name, pt.reshape(flat, release.frame.shape), dims=release.dims)
    pm.Potential(f"{name}_density", continued_logp(base, x) + log_jacobian)
    table = ContinuousTable(x, release, coordinates.fixed.reshape(release.frame.shape), base)
    remember_continuous(model, name, table)
    return x


def _check_shape(base: Any, release: Release) -> None:
    shape = shape_of(base)
    if base.owner.op.ndim_supp == 0:
        padded = (1,) * (len(release.frame.shape) - len(shape)) + shape
        fits = len(padded) == len(release.frame.shape) and all(
            n in (1, m) for n, m in zip(padded, release.frame.shape, strict=True)
        )
    else:
        fits = np.prod(shape, dtype=np.int64) == release.frame.size
    if not fits:
        raise ValueError(f"base must fit the table of the release, of shape {release.frame.shape}, got shape {shape}")


def _check_labels(model: pm.Model, release: Release) -> None:
    for dim, labels in zip(release.dims, release.frame.labels, strict=True):
        given = model.coords.get(dim)
        if given is None or tuple(given) != tuple(labels):
            problem = "lacks the dimension" if given is None else "has other labels than the release for"
            raise ValueError(f"the model {problem} {dim!r}; build it with pm.Model(coords=release.coords)")


def observe_continuous(release: Release, x: Any) -> None:
    """Add the noisy part of a release to the current model; the exact part of continuous counts holds by construction."""
    # `bayesdp.observe` calls it for tables of `ContinuousCounts`. Lattice laws enter with their formula between whole numbers.
    # `release`: the one that the table was made for, or another about the same table without further exact answers.
    model = pm.modelcontext(None)
    made_for = continuous_tables(model)[x.name].release
    if not release.frame.same_cells(made_for.frame):
        raise ValueError(f"the release must be about the table of {x.name}, {made_for.frame}, got {release.frame}")
    new = [part for part in release.exact if part not in made_for.exact]
    if new:
        raise ValueError(
            f"{x.name} was made for the exact answers of another release and does not obey {shown(new, 2)}. Put all exact "
            "answers into one Release and pass it to ContinuousCounts"
        )
    data = [observe_noisy(model, measured, x) for measured in release.measurements]
    remember(model, release, x.name, {published.name: published.get_value() for published in data})


def _kind(base: Any) -> str:
    return type(base.owner.op).__name__


def _parameters(base: Any) -> list[Any]:
    op = base.owner.op
    return list(op.dist_params(base.owner))


def check_base(base: Any) -> None:
    """Check that `base` is an unnamed distribution with a density, or with a mass function that can be continued."""
    owner = getattr(base, "owner", None)
    if not isinstance(base, TensorVariable) or not isinstance(
        getattr(owner, "op", None), RandomVariable | SymbolicRandomVariable
    ):
        raise TypeError(f"base must be an unnamed PyMC distribution such as pm.Poisson.dist(3), got {base!r}")
    check_dist_not_registered(base)
    if base.dtype in discrete_dtypes and _kind(base) not in {*_ELEMENTWISE, *_OF_A_TOTAL}:
        raise TypeError(
            f"base {base.owner.op} has no continuation between whole numbers here. Use pm.Poisson, pm.NegativeBinomial, "
            "pm.Binomial, pm.BetaBinomial, pm.Multinomial or pm.DirichletMultinomial, a continuous distribution such as "
            "pm.Gamma, or ConfidentialCounts, which takes every distribution of whole numbers"
        )


def _constant_n(base: Any) -> Floats | None:
    """The parameter n of a base; None for a law without one."""
    where = _WITH_N.get(_kind(base))
    if where is None:
        return None
    n = _parameters(base)[where]
    if any(not isinstance(v, Constant) for v in graph_inputs([n])):
        raise NotImplementedError(
            f"n of the base {base.owner.op} must be a number or an array: it limits the table, whose coordinates are fixed "
            "before sampling. ConfidentialCounts takes a random n, or one in pm.Data"
        )
    return np.asarray(n.eval(), dtype=np.float64)


def caps(base: Any, release: Release) -> Floats:
    """The largest value of each cell under the base, shape (cells,); infinity for none."""
    # NotImplementedError if n is not a constant.
    n, shape = _constant_n(base), release.frame.shape
    if n is None:
        return np.full(release.frame.size, np.inf)
    if _kind(base) not in _OF_A_TOTAL:
        return np.broadcast_to(n, shape).reshape(-1).astype(np.float64)
    width = shape_of(base)[-1]
    groups = np.arange(release.frame.size) // width
    start = release.fiber.find_point().reshape(-1)
    totals = np.broadcast_to(n, (groups[-1] + 1,))
    for group in range(groups[-1] + 1):
        members = (groups == group).astype(np.float64)
        implied = np.abs(release.invariants.project(members.reshape(shape))).max() < 1e-9
        if not implied or members @ start != totals[group]:
            raise ValueError(
                f"n = {totals[group]:g} of the {_OF_A_TOTAL[_kind(base)]} base must be what the exact answers say of the "
                f"total of its cells, from {release.frame.cell_name(int(np.argmax(members)))} on: "
                + (f"they say {members @ start:g}" if implied else "they leave it open")
            )
    return np.full(release.frame.size, np.inf)


def continued_logp(base: Any, x: Any) -> Any:
    """Log-density of a table, a scalar: the base's own, or its mass function with gamma functions for factorials."""
    # `x`, shape `(*table)`: nonnegative. A multivariate base over a vector gets the flat table.
    value = x if base.owner.op.ndim_supp == 0 else pt.reshape(x, base.shape, ndim=base.ndim)
    if _kind(base) not in _OF_A_TOTAL:
        return pt.sum(logp(base, value))
    n, weight = (
        pt.cast(parameter, "float64") for parameter in _parameters(base)
    )  # small integers would give single precision
    if _kind(base) == "MultinomialRV":
        density = factln(n) + pt.sum(logpow(weight, value) - factln(value), axis=-1)
        good = pt.all(weight >= 0) & pt.all(pt.isclose(pt.sum(weight, axis=-1), 1.0))
        return pt.sum(check_parameters(density, good, msg="p >= 0, sum(p) = 1"))
    whole = pt.sum(weight, axis=-1)
    density = factln(n) + pt.gammaln(whole) - pt.gammaln(n + whole)
    density += pt.sum(pt.gammaln(value + weight) - pt.gammaln(weight) - factln(value), axis=-1)
    return pt.sum(check_parameters(density, pt.all(weight > 0), msg="a > 0"))


class FreeCoordinatesRV(RandomVariable):
    """Random variable of `FreeCoordinates`."""

    name = "free_coordinates"
    signature = "->()"
    dtype = "floatX"
    _print_name = ("FreeCoordinates", r"\operatorname{FreeCoordinates}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, size: Sequence[int] | None = None) -> Any:
        """Raise NotImplementedError: there is no prior to draw from."""
        raise NotImplementedError(_REASON)


class FreeCoordinates(pm.Continuous):
    """Unconstrained, with log-density 0: what a Potential says of them is their whole density."""

    rv_op = FreeCoordinatesRV()

    @classmethod
    def dist(cls, **kwargs: Any) -> Any:
        """Make an unregistered variable."""
        return super().dist([], **kwargs)

    def support_point(rv: Any, size: Any) -> Any:  # PyMC passes the variable
        """Give zero, which the coordinates map to a table well inside."""
        return pt.zeros(() if rv_size_is_none(size) else size)  # not of rv itself, which would be drawn

    def logp(value: Any) -> Any:  # PyMC passes the value
        """Give zero."""
        return pt.zeros_like(value)


def declaration(name: str) -> xr.Dataset:
    """The group ``relaxation`` of a posterior: which table it is, and the error against whole numbers in the case it describes."""
    dims = ("mean_count", "b")
    return xr.Dataset(
        {"mean_error": (dims, np.array(MEAN_ERROR)), "sd_error": (dims, np.array(SD_ERROR))},
        coords={"mean_count": list(MEAN_COUNTS), "b": list(SCALES)},
        attrs={
            "variable": name,
            "kind": "continuous relaxation",
            "text": f"{name} holds real numbers that stand for whole ones; draws are not rounded",
            "case": _CASE,
        },
    )

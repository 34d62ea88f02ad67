"""What papers publish, in PyMC models and in pictures: shares of noisy proportions, and covariance matrices of Gaussian records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from matplotlib.figure import Figure
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp._validate import choice, positive_integer
from bayesdp.distributions.registry import PROPS, PythonRV, applied, location, register_distribution, scale
from bayesdp.inference.observing import observe
from bayesdp.papers import bounded_statistics, covariance_cone
from bayesdp.papers.bounded_statistics import RULES, proportions
from bayesdp.papers.covariance_cone import CovarianceRelease, JointCovarianceRelease
from bayesdp.papers.semi_dp import SideInformationCurve
from bayesdp.plots.style import COLOURS, figure, style
from bayesdp.release import Measured, Release

__all__ = [
    "BoxNorm", "RescaledLaplace", "draw_side_information", "observe_covariance", "rescaled_logp",
    "sample_covariance",
]  # fmt: skip


class VectorRV(PythonRV):
    """Random variable of vectors whose inputs are a location and a scale for each entry, drawn by `rng_fn`."""

    signature = "(k),(k)->(k)"
    dtype = "float64"
    drawn: Any

    def rng_fn(self, rng: np.random.Generator, mu: Any, b: Any, size: Sequence[int] | None = None) -> Any:
        """Draw a vector around each location of the batch."""
        centre, spread = np.broadcast_arrays(np.asarray(mu, dtype=np.float64), np.asarray(b, dtype=np.float64))
        return self.drawn(rng, centre, spread, centre.shape if size is None else (*size, centre.shape[-1]))


@_logprob.register(VectorRV)
def _logp(op: Any, values: Any, rng: Any, size: Any, mu: Any, b: Any, **_: Any) -> Any:
    return check_parameters(op.log_density(values[0], mu, b), b > 0, msg="b > 0")


def _parameters(mu: Any, b: Any) -> list[Any]:
    return list(pt.broadcast_arrays(pt.cast(location(mu), "float64"), scale(b, "b")))


class RescaledLaplaceRV(VectorRV):
    """Random variable of `RescaledLaplace`, which holds the rule."""

    name = "rescaled_laplace"
    __props__ = (*PROPS, "rule")  # type: ignore[assignment]  # PyTensor's has four
    rule: str
    law_type = bounded_statistics.RescaledLaplace

    def drawn(self, rng: Any, centre: Any, spread: Any, shape: tuple[int, ...]) -> Any:
        """Shares for each vector of proportions."""
        return self.law_type(np.broadcast_to(spread, shape), self.rule).draw(rng, shape, location=centre)

    def log_density(self, value: Any, mu: Any, b: Any) -> Any:
        """That of the law; ``-inf`` for what are no shares."""
        return self.law_type._log_density(pt, value, mu, b, self.rule)


class RescaledLaplace(pm.Continuous):
    r"""Shares ``y / sum(y)`` of Laplace values y around the proportions mu, kept within 0 and 1.

    Give it ``observed`` values: clipping puts mass on faces of the simplex, onto which gradient-based steps cannot move a
    free variable. With respect to mu the log-density has the right gradient.

    Parameters
    ----------
    mu : tensor_like of float, shape (..., categories)
        The confidential proportions, for example counts divided by n.
    b, rule : tensor_like of float, shape () or (categories,); {"boundary-inflated", "truncated"}
        Scale of the noise before the division (b > 0), and how the noisy values are kept between 0 and 1.

    See Also
    --------
    bayesdp.papers.bounded_statistics.RescaledLaplace : the same law without PyMC, with its formula.
    bayesdp.papers.bounded_statistics.RescaledProportions : the mechanism; it takes privacy parameters.

    Examples
    --------
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     shares = RescaledLaplace("shares", mu=p, b=0.1, observed=[0.0, 0.4, 0.6])
    """

    rv_type = RescaledLaplaceRV

    @classmethod
    def rv_op(cls, mu: Any, b: Any, *, rule: str, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this rule."""
        return applied(RescaledLaplaceRV(rule=rule), mu, b, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, b: Any, rule: str = "boundary-inflated", **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist(_parameters(mu, b), rule=choice(rule, RULES, "rule"), **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """Equal shares, which every law can give."""
        return pt.zeros_like(rv) + 1.0 / mu.shape[-1]


register_distribution(bounded_statistics.RescaledLaplace, RescaledLaplace)


def rescaled_logp(law: bounded_statistics.RescaledLaplace, shares: npt.ArrayLike, mu: Any) -> Any:
    """Log-density of published shares given confidential proportions, for `pymc.Potential`.

    A release needs none of this: `bayesdp.observe` adds it.

    Parameters
    ----------
    law, shares : bayesdp.papers.bounded_statistics.RescaledLaplace; array_like, shape (categories,)
        Published shares are numbers: they decide on which face of the simplex the density is.
    mu : tensor, shape (categories,)
        Confidential proportions, for example counts divided by n.

    Examples
    --------
    >>> law = bounded_statistics.RescaledLaplace(0.1, "boundary-inflated")
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     shares = pm.Potential("shares", rescaled_logp(law, [0.0, 0.4, 0.6], p))
    """
    r = proportions(shares, "shares")
    if r.ndim != 1 or not np.isfinite(law.log_density(r, r)):
        raise ValueError(
            f"shares must be a vector that the law can give, at least 0 and adding up to 1, got {shares!r}"
        )
    return law.log_kernel(pt, pt.constant(r), pt.as_tensor_variable(mu), law.b, law.rule)


class BoxNormRV(VectorRV):
    """Random variable of `BoxNorm`."""

    name = "box_norm"
    law_type = covariance_cone.BoxNorm

    def drawn(self, rng: Any, centre: Any, spread: Any, shape: tuple[int, ...]) -> Any:
        """Vectors, each with a radius of its own."""
        radius = rng.standard_gamma(shape[-1] + 1.0, (*shape[:-1], 1))
        return centre + spread * radius * rng.uniform(-1.0, 1.0, shape)

    def log_density(self, value: Any, mu: Any, b: Any) -> Any:
        """That of the law."""
        return self.law_type.log_kernel(pt, value, mu, b)


class BoxNorm(pm.Continuous):
    r"""Vectors around mu with density ``exp(-max_i |y_i - mu_i| / b_i) / (d! prod_i 2 b_i)``.

    Parameters
    ----------
    mu : tensor_like of float, shape (..., d)
        What the noise was added to.
    b : tensor_like of float, shape () or (d,)
        Scales (b > 0).

    See Also
    --------
    bayesdp.papers.covariance_cone.BoxNorm : the same law without PyMC.
    bayesdp.papers.covariance_cone.JointCovariance : the mechanism; it takes privacy parameters.

    Examples
    --------
    >>> with pm.Model():
    ...     variances = pm.HalfNormal("variances", shape=2)
    ...     noisy = BoxNorm("noisy", mu=variances, b=0.1, observed=[0.4, 1.3])
    """

    rv_type = BoxNormRV

    @classmethod
    def rv_op(cls, mu: Any, b: Any, *, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable."""
        return applied(BoxNormRV(), mu, b, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, b: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist(_parameters(mu, b), **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """The location."""
        return pt.zeros_like(rv) + mu


register_distribution(covariance_cone.BoxNorm, BoxNorm)


def sample_covariance(name: str, chol: Any, n: int, size: int) -> Any:
    """Add the confidential sample covariance matrix (divisor n - 1) of n Gaussian records to the model on the stack, and return it.

    ``(n - 1) S`` has a Wishart law, written as ``(L B)(L B)^T`` with the Cholesky factor L of the covariance and Bartlett's
    lower triangular B: roots of chi-square variables on the diagonal, standard normal ones below it. These are free
    variables that gradient-based steps move without constraints.

    Parameters
    ----------
    name : str
        Name of the matrix; the variables are ``<name>_squares`` and, for two or more, ``<name>_normals``.
    chol : tensor, shape (size, size)
        Cholesky factor of the covariance of the population, for example of `pymc.LKJCholeskyCov`.
    n, size : int
        Numbers of records and of variables, which are fewer.
    """
    records, width = positive_integer(n, "n"), positive_integer(size, "size")
    if records <= width:
        raise ValueError(f"n must be more than the number of variables, {width}, got {n}")
    squares = pm.ChiSquared(f"{name}_squares", records - 1.0 - np.arange(width), shape=width)
    factor = pt.diag(pt.sqrt(squares))
    if width > 1:
        below = np.tril_indices(width, -1)
        factor = pt.set_subtensor(factor[below], pm.Normal(f"{name}_normals", shape=len(below[0])))
    root = _product(chol, factor)
    return pm.Deterministic(name, _product(root, root.T) / (records - 1.0))


def _product(a: Any, b: Any) -> Any:
    """Matrix product without BLAS, which PyTensor does not find everywhere and then warns about; matrices are small."""
    return pt.sum(a[:, :, None] * b[None, :, :], axis=1)


def observe_covariance(release: Release, chol: Any, name: str = "noisy", sample: str = "sample_covariance") -> Any:
    """Condition the model on the stack on a released covariance matrix of Gaussian records; returns the confidential matrix.

    `sample_covariance` and `bayesdp.observe` in one: for other models of the records, call `observe` with their covariance matrix. The
    records are taken to be Gaussian although they are bounded: with bounds that are many standard deviations wide the difference is
    small. A covariance between variables of which one has a released variance of 0 is 0 without noise, and tells nothing.

    Parameters
    ----------
    release, chol : Release; tensor, shape (variables, variables)
        Of a covariance matrix, as its mechanism or a file gives it; Cholesky factor of the covariance of the population.
    name, sample : str
        Names of the observed elements, and of the confidential matrix; see `sample_covariance`.

    Examples
    --------
    >>> mechanism = covariance_cone.CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)])
    >>> release = mechanism.release([[1.0, 0.5], [0.5, 2.0]], rng=np.random.default_rng(3))
    >>> with pm.Model() as model:
    ...     chol, correlations, deviations = pm.LKJCholeskyCov("chol", n=2, eta=1.0, sd_dist=pm.HalfNormal.dist(3.0))
    ...     matrix = observe_covariance(release, chol)
    >>> [variable.name for variable in model.observed_RVs]
    ['noisy']
    """
    if not isinstance(release, Release):
        raise TypeError(f"release must be a CovarianceRelease or a JointCovarianceRelease, got {release!r}")
    joint = (release.mechanism or {}).get("mechanism") == "joint-covariance"
    known = JointCovarianceRelease.of(release) if joint else CovarianceRelease.of(release)
    matrix = sample_covariance(sample, chol, known.n, len(known.names))
    if name != "noisy":
        [part] = release.measurements
        named = Measured(part.query, part.given, part.law, name=name, unmeasured=part.unmeasured)
        release = replace(release, measurements=(named,))
    observe(release, matrix)
    return matrix


def draw_side_information(curve: SideInformationCurve, loss: Mapping[str, float]) -> Figure:
    """Draw what is left of a guarantee about tables with the same exact answers, against the number of known records.

    Above: the share of records without any alternative, and the share of what records could claim that is still protected; means
    over the random orders, with the range of all orders. Below: the loss at the distance that the remaining records need; it
    may fall because less is left to protect. Where in some orders nothing is left, the mean is of the others.

    Parameters
    ----------
    curve, loss : SideInformationCurve, mapping
        `bayesdp.papers.semi_dp.side_information_curve`; the loss of one substituted record, such as ``{"rho": 2.56}``.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> margins = bdp.Margins({"sex": ["F", "M"], "admitted": ["no", "yes"]}, ["sex"], ["admitted"])
    >>> exact, table = [bdp.Exact(margins, margins.apply([[4, 1], [2, 3]]))], [[4, 1], [2, 3]]
    >>> curve = bdp.papers.semi_dp.side_information_curve(exact, table, orders=5, rng=1)
    >>> draw_side_information(curve, {"epsilon": 0.5}).axes[1].get_xlabel()
    'number of known records'
    """
    if not isinstance(curve, SideInformationCurve):
        raise TypeError(f"curve must be a SideInformationCurve, got {type(curve).__name__}")
    losses, name = curve.losses(loss), next(iter(loss))
    left = ~np.isnan(losses).all(axis=0)
    with style():
        picture = figure(6.4)
        above, below = picture.subplots(2, 1, sharex=True, height_ratios=(3, 2))

        def draw(
            axes: Any, known: Any, values: Any, line: str, colour: str, band: str, alpha: float, label: str = ""
        ) -> None:
            low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
            axes.plot(known, np.nanmean(values, axis=0), line, color=COLOURS[colour], markersize=4, label=label)
            axes.fill_between(known, low, high, color=COLOURS[band], alpha=alpha, linewidth=0.0)
            axes.grid(color=COLOURS["grid"])

        draw(above, curve.known, curve.claims, "-o", "posterior", "posterior", 0.2, "alternatives still protected")
        draw(above, curve.known, curve.unprotected, "--s", "release", "release", 0.2, "records without any alternative")
        draw(below, curve.known[left], losses[:, left], "-o", "truth", "determined", 0.25)
        above.set(ylim=(-0.03, 1.03), ylabel="share", title="What is left when some records are known")
        above.legend(frameon=False, loc="center left")
        top = 1.1 * float(np.nanmax(losses[:, left], initial=0.0)) or 1.0
        rest = {"epsilon": "ε", "rho": "ρ of zCDP", "mu": "μ of GDP"}.get(name, name)
        below.set(
            ylim=(0.0, top), ylabel=f"{rest} of the rest", xlim=(0, curve.records), xlabel="number of known records"
        )
    return picture

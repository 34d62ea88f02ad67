"""The confidential sample covariance matrix of Gaussian records as a part of a PyMC model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayesdp._validate import positive_integer
from bayesdp.inference.observing import observe
from bayesdp.mechanisms.bounded.covariance_release import CovarianceRelease
from bayesdp.mechanisms.bounded.joint_covariance import JointCovarianceRelease
from bayesdp.release import Measured, Release


def sample_covariance(name: str, chol: Any, n: int, size: int) -> Any:
    """Add the confidential sample covariance matrix of n Gaussian records to the model on the stack.

    ``(n - 1) S`` has a Wishart law, written as ``(L B)(L B)^T`` with the Cholesky factor L of the covariance and Bartlett's
    lower triangular B: roots of chi-square variables on the diagonal, standard normal ones below it. These are free
    variables that gradient-based steps move without constraints.

    Parameters
    ----------
    name : str
        Name of the matrix; the variables are ``<name>_squares`` and, for two or more, ``<name>_normals``.
    chol : tensor, shape (size, size)
        Cholesky factor of the covariance of the population, for example of `pymc.LKJCholeskyCov`.
    n : int
        Number of records, more than `size`.
    size : int
        Number of variables.

    Returns
    -------
    tensor, shape (size, size)
        With divisor n - 1.

    Raises
    ------
    ValueError
        If there are not more records than variables: the Wishart law then has no density.
    """
    records, width = positive_integer(n, "n"), positive_integer(size, "size")
    if records <= width:
        raise ValueError(f"n must be more than the number of variables, {width}, got {n}")
    degrees = records - 1.0 - np.arange(width)
    squares = pm.ChiSquared(f"{name}_squares", degrees, shape=width)
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
    """Condition the model on the stack on a released covariance matrix of Gaussian records.

    `sample_covariance` and `bayesdp.observe` in one: for other models of the records, call `observe` with their covariance matrix.

    Parameters
    ----------
    release : CovarianceRelease, JointCovarianceRelease or Release
        Of a covariance matrix, as its mechanism or a file gives it.
    chol : tensor, shape (variables, variables)
        Cholesky factor of the covariance of the population.
    name : str
        Name of the observed elements.
    sample : str
        Name of the confidential matrix; see `sample_covariance`.

    Returns
    -------
    tensor, shape (variables, variables)
        The confidential sample covariance matrix.

    Notes
    -----
    The model takes the records to be Gaussian although they are bounded, as the bounds of the mechanism need: with bounds
    that are many standard deviations wide the difference is small. A covariance between variables of which one has a
    released variance of 0 is 0 without noise, whatever the data are, and tells nothing.

    Examples
    --------
    >>> from bayesdp.mechanisms import CovarianceMatrix
    >>> mechanism = CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)])
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
        [own] = release.measurements
        named = Measured(own.query, own.given, own.law, name=name, unmeasured=own.unmeasured)
        release = replace(release, measurements=(named,))
    observe(release, matrix)
    return matrix

"""What analysts do without an explicit likelihood, by name, to be compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor

from bayesdp.calibration.refit import Build
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity
from bayesdp.release import Release

NAIVE: Mapping[str, str] = {
    "noise ignored": "published counts are taken for the confidential ones, those below zero as zero, and rounded",
    "invariants ignored": "noise is taken for independent in the cells, with the variance it has, and exact answers are left out",
    "post-processed": (
        "published counts are moved to the nearest table without negative cells that has the exact answers, and taken for "
        "the confidential ones"
    ),
}
"""The analyses that `coverage` knows, and what each does."""

_TABLE = "as_published"


@dataclass(frozen=True)
class Naive:
    """A naive analysis as a model of a release.

    Attributes
    ----------
    name : str
    build_model : callable
    update : callable or None
        New values of the model's data, see `Refit`.
    """

    name: str
    build_model: Build
    update: Any


def naive_analysis(name: str, build_model: Build) -> Naive:
    """Make the model of a naive analysis out of that of the right one."""
    # `name`: see `NAIVE`. `build_model`: the right analysis: from a release with one noisy number for each cell to a model with one
    # table of counts.
    if name not in NAIVE:
        raise ValueError(f"naive names {name!r}; known analyses are {', '.join(NAIVE)}")
    if name == "invariants ignored":
        return Naive(name, lambda release: build_model(_independent(release)), _independent_numbers(build_model))
    table = _rounded if name == "noise ignored" else _nearest

    def build(release: Any) -> pm.Model:
        model = build_model(_independent(release))
        counts = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialCountsRV)]
        if len(counts) != 1:
            raise ValueError(f"{name!r} needs a model with one table of counts, got {len(counts)}")
        # `pm.observe` copies the data of a model, but not what it is given: to be data of the result, the table must be registered
        # there, or new values of it would change nothing.
        data = pytensor.shared(table(release).astype(np.float64), name=_TABLE)
        observed = pm.observe(model, {counts[0]: data.astype("int64")})
        observed.register_data_var(data)
        return observed

    return Naive(name, build, lambda release: {_TABLE: table(release).astype(np.float64)})


def _noisy(release: Any) -> Measured:
    """The only measurement of a release, which must have a noisy number for each cell."""
    if not isinstance(release, Release) or len(release.measurements) != 1:
        raise ValueError("naive analyses need a bayesdp.Release with one measurement")
    measured = release.measurements[0]
    if measured.query != Identity(release.frame) or measured.unmeasured.any():
        raise ValueError("naive analyses need a noisy number for each cell of the table")
    return measured


def _independent(release: Any) -> Release:
    """The release that a naive analyst reads: noisy cells only, with independent discrete Gaussian noise of their variances."""
    measured = _noisy(release)
    variance = measured.law.variance(measured.query.shape, measured.noise_invariants)
    if variance is None:
        variance = _simulated_variance(measured)
    sigma = np.sqrt(np.maximum(variance, 1e-12))
    values = np.rint(measured.values).astype(np.int64)
    return Release(release.frame, (Measured(measured.query, values, DiscreteGaussian(sigma)),), ())


def _simulated_variance(measured: Measured) -> npt.NDArray[np.float64]:
    """Variance by simulation, for laws that have no closed form; the same number every time."""
    rng = np.random.default_rng(0)
    draws = measured.law.draw(rng, measured.query.shape, 4000, measured.noise_invariants)
    return np.asarray(np.var(draws, axis=0))


def _independent_numbers(build_model: Build) -> Any:
    """The function that gives new values of the data of the model with independent noise."""
    names: list[str] = []

    def update(release: Any) -> dict[str, npt.NDArray[np.float64]]:
        bare = _independent(release)
        if not names:
            names.extend(n for n in build_model(bare).named_vars if n.endswith("_published"))
        return {names[0]: bare.measurements[0].values.astype(np.float64)}

    return update


def _rounded(release: Any) -> npt.NDArray[np.int64]:
    """The published cells, rounded, and 0 where they are negative."""
    return np.maximum(np.rint(_noisy(release).values), 0).astype(np.int64)


def _nearest(release: Any) -> npt.NDArray[np.int64]:
    """A whole table with the exact answers near the published one: least absolute distance, by integer programming."""
    from scipy import optimize, sparse

    noisy = np.asarray(_noisy(release).values, dtype=np.float64).reshape(-1)
    size = noisy.size
    # Minimise the sum of s with -s <= x - noisy <= s, the exact answers, x >= 0 and whole.
    eye = sparse.eye_array(size)
    rows = [
        optimize.LinearConstraint(sparse.hstack([eye, -eye]), -np.inf, noisy),
        optimize.LinearConstraint(sparse.hstack([eye, eye]), noisy, np.inf),
    ]
    for part in release.exact:
        matrix = sparse.csr_array(part.query.matrix, dtype=np.float64)
        answers = np.asarray(part.values, dtype=np.float64).reshape(-1)
        low = answers if part.sign != "<=" else np.full(answers.shape, -np.inf)
        high = answers if part.sign != ">=" else np.full(answers.shape, np.inf)
        rows.append(optimize.LinearConstraint(sparse.hstack([matrix, sparse.csr_array(matrix.shape)]), low, high))
    cost = np.concatenate([np.zeros(size), np.ones(size)])
    whole = np.concatenate([np.ones(size), np.zeros(size)])
    found = optimize.milp(cost, constraints=rows, integrality=whole, bounds=optimize.Bounds(0, np.inf))
    if found.x is None:
        raise ValueError(f"no table without negative cells has the exact answers: {found.message}")
    return np.asarray(np.rint(found.x[:size]).astype(np.int64).reshape(release.frame.shape))

"""Descriptions with one field changed, and the releases that are described."""

import copy
import json

import numpy as np
import pytest

from bayesdp import Exact, Identity, Margins, Measured, Release, privacy
from bayesdp import mechanisms as m
from bayesdp.mechanisms.composition import as_one, compose
from bayesdp.noise import LatticeLaplace
from bayesdp.papers import bounded_statistics, covariance_cone
from bayesdp.privacy import Guarantee
from benchmarks.calibration.cases import INVARIANTS, KEEPING, TABLE

COUNTS = np.array([[4, 7, 2], [5, 0, 9]])
TOTAL, BOTH = INVARIANTS["total"], INVARIANTS["both margins"]


def places(value, path=()):
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, below in items:
        yield from places(below, (*path, key))


def other_values(value):
    """Values of another kind, with another sign, beyond all numbers, and another valid-looking one."""
    yield from (("object", {"a": 1}), ("long", 10**400))
    if isinstance(value, bool):
        yield from (("other", not value), ("text", str(value)), ("number", int(value)))
    elif isinstance(value, int | float):
        yield from (
            ("text", str(value)),
            ("truth", True),
            ("negative", -value - 1),
            ("larger", value * 1.5 + 1),
            ("null", None),
        )
    elif isinstance(value, str):
        yield from (("other", value + "x"), ("number", 7), ("null", None))
    elif isinstance(value, dict):
        yield from (("unknown", {**value, "extra": 1}), ("list", [1]))
    elif isinstance(value, list):
        yield from (("text", "x"), ("longer", [*value, "extra"]), ("number", 3))
    else:
        yield from (("text", "x"), ("number", 3))


def at(description, path):
    for key in path:
        description = description[key]
    return description


def plain(description):
    return json.loads(json.dumps(description))


def mutants(description):
    """The path, the kind of change, and the description with that change."""
    for path in places(description):
        for kind, value in other_values(at(description, path)):
            changed = copy.deepcopy(description)
            at(changed, path[:-1])[path[-1]] = value
            yield path, kind, changed
        changed = copy.deepcopy(description)
        del at(changed, path[:-1])[path[-1]]
        yield path, "removed", changed


def refused_in_dataset(release, path, value, message):
    """One field of what a Dataset says is changed, and reading it is an error with this message."""
    stored = release.to_dataset()
    told = {path[0]: stored.attrs[path[0]] if len(path) == 1 else json.loads(stored.attrs[path[0]])}
    at(told, path[:-1])[path[-1]] = value
    stored.attrs[path[0]] = int(value) if len(path) == 1 else json.dumps(told[path[0]])
    with pytest.raises(ValueError, match=message):
        Release.from_dataset(stored)


def refused_in_noise_json(release, path, value, message, folder):
    release.to_csv(folder / "stored.csv", overwrite=True)
    told = json.loads((folder / "stored.noise.json").read_text())
    path = ["measured" if path[0] == "measurements" else path[0], *path[1:]]
    at(told, path[:-1])[path[-1]] = value
    (folder / "stored.noise.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=message):
        Release.from_csv(folder / "stored.csv")


def lattice(seed, invariants=TOTAL, **how):
    return m.LatticeLaplace(invariants, epsilon=0.4).release(COUNTS, rng=seed, **how)


def laplace(seed):
    return m.DiscreteLaplace(TABLE, epsilon=0.6).release(COUNTS, rng=seed)


def gaussian(seed, **loss):
    return m.ProjectedGaussian(BOTH, **(loss or {"mu": 0.5})).release(COUNTS, rng=seed)


def foreign():
    one = lattice(9)
    noisy = Measured(Identity(TABLE), one.measurements[0].published, LatticeLaplace(0.4, "l1"))
    stated = Guarantee("pure", {"epsilon": 0.4}, "l1", simulated=True)
    return Release.from_published(TABLE, [noisy], one.exact, guarantee=stated, simulated=True)


def rows():
    return Release.from_published(TABLE, exact=[Exact(Margins(TABLE, ["row"]), COUNTS.sum(axis=1))])


def two_published():
    """Two releases without a seed. Noise of so small a table is the same now and then, and a release is not composed with itself."""
    one = other = lattice(None, BOTH)
    while np.array_equal(one.values, other.values):
        other = lattice(None, BOTH)
    return [one, other]


def semi_canonical():
    square = {"sex": ["men", "women"], "admission": ["yes", "no"]}
    mechanism = m.SemiCanonical(Margins(square, ["sex"], ["admission"]), privacy.approximate_dp(1.0))
    return mechanism.release([[12, 30], [25, 17]], rng=1)


TOTALS = {
    "pure": lambda: as_one([lattice(1), lattice(2)]),
    "exact beside": lambda: as_one([laplace(1), rows(), lattice(2)]),
    "mu": lambda: as_one([gaussian(1), gaussian(2)]),
    "rho": lambda: as_one([m.LatticeGaussian(BOTH, rho=0.1).release(COUNTS, rng=seed) for seed in (1, 2)]),
    "pure and approximate": lambda: as_one([lattice(1, BOTH), gaussian(2, epsilon=0.4, delta=1e-4)]),
    "a delta": lambda: compose(lattice(1, BOTH), gaussian(2), delta=1e-4).release,
    "Semi-DP": lambda: as_one([m.SemiGaussian(TOTAL, mu=0.7).release(COUNTS, rng=seed) for seed in (1, 2)]),
    "a chain": lambda: as_one([lattice(1, BOTH), lattice(2, BOTH, method="mcmc")]),
    "published": lambda: as_one(two_published()),
}
WEAKER = {
    "nested": lambda: as_one([as_one([lattice(1), lattice(2)]), lattice(3)]),
    "not described": lambda: as_one([foreign(), lattice(3), lattice(4)]),
}
"""What the whole loses at least is known, and no more."""
UNIT, NAMES = (0.0, 1.0), ["a", "b", "c", "d"]
MEAN, VARIANCE = privacy.mean_sensitivity(50, (0.0, 10.0)), privacy.variance_sensitivity(50, UNIT)
SHARES, PAPER = privacy.proportion_sensitivity(50, 4), {"names": NAMES, "convention": "paper"}


def _proportions(kind, rule, convention):
    return kind(1.0, 50, NAMES, rule=rule, convention=convention).release([5, 10, 15, 20], rng=1)


def _covariance(rule, convention):
    given = {"rule": rule, "convention": convention, "parts": [0.5, 0.3, 0.2]}
    mechanism = covariance_cone.CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], ["height", "weight"], **given)
    return mechanism.release([[1.0, 0.5], [0.5, 2.0]], rng=3)


STATISTICS = {
    "a mean": lambda: m.TruncatedLaplace(1.0, privacy.mean_sensitivity(50, UNIT), UNIT).release(0.3, rng=1),
    "one side": lambda: m.BoundaryInflatedLaplace(1.0, 0.1, (0.0, None)).release(2.0, rng=1),
    "own bounds": lambda: m.BoundaryInflatedLaplace(0.7, [0.1, 0.2], (0.0, [1.0, 2.0])).release([0.5, 0.5], rng=1),
    "variance": lambda: m.TruncatedLaplace(1.0, VARIANCE, VARIANCE.bounds, convention="paper").release(0.2, rng=1),
    "paper, clipped": lambda: m.BoundaryInflatedLaplace(1.0, SHARES, UNIT, **PAPER).release([0.1, 0.2, 0.3, 0.4], 1),
    "truncated Gaussian": lambda: m.TruncatedGaussian(0.1, UNIT, epsilon=1.0, delta=1e-3).release(0.3, rng=1),
    "clipped Gaussian": lambda: m.BoundaryInflatedGaussian([MEAN] * 2, (0.0, 10.0), rho=0.1).release([1, 9], rng=1),
    "published": lambda: m.TruncatedLaplace(1.0, 0.1, UNIT).release(0.3),
    "rescaled": lambda: _proportions(bounded_statistics.RescaledProportions, "boundary-inflated", "exact"),
    "all but one": lambda: _proportions(bounded_statistics.AllButOne, "truncated", "exact"),
    "universal": lambda: _proportions(bounded_statistics.UniversalHistogram, "truncated", "paper"),
    "covariance": lambda: _covariance("boundary-inflated", "exact"),
    "covariance, paper": lambda: _covariance("truncated", "paper"),
}
COUNTED = {
    **{name: lambda make=make: make(BOTH).release(COUNTS, rng=1) for name, make in KEEPING.items()},
    "discrete Laplace": lambda: laplace(1),
    "a total": lambda: KEEPING["lattice Laplace, l1"](TOTAL).release(COUNTS),
    "Semi-DP canonical": semi_canonical,
}

"""Every number of the total guarantee of a composition, changed one at a time: refused, or no less than the truth."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayesdp import mechanisms as m
from bayesdp.composition import as_one, compose
from bayesdp.measurements import Exact
from bayesdp.noise import LatticeLaplace
from bayesdp.privacy import Guarantee
from bayesdp.queries import Identity, Margins
from bayesdp.release import Measured, Release
from benchmarks.calibration.cases import INDEPENDENT, INVARIANTS, KEEPING, TABLE
from tests.storage.changed_fields import at, mutants, refused_with

pytestmark = pytest.mark.system

COUNTS = np.array([[4, 7, 2], [5, 0, 9]])
TOTAL, BOTH = INVARIANTS["total"], INVARIANTS["both margins"]


def lattice(seed: int, invariants: Any = TOTAL) -> Release:
    return m.LatticeLaplace(invariants, epsilon=0.4).release(COUNTS, rng=seed)


def plain(seed: int) -> Release:
    return m.DiscreteLaplace(TABLE, epsilon=0.6).release(COUNTS, rng=seed)


def gaussian(seed: int, **loss: float) -> Release:
    return m.ProjectedGaussian(BOTH, **(loss or {"mu": 0.5})).release(COUNTS, rng=seed)


def foreign() -> Release:
    """Noise of a mechanism that is not described, with a guarantee."""
    one = lattice(9)
    noisy = Measured(Identity(TABLE), one.measurements[0].published, LatticeLaplace(0.4, "l1"))
    stated = Guarantee("pure", {"epsilon": 0.4}, "l1", simulated=True)
    return Release.from_published(TABLE, [noisy], one.exact, guarantee=stated, simulated=True)


def rows() -> Release:
    return Release.from_published(TABLE, exact=[Exact(Margins(TABLE, ["row"]), COUNTS.sum(axis=1))])


def semi(seed: int) -> Release:
    return m.SemiGaussian(TOTAL, mu=0.7).release(COUNTS, rng=seed)


def two_published() -> list[Release]:
    """Two releases without a seed. Noise of so small a table is the same now and then, and a release is not composed with itself."""
    one = other = m.LatticeLaplace(BOTH, epsilon=0.4).release(COUNTS)
    while np.array_equal(one.values, other.values):
        other = m.LatticeLaplace(BOTH, epsilon=0.4).release(COUNTS)
    return [one, other]


MADE: dict[str, Any] = {
    "pure": lambda: as_one([lattice(1), lattice(2)]),
    "of neighbours": lambda: as_one([plain(1), plain(2), plain(3)]),
    "exact beside": lambda: as_one([plain(1), rows(), lattice(2)]),
    "mu": lambda: as_one([gaussian(1), gaussian(2)]),
    "rho": lambda: as_one([m.LatticeGaussian(BOTH, rho=0.1).release(COUNTS, rng=seed) for seed in (1, 2)]),
    "epsilon and delta": lambda: as_one([gaussian(1, epsilon=0.5, delta=1e-3), gaussian(2, epsilon=0.4, delta=1e-4)]),
    "pure and approximate": lambda: as_one([lattice(1, BOTH), gaussian(2, epsilon=0.4, delta=1e-4)]),
    "a delta": lambda: compose(lattice(1, BOTH), gaussian(2), delta=1e-4).release,
    "Semi-DP": lambda: as_one([semi(1), semi(2)]),
    "a chain": lambda: as_one(
        [lattice(1, BOTH), m.LatticeLaplace(BOTH, epsilon=0.3).release(COUNTS, rng=2, method="mcmc")]
    ),
    "published": lambda: as_one(two_published()),
}
WEAKER: dict[str, Any] = {
    "nested": lambda: as_one([as_one([lattice(1), lattice(2)]), lattice(3)]),
    "not described": lambda: as_one([foreign(), lattice(3), lattice(4)]),
}
"""What the whole loses at least is known, and no more."""

WORDS = ("relation", "caveats", "person", "determined_complete")


def changed_to(release: Release, guarantee: Any) -> Release:
    return replace(release, guarantee=Guarantee.from_dict(guarantee))


@pytest.mark.parametrize("kind", MADE | WEAKER)
def test_every_number_of_a_total(kind: str) -> None:
    release = (MADE | WEAKER)[kind]()
    release.check_stated()
    told = json.loads(json.dumps(release.guarantee.to_dict()))
    changed_to(release, told).check_stated()
    tried = 0
    for path, how, changed in mutants(told):
        if any(part in WORDS for part in path) or (
            how == "removed" and (isinstance(path[-1], int) or path[-1] in ("about", "record", "sampler"))
        ):
            continue
        tried += 1
        try:
            changed_to(release, changed).check_stated()
        except (TypeError, ValueError):
            continue
        assert kind in WEAKER, f"accepted: {path} {how} {at(told, path)!r}"
        assert at(changed, path) > at(told, path), f"accepted: {path} {how} {at(told, path)!r}"
    assert tried > 100


@pytest.mark.parametrize("kind", MADE | WEAKER)
def test_a_total_that_is_too_small_everywhere(kind: str) -> None:
    """All rows and the parameters together: they agree with one another, and not with the noise."""
    release = (MADE | WEAKER)[kind]()
    factor = 0.3 if kind == "not described" else 0.999
    told = json.loads(json.dumps(release.guarantee.to_dict()))
    for loss in (told["parameters"], *(row["loss"] for row in told["pairs"])):
        for name in set(loss) & {"epsilon", "mu", "rho"}:
            loss[name] *= factor
    told["person"] = ""
    told["about"].pop("record", None)
    with pytest.raises(ValueError, match=r"the guarantee states .*, but the mechanisms together have "):
        changed_to(release, told).check_stated()
    for loss in (told["parameters"], *(row["loss"] for row in told["pairs"])):
        for name in set(loss) & {"epsilon", "mu", "rho"}:
            loss[name] *= 10.0 / factor
    if kind in WEAKER:
        changed_to(release, told).check_stated()
    else:
        with pytest.raises(ValueError, match=r"the guarantee states .*, but the mechanisms together have "):
            changed_to(release, told).check_stated()


def test_the_sum_is_that_of_the_message() -> None:
    """Oracle: two releases of rate 0.4 at l1 distance 2 lose 2 x 0.4 x 2 = 1.6."""
    release = MADE["pure"]()
    told = release.guarantee.to_dict()
    told["parameters"]["epsilon"] = told["pairs"][0]["loss"]["epsilon"] = 0.16
    told["person"] = ""
    told["about"].pop("record", None)
    with pytest.raises(ValueError, match=r"states epsilon = 0.16, .*together have epsilon = 1.6, sensitivity = 2.0$"):
        changed_to(release, told).check_stated()


CLAIMS = {
    "parameters": (("parameters", "epsilon"), 0.16, "states epsilon = 0.16.* but its first row is epsilon = 1.6"),
    "row": (("pairs", 0, "loss", "epsilon"), 0.16, "states epsilon = 1.6.* but its first row is epsilon = 0.16"),
    "distance": (("pairs", 0, "size"), 20.0, "at l1 distance 20 .*but these are 2 apart"),
    "simulated": (("simulated",), False, "simulated of the release is True, but .* guarantee is False"),
    "person": (
        ("about", "record", "move", "epsilon"),
        0.1,
        "person: the guarantee states .*epsilon = 0.1[.].*from its rows follows .* epsilon = 1.6",
    ),
    "sampler": (
        ("sampler",),
        "approximate: 7 sweeps of Gibbs, convergence not certified",
        "7 sweeps.*drawn by 'exact'",
    ),
    "kind": (("kind",), "gdp", "must include mu"),
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("file", ["noise.json", "netCDF"])
def test_files_are_refused_with_both_sides(claim: str, file: str, tmp_path: Any) -> None:
    path, value, message = CLAIMS[claim]
    refused_with(MADE["pure"](), ("guarantee", *path), value, file, tmp_path, message)


DESCRIPTIONS = {
    "another mechanism": (
        ("releases", 0, "epsilon"),
        0.1,
        "release 1 has the mechanism .* epsilon = 0.1, .*but no measurement has it",
    ),
    "the same twice": (
        ("releases", 0, "epsilon"),
        0.3,
        "release 1, release 1 has the mechanism .* no measurement has it",
    ),
    "no such number": (("composition_of",), 3, "by composition_of = 3 it is a 'composition of 3 releases'"),
    "no number": (
        ("composition_of",),
        1,
        "composition_of must be the number of releases put together, at least 2, got 1",
    ),
    "no integer": (("composition_of",), True, "composition_of must be the number of releases .* got True"),
    "another name": (("mechanism",), "k-norm", "mechanism is 'k-norm', but by composition_of = 2 it is a"),
    "fewer": (("releases",), [None], "must list the mechanisms of all releases, got 1"),
    "no mapping": (("releases", 0), [1], r"mechanism of release 1 must be a mapping or null, got \[1\]"),
    "unknown key": (("extra",), 1, "has no key 'extra'"),
    "delta": (("delta",), "x", "delta"),
    "a delta too much": (("delta",), 0.1, "the total loss is: delta turns mu into epsilon"),
}


@pytest.mark.parametrize("claim", DESCRIPTIONS)
def test_descriptions_are_checked_at_every_level(claim: str) -> None:
    path, value, message = DESCRIPTIONS[claim]
    release = MADE["pure"]() if claim != "the same twice" else WEAKER["nested"]()
    told = json.loads(json.dumps(dict(release.mechanism)))
    inside = told["releases"][0] if claim == "the same twice" else told
    at(inside, path[:-1])[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        replace(release, mechanism=told).check_stated()


def test_noise_is_counted_once() -> None:
    """A second mechanism with the same law needs a second measurement; too many levels are no recursion error."""
    release = MADE["pure"]()
    one = dict(release.mechanism["releases"][0])
    three = {"mechanism": "composition of 3 releases", "composition_of": 3, "releases": [one] * 3}
    with pytest.raises(
        ValueError, match="lists 3 mechanisms, each with a measurement of its own, but the release has 2"
    ):
        replace(release, mechanism=three).check_stated()
    deep: Any = None
    for _ in range(150):
        deep = {"mechanism": "composition of 2 releases", "composition_of": 2, "releases": [None, deep]}
    with pytest.raises(ValueError, match=r"within more than 100 others|nested|deep"):
        replace(release, mechanism=deep).check_stated()


@pytest.mark.parametrize("kind", MADE | WEAKER)
def test_what_is_written_is_read(kind: str, tmp_path: Any) -> None:
    release = (MADE | WEAKER)[kind]()
    release.to_netcdf(tmp_path / "r.nc")
    release.to_csv(tmp_path / "r.csv")
    assert Release.from_netcdf(tmp_path / "r.nc") == Release.from_csv(tmp_path / "r.csv") == release


def test_a_composition_is_not_read_by_its_name() -> None:
    release = MADE["pure"]()
    nameless = {k: v for k, v in dict(release.mechanism).items() if k != "composition_of"}
    with pytest.raises(ValueError, match="publishes one measurement, but the release has 2"):
        replace(release, mechanism=nameless).check_stated()


def test_a_composition_of_any_mechanism_with_any_is_never_refused() -> None:
    """Each with the next one and itself again, under its own invariants."""
    made = [(make, name) for group in (KEEPING, INDEPENDENT) for name, make in group.items() if "norm" not in name]
    stated = 0
    for k, (make, _) in enumerate(made):
        one, again = (make(TOTAL).release(COUNTS, rng=seed) for seed in (1, 2))
        other = made[(k + 1) % len(made)][0](BOTH).release(COUNTS, rng=3)
        for releases in ([one, again], [one, other], [again, other, rows()], [as_one([one, again]), other]):
            together = as_one(releases)
            together.check_stated()
            stated += together.guarantee is not None
    assert stated > 3 * len(made) // 2

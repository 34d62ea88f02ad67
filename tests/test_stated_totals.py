"""Totals of several releases in files: what states less loss is refused however it is worded, what is true is read."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.mechanisms import (
    BoundaryInflatedLaplace,
    LatticeGaussian,
    LatticeLaplace,
    ProjectedGaussian,
    SemiGaussian,
    SemiNorm,
)
from bayesdp.privacy import Difference, PairLoss
from bayesdp.privacy.words import Conforming, Neighbours

TOTAL = bdp.Totals({"county": ["A", "B", "C"]})
TABLE = {"a": list("xyz"), "b": list("uvw")}
BOTH = bdp.Invariants(bdp.Margins(TABLE, ["a"], ["b"]))
COUNTS = np.arange(9).reshape(3, 3) + 3


def laplace(epsilon, seed):
    return LatticeLaplace(TOTAL, epsilon=epsilon).release([5, 3, 9], rng=seed)


def gaussian(epsilon, seed):
    return LatticeGaussian(TOTAL, epsilon=epsilon, delta=1e-6).release([5, 3, 9], rng=seed)


def stating(release, **changes):
    return replace(release, guarantee=replace(release.guarantee, **changes))


@pytest.fixture(scope="module")
def nested():
    return bdp.compose(bdp.compose(laplace(0.5, 1), laplace(0.3, 2)).release, laplace(0.2, 3)).release


def test_a_row_in_words_states_no_less_than_the_mechanisms(nested):
    nested.check_stated()
    row = PairLoss("tables that differ in one record", 2.0, "l1", {"epsilon": 0.001})
    false = stating(nested, pairs=(row,), parameters={"epsilon": 0.001, "sensitivity": 2.0}, person="", caveats=())
    with pytest.raises(ValueError, match=r"pairs: .*epsilon = 0.001.*together have at least epsilon = 2"):
        false.check_stated()


def test_a_row_is_as_long_as_what_it_is_about(nested):
    row = PairLoss(Conforming(Difference("x", 2, 2**0.5)), 50.0, "l1", {"epsilon": 0.001})
    with pytest.raises(ValueError, match="but these are 2 apart"):
        stating(nested, pairs=(*nested.guarantee.pairs, row)).check_stated()


@pytest.mark.parametrize("about", ["some data sets", Neighbours("add-remove", "data")], ids=["words", "relation"])
def test_statistics_of_which_one_mechanism_is_known_state_no_less_than_that(about):
    one, two = (BoundaryInflatedLaplace(epsilon, 0.1, (0, 1)).release(0.4, rng=1) for epsilon in (1.0, 0.5))
    both = bdp.compose(one, two).release
    described = {**both.mechanism, "releases": [both.mechanism["releases"][0], None]}
    row = PairLoss(about, both.guarantee.pairs[0].size, both.guarantee.unit, {"epsilon": 0.01})
    small = replace(both.guarantee, pairs=(row,), parameters={"epsilon": 0.01, "sensitivity": row.size})
    with pytest.raises(ValueError, match=r"pairs: .*epsilon = 0.01"):
        replace(both, mechanism=described, guarantee=small).check_stated()


def test_rows_of_earlier_versions_add_up():
    parts = [
        stating(gaussian(epsilon, 1), pairs=LatticeGaussian(TOTAL, epsilon=epsilon, delta=1e-6)._earlier_rows())
        for epsilon in (1.0, 0.7)
    ]
    assert all(part.guarantee.pairs for part in parts)
    bdp.compose(*parts).release.check_stated()


@pytest.mark.parametrize("kept", [0, 1], ids=["no rows", "all but the first"])
@pytest.mark.parametrize(
    "mechanism",
    [
        lambda loss: ProjectedGaussian(BOTH, rho=loss),
        lambda loss: ProjectedGaussian(BOTH, epsilon=loss, delta=1e-6),
        lambda loss: SemiGaussian(BOTH, mu=loss),
        lambda loss: SemiNorm(BOTH, epsilon=loss),
    ],
    ids=["rho", "epsilon, delta", "mu", "norm"],
)
def test_totals_of_releases_that_state_fewer_rows_are_read(mechanism, kept, tmp_path):
    parts = [mechanism(loss).release(COUNTS, rng=3) for loss in (0.5, 0.3)]
    bdp.compose(*parts).release.check_stated()
    fewer = [stating(part, pairs=part.guarantee.pairs[1:] if kept else ()) for part in parts]
    total = bdp.compose(*fewer).release
    total.to_netcdf(tmp_path / "total.nc")
    assert bdp.Release.from_netcdf(tmp_path / "total.nc") == total


def test_an_exact_row_may_be_called_an_upper_bound():
    total = bdp.compose(laplace(0.5, 1), laplace(0.3, 2)).release
    rows = total.guarantee.pairs
    assert any(isinstance(row.about, Conforming) for row in rows)
    upper = [
        replace(row, about=replace(row.about, bound="upper")) if isinstance(row.about, Conforming) else row
        for row in rows
    ]
    stating(total, pairs=tuple(upper)).check_stated()


def test_a_row_may_state_fewer_losses_but_no_epsilon_without_its_delta():
    released = ProjectedGaussian(bdp.Invariants(bdp.Totals(TABLE)), epsilon=1, delta=1e-6).release(COUNTS, rng=1)
    rows = released.guarantee.pairs

    def without(name):
        return (rows[0], replace(rows[1], loss={k: v for k, v in rows[1].loss.items() if k != name}), *rows[2:])

    stating(released, pairs=without("rho")).check_stated()


@pytest.mark.parametrize("count", [1, 2])
def test_the_sentence_on_one_person_is_read_without_its_numbers(count, tmp_path):
    one, other = gaussian(1.0, 1), gaussian(0.7, 2)
    (one if count == 1 else bdp.compose(one, other).release).to_csv(tmp_path / "release.csv")
    file = tmp_path / "release.noise.json"
    plain = json.loads(file.read_text())
    del plain["guarantee"]["about"]["record"]
    file.write_text(json.dumps(plain))
    assert bdp.Release.from_csv(tmp_path / "release.csv").guarantee.person

"""Totals of several releases: by convolution, and as files state them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import bayesdp as bdp
from bayesdp import Exact, Margins, Measured, Release, Totals, compose
from bayesdp import mechanisms as m
from bayesdp.invariants import Invariants
from bayesdp.noise import DiscreteLaplace as Noise
from bayesdp.privacy import Difference, PairLoss, rho_to_epsilon
from bayesdp.privacy.words import Conforming, Convolved, Neighbours, relation_from
from bayesdp.queries import LinearQuery

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = np.array([[5, 3], [2, 7], [4, 4]])
NOTHING = Invariants((), LABELS)
AT = 1e-6


def released(mechanism, seed, table=TABLE):
    return mechanism.release(table, np.random.default_rng(seed))


def convolved(both):
    rows = {row.about.of: row for row in both.guarantee.pairs if isinstance(row.about, Convolved)}
    return {"neighbours" if isinstance(of, Neighbours) else of.difference.relation: rows[of] for of in rows}


def delta_of(p, losses, at):
    """The delta that a loss of the masses `p` has at an epsilon."""
    above = losses > at
    return float((p[above] * -np.expm1(at - losses[above])).sum())


@pytest.fixture(scope="module")
def ten():
    own = m.DiscreteLaplace(NOTHING, epsilon=0.2)
    return compose(*[released(own, k) for k in range(10)], at_delta=AT)


def response_delta(epsilon, n, at):
    k = np.arange(n + 1)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return float(np.maximum(binom.pmf(k, n, truth) - math.exp(at) * binom.pmf(k, n, 1.0 - truth), 0.0).sum())


def test_independent_noise_is_as_many_responses_as_answers_change(ten):
    # epsilon = 0.2 for a substitution is noise of rate 0.1 in two cells: ten releases are twenty randomised responses.
    rows = convolved(ten)
    substituted = next(row for name, row in rows.items() if name.startswith("one record moved"))
    added = next(row for name, row in rows.items() if name.startswith("one record added"))
    for row, n in ((rows["neighbours"], 20), (substituted, 20), (added, 10)):
        upper = row.loss["epsilon"]
        assert row.loss == {"epsilon": upper, "delta": AT}
        assert response_delta(0.1, n, upper) <= AT
        assert response_delta(0.1, n, upper - 1e-6) > AT
        assert upper < 0.1 * n
    # All pairs that agree on everything have that law, so that the bound from below is of each of them.
    for row, n in ((substituted, 20), (added, 10)):
        assert response_delta(0.1, n, row.about.least - 1e-9) >= AT * (1 - 1e-9)
        assert row.about.least == pytest.approx(row.loss["epsilon"], abs=1e-6)
    assert rows["neighbours"].about.least == 0.0
    text = " ".join(str(ten.guarantee).split())
    assert "where no epsilon below 1.78861 will do; l1 distance 2: epsilon = 1.78861, delta = 1e-06" in text
    # This and the sum are what the overview says.
    page = (Path(__file__).resolve().parents[1] / "docs/reference/overview.md").read_text(encoding="utf-8")
    assert "ε = 0.2 have ε = 1.789 at δ = 1e-6, not 2." in " ".join(page.split())
    # The sums are there as before, and without a delta alone; normal noise alone is exact without.
    assert (ten.guarantee.kind, ten.guarantee.pairs[0].loss) == ("pure", {"epsilon": pytest.approx(2.0)})
    assert Release.from_dataset(ten.release.to_dataset()) == ten.release
    assert not convolved(compose(*ten.releases[:2]))
    normal = m.ProjectedGaussian(Margins(LABELS, ["county"]), mu=0.3)
    assert not convolved(compose(released(normal, 1), released(normal, 2), at_delta=AT))


def test_other_noise_is_the_worst_of_its_loss_and_discrete_normal_noise_by_its_masses():
    # Lattice noise by its epsilon at a 2x2 move, 4 x 0.25; normal noise exactly, mu = 2 / sigma: what is larger is refused.
    pure = released(m.LatticeLaplace(Margins(LABELS, ["county"]), epsilon=0.25), 1)
    normal = released(m.ProjectedGaussian(Margins(LABELS, ["education"]), epsilon=1.0, delta=1e-6), 2)
    both = compose(pure, normal, at_delta=AT)
    [row] = convolved(both).values()
    mu = 2.0 / normal.measurements[0].law.sigma
    truth = 1.0 / (1.0 + math.exp(-1.0))

    def delta_at(e):
        ends = ((truth, e - 1.0), (1.0 - truth, e + 1.0))
        return sum(w * float(ndtr(mu / 2 - x / mu) - math.exp(x) * ndtr(-mu / 2 - x / mu)) for w, x in ends)

    upper = row.loss["epsilon"]
    assert delta_at(upper) <= AT < delta_at(upper - 2e-3)
    by_sums = next(own for own in both.guarantee.pairs if isinstance(own.about, Conforming))
    assert by_sums.loss["delta"] == pytest.approx(AT)
    assert upper < by_sums.loss["epsilon"] - 0.01
    assert "upper bound" in row.relation
    # rho alone gives an epsilon by a bound. The loss of n answers moved by one is (2 T - n) / (2 sigma^2), T the sum of the noise.
    own = m.DiscreteGaussian(NOTHING, rho=0.02)
    both = compose(*[released(own, k) for k in range(4)], at_delta=AT)
    row = convolved(both)["neighbours"]
    sigma, n = both.releases[0].measurements[0].law.sigma, 8
    one = np.exp(-0.5 * (np.arange(-200, 201) / sigma) ** 2)
    one /= one.sum()
    masses = np.array([1.0])
    for _ in range(n):
        masses = np.convolve(masses, one)
    # Under the alternative every answer is one higher.
    losses = (2.0 * (np.arange(masses.size) - n * 200 + n) - n) / (2.0 * sigma**2)
    upper = row.loss["epsilon"]
    assert delta_of(masses, losses, upper) <= AT * (1 + 1e-9)
    assert delta_of(masses, losses, upper - 1e-3) > AT
    assert upper < rho_to_epsilon(both.guarantee.pairs[0].loss["rho"], AT) - 0.1


@pytest.mark.parametrize("sigmas", [(2.0, 3.0), (0.9, 1.3)])
def test_lattice_normal_noise_by_the_masses_of_its_lattice(sigmas):
    """Two releases of three cells with a total, against the masses of all lattice vectors and the product of their losses."""
    made = (m.LatticeGaussian(Totals({"cell": list("abc")}), rho=0.5 / s**2) for s in sigmas)
    both = compose(*(released(own, k, [3, 4, 5]) for k, own in enumerate(made, start=1)), at_delta=1e-4)
    [(name, row)] = convolved(both).items()
    assert name.startswith("one record moved")
    k = np.arange(-45, 46)
    points = np.stack([own.ravel() for own in np.meshgrid(k, k)], axis=1)
    points = np.column_stack([points, -points.sum(axis=1)])
    p, losses = np.ones(1), np.zeros(1)
    for s in sigmas:
        mass = np.exp(-0.5 * (points**2).sum(axis=1) / s**2)
        steps = points[:, 0] - points[:, 1]
        at, which = np.unique(steps, return_inverse=True)
        marginal = np.bincount(which.ravel(), weights=mass / mass.sum())
        p = np.multiply.outer(p, marginal).ravel()
        losses = np.add.outer(losses, (2.0 + 2.0 * at) / (2.0 * s**2)).ravel()
    upper = row.loss["epsilon"]
    assert delta_of(p, losses, upper) <= 1e-4 * (1 + 1e-9)
    assert delta_of(p, losses, row.about.least) >= 1e-4 * (1 - 1e-9)
    by_zcdp = rho_to_epsilon(sum(1.0 / s**2 for s in sigmas), 1e-4)
    assert upper < by_zcdp
    if sigmas[0] >= 2.0:  # there the two bounds meet
        assert upper - row.about.least < 1e-3
        assert upper < by_zcdp - 0.3
    assert Release.from_dataset(both.release.to_dataset()) == both.release


@pytest.mark.parametrize("weight", [1, 2])
def test_no_row_is_below_the_loss_of_any_pair(weight):
    """All differences of two small tables with the same margin, and what they change in the answers of two releases."""
    labels = {"a": ["x", "y", "z"], "b": ["p", "q"]}
    weights = np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, weight, 0], [1, 1, 0, 0, 0, 1]])
    queries, rates = (LinearQuery(labels, weights, ["one", "two", "three"]), Margins(labels, ["b"])), (0.4, 0.3)
    table, kept, releases, checked = np.array([[2, 1], [1, 3], [2, 2]]), Margins(labels, ["a"]), [], 0
    cells = released(m.DiscreteLaplace(NOTHING, epsilon=8.0), 3).guarantee  # more than the law loses
    for query, rate, seed in zip(queries, rates, (1, 2), strict=True):
        law = Noise(b=1.0 / rate)
        noisy = Measured(query, law.draw(seed, query.shape, location=query.apply(table)), law)
        exact = [Exact(kept, kept.apply(table))]
        releases.append(Release.from_published(labels, [noisy], exact, guarantee=cells, simulated=True))
    rows = convolved(compose(*releases, at_delta=0.01))
    for i in range(3):  # one record moves between p and q: the only differences of two cells
        change = np.zeros((3, 2))
        change[i] = 1, -1
        n = [np.abs(np.asarray(query.apply(change))) for query in queries]
        p = q = np.array([1.0])
        for changes, rate in zip(n, rates, strict=True):
            k = np.arange(-60, 65)
            for by in changes[changes > 0]:
                one, other = np.exp(-rate * np.abs(k)), np.exp(-rate * np.abs(k - by))
                order = np.round(rate * (np.abs(k) - np.abs(k - by)), 9)
                values = np.unique(order)
                first, second = ([own[order == value].sum() / one.sum() for value in values] for own in (one, other))
                p, q = np.multiply.outer(p, first).ravel(), np.multiply.outer(q, second).ravel()
        for row in rows.values():
            if isinstance(row.about.of, Conforming) and row.about.of.difference.l1 == 2.0:
                assert np.maximum(q - math.exp(row.loss["epsilon"]) * p, 0.0).sum() <= 0.01 + 1e-8
                if row.about.least > 0.0:
                    assert np.maximum(q - math.exp(row.about.least - 1e-6) * p, 0.0).sum() > 0.01 - 1e-8
                checked += 1
    assert checked == 3


def changed(both, at_delta=AT, least=None, **loss):
    data = both.release.to_dataset()
    guarantee, mechanism = (json.loads(data.attrs[key]) for key in ("guarantee", "mechanism"))
    row = [row for row in guarantee["pairs"] if row.get("about", {}).get("is") == "convolved"][-1]
    row["loss"] |= loss
    row["about"]["least"] = row["about"]["least"] if least is None else least
    mechanism["at_delta"] = at_delta
    if at_delta is None:
        del mechanism["at_delta"]
    return Release.from_dataset(data.assign_attrs(guarantee=json.dumps(guarantee), mechanism=json.dumps(mechanism)))


def test_a_reader_refuses_what_the_law_does_not_give_and_what_is_given_is_checked(ten):
    assert changed(ten, epsilon=1.99) != ten.release  # more may be stated
    for changes, message in (
        ({"epsilon": 0.5}, "but the mechanisms together have"),
        ({"epsilon": 1.788}, "but the mechanisms together have"),
        ({"delta": 1e-9}, r"have .*delta = 1e-06"),
        ({"at_delta": 1e-9}, "have epsilon"),
        ({"at_delta": None}, r"pairs: the guarantee states .*by convolution"),
        ({"at_delta": 2.0}, "at_delta"),
        ({"least": 3.0}, r"no epsilon below 3 .*, but the mechanisms together have"),
    ):
        with pytest.raises(ValueError, match=message):
            changed(ten, **changes)
    own = m.DiscreteLaplace(NOTHING, epsilon=0.2)
    pair = released(own, 1), released(own, 2)
    for odd in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="at_delta"):
            compose(*pair, at_delta=odd)
    with pytest.raises(TypeError, match="at_delta"):
        compose(*pair, at_delta="1e-6")
    within = Convolved(Neighbours("substitution", "joint"), 0.5)
    assert relation_from(within.describe()) == within
    with pytest.raises(ValueError, match="by convolution itself"):
        relation_from({"is": "convolved", "of": within.describe(), "least": 0.0})
    with pytest.raises(TypeError, match="relation of a row"):
        Convolved("words")


TOTAL = bdp.Totals({"county": ["A", "B", "C"]})
STATED = {"a": list("xyz"), "b": list("uvw")}
BOTH = bdp.Invariants(bdp.Margins(STATED, ["a"], ["b"]))
COUNTS = np.arange(9).reshape(3, 3) + 3


def gaussian(epsilon, seed):
    return m.LatticeGaussian(TOTAL, epsilon=epsilon, delta=1e-6).release([5, 3, 9], rng=seed)


def stating(release, **changes):
    return replace(release, guarantee=replace(release.guarantee, **changes))


def test_a_row_in_words_states_no_less_than_the_mechanisms():
    one, two, three = (released(m.LatticeLaplace(TOTAL, epsilon=own), 1, [5, 3, 9]) for own in (0.5, 0.3, 0.2))
    nested = bdp.compose(bdp.compose(one, two).release, three).release
    nested.check_stated()
    far = PairLoss(Conforming(Difference("x", 2, 2**0.5)), 50.0, "l1", {"epsilon": 0.001})
    with pytest.raises(ValueError, match="but these are 2 apart"):
        stating(nested, pairs=(*nested.guarantee.pairs, far)).check_stated()
    # An exact row may be called an upper bound.
    upper = [
        replace(row, about=replace(row.about, bound="upper")) if isinstance(row.about, Conforming) else row
        for row in nested.guarantee.pairs
    ]
    assert any(isinstance(row.about, Conforming) for row in upper)
    stating(nested, pairs=tuple(upper)).check_stated()
    row = PairLoss("tables that differ in one record", 2.0, "l1", {"epsilon": 0.001})
    false = stating(nested, pairs=(row,), parameters={"epsilon": 0.001, "sensitivity": 2.0}, person="", caveats=())
    with pytest.raises(ValueError, match=r"pairs: .*epsilon = 0.001.*together have at least epsilon = 2"):
        false.check_stated()


@pytest.mark.parametrize("about", ["some data sets", Neighbours("add-remove", "data")], ids=["words", "relation"])
def test_statistics_of_which_one_mechanism_is_known_state_no_less_than_that(about):
    one, two = (m.BoundaryInflatedLaplace(epsilon, 0.1, (0, 1)).release(0.4, rng=1) for epsilon in (1.0, 0.5))
    both = bdp.compose(one, two).release
    described = {**both.mechanism, "releases": [both.mechanism["releases"][0], None]}
    row = PairLoss(about, both.guarantee.pairs[0].size, both.guarantee.unit, {"epsilon": 0.01})
    small = replace(both.guarantee, pairs=(row,), parameters={"epsilon": 0.01, "sensitivity": row.size})
    with pytest.raises(ValueError, match=r"pairs: .*epsilon = 0.01"):
        replace(both, mechanism=described, guarantee=small).check_stated()


def test_rows_of_earlier_versions_add_up_and_rows_may_state_fewer_losses_or_be_fewer():
    earlier = {own: m.LatticeGaussian(TOTAL, epsilon=own, delta=1e-6)._earlier_rows() for own in (1.0, 0.7)}
    parts = [stating(gaussian(epsilon, 1), pairs=rows) for epsilon, rows in earlier.items()]
    assert all(part.guarantee.pairs for part in parts)
    bdp.compose(*parts).release.check_stated()
    own = released(m.ProjectedGaussian(bdp.Invariants(bdp.Totals(STATED)), epsilon=1, delta=1e-6), 1, COUNTS)
    first, second, *rest = own.guarantee.pairs
    fewer = replace(second, loss={name: value for name, value in second.loss.items() if name != "rho"})
    stating(own, pairs=(first, fewer, *rest)).check_stated()
    for of in (
        lambda loss: m.ProjectedGaussian(BOTH, rho=loss),
        lambda loss: m.ProjectedGaussian(BOTH, epsilon=loss, delta=1e-6),
        lambda loss: m.SemiGaussian(BOTH, mu=loss),
        lambda loss: m.SemiNorm(BOTH, epsilon=loss),
    ):
        parts = [released(of(loss), 3, COUNTS) for loss in (0.5, 0.3)]
        bdp.compose(*parts).release.check_stated()
        for kept in (0, 1):  # no rows, and all but the first
            fewer = [stating(part, pairs=part.guarantee.pairs[1:] if kept else ()) for part in parts]
            total = bdp.compose(*fewer).release
            assert bdp.Release.from_dataset(total.to_dataset()) == total


@pytest.mark.parametrize("count", [1, 2])
def test_the_sentence_on_one_person_is_read_without_its_numbers(count, tmp_path):
    one, other = gaussian(1.0, 1), gaussian(0.7, 2)
    (one if count == 1 else bdp.compose(one, other).release).to_csv(tmp_path / "release.csv")
    file = tmp_path / "release.noise.json"
    plain = json.loads(file.read_text())
    del plain["guarantee"]["about"]["record"]
    file.write_text(json.dumps(plain))
    assert bdp.Release.from_csv(tmp_path / "release.csv").guarantee.person

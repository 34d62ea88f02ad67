"""What a mechanism publishes, and a choice between several with public probabilities (Gao et al., end of Section 2.3)."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayesdp import mechanisms as m
from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise
from bayesdp.mechanisms import ExtendedGaussian, LatticeLaplace, ProjectedGaussian, PublishedChoice
from bayesdp.mechanisms.stated import check_stated
from bayesdp.privacy import SamplerStatement
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.refusals import refused

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = xr.DataArray([[15, 1], [20, 10], [3, 0]], dims=list(LABELS), coords=LABELS)
BOTH, COUNTY = Margins(TABLE, ["county"], ["education"]), Margins(TABLE, ["county"])
STATED = LatticeLaplace(BOTH, epsilon=0.5, sweeps=20).describe()


def test_labelled_tables_are_matched_by_label_and_without_a_generator_no_two_releases_are_alike(make_rng):
    mechanism = LatticeLaplace(COUNTY, epsilon=0.01)
    assert not np.array_equal(mechanism.release(TABLE).values, mechanism.release(TABLE).values)
    turned = TABLE.transpose("education", "county").sel(county=["Gamma", "Alpha", "Beta"])
    expected = mechanism.release(TABLE, make_rng(1))
    for table in (turned, TABLE.to_pandas(), TABLE.values, TABLE.astype(float)):
        assert mechanism.release(table, make_rng(1)) == expected
    value = mechanism.logp(expected.values.transpose("education", "county"), turned)
    assert value == mechanism.logp(expected.values, TABLE)


def test_determined_cells_are_listed_in_the_release_only_or_said_to_be_at_least_so_many(make_rng, monkeypatch):
    mechanism = LatticeLaplace(BOTH, epsilon=0.5, sweeps=20)
    told = mechanism.release([[15, 1], [20, 10], [0, 0]], make_rng(1)).guarantee.determined_cells
    assert told == ("county=Gamma, education=Low", "county=Gamma, education=High")
    assert mechanism.guarantee.determined_cells == ()
    assert "nonnegativity determine" in str(mechanism.guarantee)
    monkeypatch.setattr("bayesdp.fibers.determined.PROGRAM_CELLS", 0)
    # 3 = 2a + 2b + 3c: whole numbers leave (0, 0, 1) alone, which linear programs do not see.
    rows = [[2, 2, 3] + [0] * 197, [0, 0, 0, 1, 1] + [0] * 195]
    query = LinearQuery({"cell": list(range(200))}, rows, ["weighted", "empty"])
    table = np.ones(200, dtype=np.int64)
    table[[0, 1, 3, 4]] = 0
    guarantee = ExtendedGaussian(query, epsilon=1.0, delta=1e-6).release(table, make_rng(1)).guarantee
    assert (guarantee.determined_cells, guarantee.determined_complete) == (("cell=3", "cell=4"), False)
    assert "at least 2 cells" in str(guarantee)


test_bad_tables_are_refused_and_the_cell_is_named = refused(
    ([[1, 2], [3, -4], [5, 6]], "table must be at least 0, but county=Beta, education=High is not$"),
    ([[1, 2], [3, 4.5], [5, 6]], "whole numbers, but county=Beta, education=High is no whole number$"),
    ([[1, np.nan], [3, 4], [5, 6]], "finite, but county=Alpha, education=High is not$"),
    ([[1, 2], [3, 4], [2**53, 6]], "smaller than 2[*][*]53 in absolute value, but county=Gamma, education=Low is not$"),
    ([[1, 2], [3, 4]], r"table must have shape \(3, 2\)"),
    (TABLE.rename(county="state"), "table must have the dimensions"),
    (TABLE.sel(county=["Alpha", "Beta"]), "labels of 'county' in table do not match the frame .missing: 'Gamma'"),
    ([["a", "b"]] * 3, "table must hold integers or real numbers"),
    ([[True, False]] * 3, "table must hold integers or real numbers"),
    of=LatticeLaplace(COUNTY, epsilon=0.5).release,
)  # fmt: skip


def test_how_the_noise_is_drawn_can_be_asked_for_and_is_told(make_rng):
    mechanism = LatticeLaplace(COUNTY, epsilon=0.5, sweeps=30)
    assert mechanism.guarantee.sampler == "exact"
    release = mechanism.release(TABLE, make_rng(1), method="mcmc")
    assert (release.guarantee.sampler, release.guarantee.certified) == (SamplerStatement("Gibbs", 30), False)
    expected = sample_noise(mechanism.invariants, "l1", 0.5, make_rng(3), 2, "mcmc", 30)
    np.testing.assert_array_equal(mechanism.noise(make_rng(3), 2, "mcmc"), expected)
    large = Margins({"row": range(14), "column": range(14)}, ["row"], ["column"])
    with pytest.raises(NotImplementedError, match="no exact sampler"):
        LatticeLaplace(large, epsilon=0.5).release(np.ones((14, 14), dtype=int), make_rng(1), method="exact")
    assert LatticeLaplace(BOTH, epsilon=0.5).release(TABLE, make_rng(1)).guarantee.certified
    with pytest.raises(ValueError, match="the noise of this mechanism is always drawn exactly"):
        ProjectedGaussian(COUNTY, mu=1.0).noise(make_rng(1), method="mcmc")


@pytest.mark.parametrize(("mu", "exponent"), [(0.5, -19), (1.5, -21), (1e-9, 0), (1e6, -40)])
def test_projected_values_stand_on_the_grid(mu, exponent, make_rng):
    mechanism = ProjectedGaussian(BOTH, mu=mu)
    assert mechanism.grid == 2.0**exponent
    release = mechanism.release(TABLE, make_rng(1))
    units = release.values.values / mechanism.grid
    np.testing.assert_array_equal(units, np.rint(units))
    assert f"multiples of 2**{exponent}" in str(mechanism.guarantee)


test_bad_descriptions_are_refused = refused(
    ({"mechanism": "laplace", "invariants": {"parts": []}}, "unknown mechanism 'laplace'; known mechanisms are"),
    ({"mechanism": ["lattice-laplace"], "invariants": {"parts": []}}, "unknown mechanism"),
    ({"invariants": {"parts": []}}, "described by a mapping with 'mechanism'"),
    ("lattice-laplace", "described by a mapping"),
    ({**STATED, "seed": 3}, "'lattice-laplace' has no parameter 'seed'; it has epsilon"),
    ({**STATED, "epsilon": -1.0}, "epsilon must be a finite number greater than 0"),
    ({name: own for name, own in STATED.items() if name != "epsilon"}, "epsilon"),
    (ProjectedGaussian(BOTH, rho=0.1).describe(), "is of the mechanism 'projected-gaussian', not of 'lattice-laplace'"),
    of=lambda own: LatticeLaplace.from_description(own, LABELS),
)  # fmt: skip
test_invariants_must_be_queries = refused(
    *((own, "invariants must be a query such as Margins") for own in (None, "county", 3, {"county": ["Alpha"]})),
    (Margins(TABLE, ["county", "education"]), "invariants determine every cell"),
    of=lambda own: LatticeLaplace(own, epsilon=0.5),
)


def test_invariants_may_leave_everything_free_or_be_several_queries(make_rng):
    mechanism = LatticeLaplace(Invariants(None, LABELS), epsilon=0.5)
    assert mechanism.release(TABLE, make_rng(1)).exact == ()
    assert [row.size for row in mechanism.guarantee.pairs] == [1.0, 2.0]
    release = LatticeLaplace([COUNTY, Totals(TABLE)], epsilon=0.5).release(TABLE, make_rng(1))
    assert [part.values.tolist() for part in release.exact] == [[16, 30, 3], 49]


LINE = {"county": ["p", "q", "r"]}
TOTAL = Totals(LINE)
EITHER = [m.ExtendedLaplace(TOTAL, 0.5), m.KNorm(TOTAL, 0.25), LatticeLaplace(TOTAL, 0.4)]


def test_a_published_choice_is_a_release_of_the_mechanism_drawn_and_promises_the_worst_before():
    """60 draws: chi-square of the choices at 1e-6."""
    choice, rng, names = PublishedChoice(EITHER, [0.5, 0.3, 0.2]), np.random.default_rng(2), []
    for _ in range(60):
        release = choice.release([3, 1, 3], rng)
        [own] = [one for one in EITHER if one.name == release.mechanism["mechanism"]]
        assert release.measurements[0].law == own.law
        assert release.guarantee.parameters == own.guarantee.parameters
        check_stated(release)
        names.append(own.name)
    assert stats.chisquare([names.count(own.name) for own in EITHER], [30, 18, 12]).pvalue > 1e-6
    assert choice.release([3, 1, 3]).guarantee.simulated is False
    losses = PublishedChoice(EITHER[:2], [0.5, 0.5]).losses()
    rows = [{str(row.relation): dict(row.loss) for row in own.guarantee.pairs} for own in EITHER[:2]]
    assert losses
    for relation, loss in losses:
        assert loss == {"epsilon": max(own[relation]["epsilon"] for own in rows)}
    # A delta is not forgotten beside a mechanism that has none; definitions that one does not state are left out.
    gaussian = ExtendedGaussian(TOTAL, epsilon=0.3, delta=1e-6)
    worst = dict(PublishedChoice([EITHER[0], gaussian], [0.5, 0.5]).losses())
    for row in gaussian.guarantee.pairs:
        if told := worst.get(str(row.relation)):
            assert (set(told), told["delta"]) == ({"epsilon", "delta"}, row.loss["delta"])


SQUARE = Margins({"row": ["p", "q"], "column": ["u", "v"]}, ["row"])
test_bad_mixtures_are_named = refused(
    ((EITHER[:2], [0.5, 0.4]), "probabilities must be positive and add up to 1"),
    ((EITHER[:2], [1.5, -0.5]), "probabilities must be positive and add up to 1"),
    ((EITHER[:1], [1.0]), "probabilities must be a list of two or more numbers"),
    (([EITHER[0], EITHER[1].law], [0.5, 0.5]), "mechanisms must be mechanisms such as"),
    ((EITHER, [0.5, 0.5]), "mechanisms must be as many as probabilities, 2, got 3"),
    (([EITHER[0], m.DiscreteLaplace(LINE, epsilon=0.5)], [0.5, 0.5]), "mechanisms must all have the same invariants"),
    (([EITHER[0], LatticeLaplace(SQUARE, 0.4)], [0.5, 0.5]), "mechanisms must all have the same invariants"),
    of=lambda own: PublishedChoice(*own),
)

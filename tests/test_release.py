"""Releases: what belongs together, what is refused, and how they show themselves."""

import numpy as np
import pytest
import xarray as xr

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian, LatticeLaplace
from bayesdp.privacy import Guarantee
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.release import Release
from tests.refusals import refused

TABLE = xr.DataArray(
    [[15, 5], [20, 10], [3, 7]],
    dims=("county", "education"),
    coords={"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]},
)
LAW = DiscreteGaussian(sigma=5.0)
ROWS, COLUMNS = Margins(TABLE, ["county"]), Margins(TABLE, ["education"])
NOISY = TABLE + np.array([[1, -1], [-2, 2], [1, -1]])
PART, NAMED = (Measured(Identity(TABLE), NOISY, LAW, name=own) for own in (None, "a"))


def test_from_published_numbers_of_xarray_or_pandas():
    release = Release.from_published(TABLE, [PART], [Exact(ROWS, [20, 30, 10])])
    xr.testing.assert_equal(release.values, NOISY)
    assert release.dims == ("county", "education")
    assert release.coords == {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    assert release.invariants == Invariants(ROWS)
    assert release.fiber.find_point().sum(axis=1).tolist() == [20, 30, 10]
    assert (release.mechanism, release.guarantee, release.simulated) == (None, None, False)
    noisy = NOISY.to_pandas()
    exact = Exact(Margins(noisy, ["county"]), TABLE.to_pandas().sum(axis=1))
    same = Release.from_published(noisy, [Measured(Identity(noisy), noisy, LAW)], [exact])
    assert (release, hash(release)) == (same, hash(same))  # content decides equality
    assert release != Release.from_published(TABLE, [PART], [Exact(ROWS, [20, 30, 10])], simulated=True)


def test_parts_share_invariants_unless_told_otherwise_and_group_labels_and_a_mechanism_is_copied():
    cells = Measured(Identity(TABLE), NOISY, LatticeLaplace(0.5))
    exact = [Exact(ROWS, [20, 30, 10]), Exact(COLUMNS, [38, 22]), Exact(Totals(TABLE), 99, "<=")]
    (own,) = Release.from_published(TABLE, [cells], exact).measurements
    assert own.invariants == Invariants([ROWS, COLUMNS])
    stated = Measured(Identity(TABLE), NOISY, LatticeLaplace(0.5), ROWS)
    assert Release.from_published(TABLE, [stated], exact).measurements[0].invariants == Invariants(ROWS)
    release = Release.from_published(TABLE, [PART], [REGIONS])
    assert release.frame == Frame.of(GROUPED)
    assert all(part.query.frame == release.frame for part in (*release.measurements, *release.exact))
    description = {"mechanism": "lattice-laplace", "epsilon": 0.25}
    release = Release(Frame.of(TABLE), (PART,), (), description)
    description["epsilon"] = 9.0
    assert release.mechanism == {"mechanism": "lattice-laplace", "epsilon": 0.25}


GROUPED = TABLE.assign_coords(region=("county", ["N", "S", "N"]))
REGIONS = Exact(Totals(GROUPED, "region"), [30, 30])


ELSEWHERE = Margins({"county": ["Alpha", "Beta", "Delta"], "education": ["Low", "High"]}, ["county"])
MOVED = Measured(Identity(TABLE), TABLE + np.eye(3, 2, dtype=int), LatticeLaplace(0.5))


def published(*parts, table=TABLE, **options):
    return lambda: Release.from_published(table, *parts, **options)


SUMS = Exact(ROWS, [20, 30, 10])
NORTH = TABLE.assign_coords(region=("county", ["N", "N", "N"]))
test_what_does_not_belong_together_is_refused = refused(
    (published(), "at least one measured or exact part"),
    (published([], [PART]), "exact must hold Exact only, got Measured"),
    (published([NAMED, NAMED]), "names of measurements must be distinct, got 'a', 'a'"),
    (published([NAMED], guarantee="very private"), "guarantee must be a Guarantee, got str"),
    (published([NAMED], simulated=1), "simulated must be True or False"),
    (published([NAMED], mechanism={"rng": object()}), "mechanism cannot be written as JSON"),
    (published([NAMED], [Exact(ELSEWHERE, [1, 2, 3])]), r"different labels of 'county': 'Delta', 'Gamma'"),
    (
        published([], [Exact(Totals({"county": ["Alpha"]}), 1)]),
        r"\('county',\), the release about \('county', 'education'\)",
    ),
    (published([MOVED], [SUMS]), "county=Alpha the published exact total is 20 and the noisy total is 21"),
    (
        published([NAMED], [SUMS, Exact(COLUMNS, [38, 23])]),
        r"contradict one another at total: by county, .* is 60, but by education, .* 61",
    ),
    (
        published([NAMED], [Exact(Totals(TABLE), 5), Exact(ROWS, [3, 3, 0], ">=")]),
        r"^no nonnegative integer table satisfies the exact values: total = 5; county=Alpha >= 3; county=Beta >= 3$",
    ),
    (published([PART], table=TABLE[::-1]), "labels in another order"),
    (published([PART], [REGIONS], table=NORTH), "disagree on the group labels 'region'"),
    (lambda: Release(Frame.of(TABLE), PART, ()), "measured must be a list of Measured, got a single Measured"),
)


@pytest.mark.parametrize("parts", [[], [PART, PART]])
def test_there_are_no_values_without_one_measurement(parts):
    release = Release.from_published(TABLE, parts, [Exact(Totals(TABLE), 1000)])
    with pytest.raises(ValueError, match=f"exactly one measurement, and this release has {len(parts)}"):
        release.values  # noqa: B018  the attribute access is what is tested


def test_it_tells_what_is_exact_the_law_and_whether_it_is_simulated_with_labels_escaped_in_html():
    guarantee = Guarantee("pure", {"epsilon": 0.25}, "l1", simulated=True)
    release = Release.from_published(
        TABLE,
        [PART, Measured(ROWS, [20.0, np.nan, 9.0], LAW, unmeasured=["Beta"])],
        [Exact(Totals(TABLE), 60), Exact(COLUMNS, [50, 30], "<=")],
        guarantee=guarantee,
        simulated=True,
    )
    for line in (
        "  measured: 3 answers by county, 1 unmeasured, law discrete-gaussian sigma=5",
        "  exact: grand total = 60",
        "  exact: 2 answers by education, at most",
        "  simulated: the noise came from a seeded generator; this protects nobody>",
    ):
        assert line in repr(release).splitlines()
    evil = {"<script>alert(1)</script>": ["<b>", "&"]}
    html = Release.from_published(evil, exact=[Exact(Identity(evil), [1, 2])])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html

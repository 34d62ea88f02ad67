"""Releases: what belongs together, what is refused, and how they show themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian, LatticeLaplace
from bayesdp.privacy import Guarantee
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.release import Release

TABLE = xr.DataArray(
    [[15, 5], [20, 10], [3, 7]],
    dims=("county", "education"),
    coords={"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]},
)
LAW = DiscreteGaussian(sigma=5.0)
ROWS, COLUMNS = Margins(TABLE, ["county"]), Margins(TABLE, ["education"])
NOISY = TABLE + np.array([[1, -1], [-2, 2], [1, -1]])


def measured(**kwargs) -> Measured:
    return Measured(Identity(TABLE), NOISY, LAW, **kwargs)


def test_from_published_numbers():
    release = Release.from_published(TABLE, [measured()], [Exact(ROWS, [20, 30, 10])])
    xr.testing.assert_equal(release.values, NOISY)
    assert release.dims == ("county", "education")
    assert release.coords == {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    assert release.invariants == Invariants(ROWS)
    assert release.fiber.find_point().sum(axis=1).tolist() == [20, 30, 10]
    assert (release.mechanism, release.guarantee, release.simulated) == (None, None, False)


def test_pandas_works_as_well_as_xarray():
    noisy = NOISY.to_pandas()
    assert isinstance(noisy, pd.DataFrame)
    release = Release.from_published(
        noisy,
        [Measured(Identity(noisy), noisy, LAW)],
        [Exact(Margins(noisy, ["county"]), TABLE.to_pandas().sum(axis=1))],
    )
    assert release == Release.from_published(TABLE, [measured()], [Exact(ROWS, [20, 30, 10])])


def test_noise_on_a_lattice_keeps_the_invariants_of_the_release_unless_told_otherwise():
    cells = Measured(Identity(TABLE), NOISY, LatticeLaplace(0.5))
    exact = [Exact(ROWS, [20, 30, 10]), Exact(COLUMNS, [38, 22]), Exact(Totals(TABLE), 99, "<=")]
    (own,) = Release.from_published(TABLE, [cells], exact).measurements
    assert own.invariants == Invariants([ROWS, COLUMNS])
    stated = Measured(Identity(TABLE), NOISY, LatticeLaplace(0.5), ROWS)
    assert Release.from_published(TABLE, [stated], exact).measurements[0].invariants == Invariants(ROWS)


def test_a_lattice_release_whose_noisy_table_breaks_its_own_invariants():
    cells = Measured(Identity(TABLE), TABLE + np.eye(3, 2, dtype=int), LatticeLaplace(0.5))
    with pytest.raises(ValueError, match=r"at county=Alpha the published exact total is 20 and the noisy total is 21"):
        Release.from_published(TABLE, [cells], [Exact(ROWS, [20, 30, 10])])


def test_independent_noise_need_not_agree_with_the_exact_values():
    Release.from_published(TABLE, [measured()], [Exact(Totals(TABLE), 1000)])


def test_contradictory_totals():
    with pytest.raises(
        ValueError, match=r"contradict one another at total: by county, .* is 60, but by education, .* 61"
    ):
        Release.from_published(TABLE, [measured()], [Exact(ROWS, [20, 30, 10]), Exact(COLUMNS, [38, 23])])


def test_an_empty_fiber():
    bounds = [Exact(Totals(TABLE), 5), Exact(ROWS, [3, 3, 0], ">=")]
    with pytest.raises(
        ValueError,
        match=r"^no nonnegative integer table satisfies the exact values: total = 5; county=Alpha >= 3; county=Beta >= 3$",
    ):
        Release.from_published(TABLE, [measured()], bounds)


def test_group_labels_are_shared_by_all_parts():
    grouped = TABLE.assign_coords(region=("county", ["N", "S", "N"]))
    release = Release.from_published(TABLE, [measured()], [Exact(Totals(grouped, "region"), [30, 30])])
    assert release.frame == Frame.of(grouped)
    assert all(part.query.frame == release.frame for part in (*release.measurements, *release.exact))
    other = TABLE.assign_coords(region=("county", ["N", "N", "N"]))
    with pytest.raises(ValueError, match="disagree on the group labels 'region'"):
        Release.from_published(other, [measured()], [Exact(Totals(grouped, "region"), [30, 30])])


def test_parts_must_be_about_one_table():
    other = Margins({"county": ["Alpha", "Beta", "Delta"], "education": ["Low", "High"]}, ["county"])
    with pytest.raises(ValueError, match=r"different labels of 'county': 'Delta', 'Gamma'"):
        Release.from_published(TABLE, [measured()], [Exact(other, [1, 2, 3])])
    with pytest.raises(ValueError, match="labels in another order"):
        Release.from_published(TABLE[::-1], [measured()])
    with pytest.raises(ValueError, match=r"dimensions \('county',\), the release about \('county', 'education'\)"):
        Release.from_published(TABLE, exact=[Exact(Totals({"county": ["Alpha"]}), 1)])


def test_what_is_no_release():
    with pytest.raises(ValueError, match="at least one measured or exact part"):
        Release.from_published(TABLE)
    with pytest.raises(TypeError, match="measured must be a list of Measured, got a single Measured"):
        Release(Frame.of(TABLE), measured(), ())
    with pytest.raises(TypeError, match="exact must hold Exact only, got Measured"):
        Release.from_published(TABLE, [], [measured()])
    with pytest.raises(ValueError, match="names of measurements must be distinct, got 'a', 'a'"):
        Release.from_published(TABLE, [measured(name="a"), measured(name="a")])
    with pytest.raises(TypeError, match="guarantee must be a Guarantee, got str"):
        Release.from_published(TABLE, [measured()], guarantee="very private")
    with pytest.raises(TypeError, match="simulated must be True or False"):
        Release.from_published(TABLE, [measured()], simulated=1)


def test_a_mechanism_is_described_by_plain_data_and_copied():
    description = {"mechanism": "lattice-laplace", "epsilon": 0.25}
    release = Release(Frame.of(TABLE), (measured(),), (), description)
    description["epsilon"] = 9.0
    assert release.mechanism == {"mechanism": "lattice-laplace", "epsilon": 0.25}
    with pytest.raises(ValueError, match="mechanism cannot be written as JSON"):
        Release.from_published(TABLE, [measured()], mechanism={"rng": np.random.default_rng(1)})


def test_values_need_exactly_one_measurement():
    for parts in ([], [measured(), measured()]):
        release = Release.from_published(TABLE, parts, [Exact(Totals(TABLE), 60)])
        with pytest.raises(ValueError, match=f"exactly one measurement, and this release has {len(parts)}"):
            release.values  # noqa: B018  the attribute access is what is tested


def test_it_tells_what_is_exact_the_law_and_whether_it_is_simulated():
    guarantee = Guarantee("pure", {"epsilon": 0.25}, "l1", simulated=True)
    release = Release.from_published(
        TABLE,
        [measured(), Measured(ROWS, [20.0, np.nan, 9.0], LAW, unmeasured=["Beta"])],
        [Exact(Totals(TABLE), 60), Exact(COLUMNS, [50, 30], "<=")],
        guarantee=guarantee,
        simulated=True,
    )
    assert repr(release).splitlines() == [
        "<Release of a table county × education (3 × 2 cells)",
        "  measured: 6 answers by county × education, law discrete-gaussian sigma=5",
        "  measured: 3 answers by county, 1 unmeasured, law discrete-gaussian sigma=5",
        "  exact: grand total = 60",
        "  exact: 2 answers by education, at most",
        "  guarantee: pure differential privacy (epsilon)",
        "  simulated: the noise came from a seeded generator; this protects nobody>",
    ]
    assert "simulated" in release._repr_html_()


def test_labels_are_escaped_in_html():
    evil = {"<script>alert(1)</script>": ["<b>", "&"]}
    html = Release.from_published(evil, exact=[Exact(Identity(evil), [1, 2])])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_content_decides_equality():
    one = Release.from_published(TABLE, [measured()])
    assert one == Release.from_published(TABLE, [measured()])
    assert hash(one) == hash(Release.from_published(TABLE, [measured()]))
    assert one != Release.from_published(TABLE, [measured()], simulated=True)

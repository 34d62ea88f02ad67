"""Changes between posteriors and tables whose draws are all tables of an enumerated fiber."""

import dataclasses
from itertools import product

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from tests.posterior.conftest import TABLE, TOTALS, posterior, release

D = bdp.Derived


def test_changes_between_independent_posteriors(tree, fiber):
    frame = {"county": ["Lake", "Adams", "Cook"], "sex": ["women", "men"]}  # in another order, without groups
    other = posterior(
        release(2.0, [3, 3, 2], frame), fiber[:, [2, 0, 1]]
    )  # the same draws, as equal seeds may make them
    share = D.share("sex=women", by="county")
    found = bdp.summary(
        tree,
        {"change": share.change(other), "relative": share.change(other, relative=True), "up": share.change(other).exceeds(0),
         "rank": share.change(other).rank("county")},
    )  # fmt: skip
    assert found.loc["change"].index.tolist() == ["county=Adams", "county=Cook", "county=Lake"]
    for i, size in enumerate(TOTALS):
        own = fiber[:, i, 0] / size
        pairs = np.array(list(product(own, own)))
        row = found.loc["change"].iloc[i]
        assert row["mean"] == pytest.approx(0.0, abs=1e-12)
        # Independent: twice the variance, and not 0 as that of draws which are paired with themselves. Standard error 5 %.
        assert row["sd"] ** 2 == pytest.approx(2 * own.var(), rel=0.25)
        wanted = (pairs[:, 0] > pairs[:, 1]).mean()
        assert found.loc["up", "mean"].iloc[i] == pytest.approx(wanted, abs=0.1)
        missing = found.loc["relative", "undefined"].iloc[i]
        assert missing == (tree["posterior"]["x"].values[..., i, 0] == 0).sum()
    assert any("each chain of one is paired with the next chain of the other" in note for note in found.attrs["notes"])
    renamed = posterior(release(2.0), fiber, name="counts")  # its only table
    told = bdp.summary(tree, {"c": D.share("sex=women", by="county", table="x").change(renamed)})
    assert (len(told), "change: table x since table counts" in told.attrs["notes"]) == (3, True)
    for own in (release(2.0, totals=None), dataclasses.replace(release(), measurements=())):  # other values; none
        assert len(bdp.summary(tree, {"c": share.change(posterior(own, fiber))})) == 3
    short = posterior(release(2.0), fiber, chains=2, times=4)
    told = bdp.summary(tree, {"change": D.total("sex=women").change(short)})
    assert "2 chains and 96 draws of each were taken" in told.attrs["notes"][0]
    single = posterior(release(2.0), fiber, chains=1)
    assert (
        bdp.summary(posterior(release(), fiber, chains=1), {"c": D.total("sex=women").change(single)})["sd"].iloc[0] > 1
    )
    exact = bdp.summary(tree, {"c": D.share("county=Lake").change(other)})
    assert exact[["exact", "status"]].to_numpy().tolist() == [[0.0, "exact"]]
    third = posterior(release(2.0, [3, 2, 3], {"county": ["Adams", "Cook", "Will"], "sex": ["women", "men"]}), fiber)
    for given, words in (
        (tree, "both posteriors are of one release"),
        (posterior(release(totals=None), fiber), "or of one measurement"),
        (posterior(release(frame={own: TABLE[own] for own in ("county", "sex")}), fiber), "or of one measurement"),
        (third, "other labels of county: .*'Lake'.*'Will'"),
    ):
        with pytest.raises(ValueError, match=words):
            bdp.summary(tree, {"c": share.change(given)})
    with pytest.raises(
        ValueError,
        match="'c': the posterior that it is compared with: 'county' has no label 'Lake'; it has 'Adams', 'Cook', 'Will'",
    ):
        bdp.summary(tree, {"c": D.total("county=Lake").change(third)})
    with pytest.raises(TypeError, match="since must be a posterior"):
        share.change(3)


def diagnosed(tree, converged, message="R-hat up to 1.9"):
    tree["diagnostics"] = xr.DataTree(xr.Dataset(attrs={"converged": converged, "message": message}))
    return tree


def test_a_change_since_what_did_not_converge_or_was_simulated_is_told(tree, fiber):
    share, own = D.share("sex=women", by="county"), release(2.0)
    before = posterior(dataclasses.replace(own, simulated=True), fiber)
    women = D.total("sex=women", by="county")
    for now, then, both in ((1, 1, True), (1, 0, False), (0, 1, False), (1, None, None), (None, 0, False)):
        for each, verdict in ((tree, now), (before, then)):
            each.children.get("diagnostics", xr.DataTree()).attrs.clear()
            diagnosed(each, verdict) if verdict is not None else None
        for quantity in (share.change(before), share.change(before).exceeds(0), women.exceeds(women.change(before)),
                         share.change(before).rank("county")):  # fmt: skip
            found = bdp.summary(tree, {"women": women, "c": quantity})
            assert found.attrs["converged"] is both
            notes = found.attrs["notes"]
            assert ("the posterior that it is compared with did not converge: R-hat up to 1.9" in notes) == (then == 0)
            assert any("that it is compared with is simulated" in note for note in notes)
    assert bdp.summary(tree, {"women": women}).attrs["converged"] is None


def of_two_tables(fiber):
    """A posterior of x and y, which are equal in each draw."""
    x = posterior(release(), fiber)["posterior"]["x"]
    groups = {
        "posterior": xr.Dataset({"x": x, "y": x}), "release": release().to_dataset(), "fiber": xr.Dataset(attrs={"variable": "x"}),
        "release_y": release(3.0).to_dataset(), "fiber_y": xr.Dataset(attrs={"variable": "y"}),
    }  # fmt: skip
    return xr.DataTree.from_dict(groups)


def test_two_tables_of_one_posterior_keep_their_draws_together(fiber):
    both = of_two_tables(fiber)
    women = D.total("sex=women", by="county", table="y")
    found = bdp.summary(both, {"change": women.change("x"), "y": women})
    assert found.loc["change", "sd"].tolist() == [0.0] * 3  # they move together
    assert found.attrs["notes"] == ["change: table y since table x"]
    for name, words in (
        ("y", "another table than 'y' itself"),
        ("z", "there is no table 'z' in the posterior; there are 'x', 'y'"),
    ):
        with pytest.raises(ValueError, match=words):
            bdp.summary(both, {"change": women.change(name)})


def test_changes_that_differ_by_rounding_errors_alone_are_equal():
    counties = {"county": ["Adams", "Cook", "Lake", "Will"], "sex": ["women", "men"]}
    own, then = release(1.0, None, counties), release(2.0, None, counties)
    # Shares of 1/10 and 3/10, and of 4/10 and 6/10: 0.3 - 0.1 and 0.6 - 0.4 are not equal in floating point; nobody in Will.
    now, before = (np.array([[[a, 10 - a], [b, 10 - b], [c, 10 - c], [0, 0]]]) for a, b, c in ((3, 6, 2), (1, 4, 1)))
    assert 0.3 - 0.1 != 0.6 - 0.4 != 0.2
    share = D.share("sex=women", by="county")
    change, few = share.change(posterior(then, before)), D.share("sex=women").change(posterior(then, before))
    each = {
        name: D.ratio(f"county={name}*sex=women", f"county={name}").change(posterior(then, before))
        for name in ("Adams", "Cook")
    }
    found = bdp.summary(
        posterior(own, now),
        {
            "rank": change.rank("county"),
            "top": change.top(1, "county"),
            "more": each["Adams"].exceeds(each["Cook"]),
            "number": each["Cook"].exceeds(0.2),
            "all": few.exceeds(0.0),
        },
    )
    assert found.loc["rank", "mean"].tolist()[:3] == [1.5, 1.5, 3.0]
    assert found.loc["rank", "undefined"].tolist() == [0, 0, 0, 12]
    assert found.loc["top", "mean"].tolist() == [0.5, 0.5, 0.0, 0.0]
    assert found.loc["more", "mean"].tolist() == found.loc["number", "mean"].tolist() == [0.0, 1.0]
    assert found.loc["all", "mean"].tolist() == [1.0, 0.0]


def counts(values, labels, noisy):
    """A posterior of the counts of some labels, shape (draws, labels), in four chains."""
    frame = bdp.Frame.of({"place": labels})
    own = bdp.Release.from_published(
        frame, [bdp.Measured(bdp.Identity(frame), noisy, bdp.noise.DiscreteGaussian(10.0))]
    )
    return posterior(own, np.asarray(values), times=4)


def test_small_relative_changes_of_large_counts_are_no_ties():
    """Changes of one in a hundred million: rounding of what was divided is far below them, and of the counts far above."""
    spread = np.arange(-12, 13)[:, None]
    before = counts(1_400_000_000 + spread * [1, 2], ["a", "b"], [1_400_000_003, 1_400_000_009])
    after = counts(1_400_000_100 + spread * [2, 1], ["a", "b"], [1_400_000_104, 1_400_000_107])
    change = D.total(by="place").change(before, relative=True)
    found = bdp.summary(after, {"more": change.exceeds(0), "rank": change.rank("place")})
    assert found.loc["more", "mean"].tolist() == [1.0, 1.0, 0.0, 0.0]  # P(> 0) of both, P(= 0) of both
    since = np.roll(before["posterior"]["x"].values, 1, axis=0)
    share = (after["posterior"]["x"].values - since) / since
    first = (share[..., 0] > share[..., 1]).mean() + (share[..., 0] == share[..., 1]).mean() / 2
    assert found.loc["rank", "mean"].iloc[0] == pytest.approx(2.0 - first, abs=1e-12)


def test_a_posterior_has_no_change_since_itself_and_a_change_none_since_a_third():
    values = np.arange(40).reshape(20, 2)
    one, two, three = (counts(values, ["a", "b"], noisy) for noisy in ([3, 4], [5, 6], [7, 8]))
    change = D.total(by="place").change(two)
    with pytest.raises(ValueError, match="both posteriors are of one release"):
        bdp.summary(two, {"q": change})
    with pytest.raises(ValueError, match="change of total by place is one between two posteriors already"):
        bdp.summary(one, {"q": change.change(three)})
    with pytest.raises(ValueError, match="is one between two posteriors already"):
        bdp.summary(one, {"q": change.rank("place").change(three)})


def test_dimensions_may_have_another_order_and_other_cells_are_told(tree, fiber):
    turned = bdp.Frame.of({"sex": TABLE["sex"], "county": TABLE["county"]})
    other = release(9.0, totals=None, frame=turned)
    before = posterior(other, fiber.transpose(0, 2, 1)[:, ::-1], seed=3)
    found = bdp.summary(tree, {"q": D.total(by="county*sex").change(before), "all": D.total().change(before)})
    since = np.roll(before["posterior"]["x"].values.transpose(0, 1, 3, 2), 1, axis=0)
    means = (tree["posterior"]["x"].values - since).mean(axis=(0, 1))
    assert found.loc["q", "mean"].tolist() == pytest.approx(means.reshape(-1).tolist())
    assert not any("different labels" in note for note in found.attrs["notes"])
    fewer = counts(np.arange(40).reshape(20, 2), ["a", "b"], [3, 4])
    found = bdp.summary(tree, {"all": D.total().change(fewer)})
    assert (
        "change: the two tables have different labels, and a sum is that of what each of them has"
        in found.attrs["notes"]
    )

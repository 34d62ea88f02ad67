"""Derived quantities, on posteriors whose draws are all tables of an enumerated fiber, so that every number is known."""

from fractions import Fraction

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import rankdata

import bayesdp as bdp
from bayesdp.posterior.selections import Selection, Sums
from tests.posterior.conftest import TABLE, TOTALS, posterior, release
from tests.streaming import cases

D = bdp.Derived


def test_sums_shares_ratios_probabilities_and_ranks_are_those_of_all_tables(tree, fiber):
    assert len(fiber) == 4 * 3 * 4
    found = bdp.summary(
        tree,
        {
            "women": D.total({"sex": "women"}, by=["state"]),
            "gap": D.total("sex=women - sex=men"),
            "share": D.share("sex=women", by="county"),
            "ratio": D.ratio("sex=women", "sex=men", by="state"),
            "more": D.probability("county=Adams*sex=women > county=Lake*sex=women"),
            "half": D.probability("sex=women / total >= 0.5"),
            "rank": D.total("sex=women", by="county").rank("county"),
            "least": D.total("sex=women", by="county").rank("county", ascending=True),
            "top": D.total("sex=women", by="county").top(2, "county"),
            "of ratios": D.ratio("sex=women", "sex=men", by="county").rank("county"),
            "top ratios": D.ratio("sex=women", "sex=men", by="county").top(2, "county"),
            "by sex": D.total(by="county*sex").top(1, "county"),
        },
        prob=0.9,
    )
    # In fractions, table by table, and with sorted lists in the place of arrays.
    tables, n = fiber.tolist(), len(fiber)
    women = [[row[0] for row in table] for table in tables]

    def mean(values):
        values = list(values)
        return float(sum(map(Fraction, values)) / len(values))

    def ranks(values):
        return [1 + sum(b > a for b in values) + Fraction(sum(b == a for b in values) - 1, 2) for a in values]

    def in_top(values, k):
        """The mean over all orders of equal values."""
        return [
            min(Fraction(1), max(Fraction(0), Fraction(k - sum(b > a for b in values), sum(b == a for b in values))))
            for a in values
        ]

    assert found.loc["women", "mean"].tolist() == pytest.approx(
        [mean(w[0] + w[1] for w in women), mean(w[2] for w in women)]
    )
    assert found.loc[("gap", ""), "mean"] == pytest.approx(mean(2 * sum(w) - 8 for w in women))
    gaps = sorted(2 * sum(w) - 8 for w in women)
    assert found.loc[("gap", ""), "eti90_lower"] == gaps[int(np.ceil(0.05 * n)) - 1]
    assert found.loc["share", "mean"].tolist() == pytest.approx(
        [mean(Fraction(w[i], TOTALS[i]) for w in women) for i in range(3)]
    )
    illinois = [(w[0] + w[1], 5 - w[0] - w[1]) for w in women]
    good = [Fraction(a, b) for a, b in illinois if b]
    own = found.loc[("ratio", "state=IL")]
    assert own["mean"] == pytest.approx(mean(good))
    assert own["eti90_upper"] == pytest.approx(float(sorted(good)[int(np.ceil(0.95 * len(good))) - 1]))
    assert (own["undefined"], own["status"]) == (
        12 * (n - len(good)),
        f"undefined in {12 * (n - len(good))} of {12 * n} draws",
    )
    assert 0 < own["undefined"]
    assert any("ratio: 2 of 2 numbers have no value in some draws" in note for note in found.attrs["notes"])
    larger, equal = found.loc["more", "mean"]
    assert larger == pytest.approx(mean(w[0] > w[2] for w in women))
    assert equal == pytest.approx(mean(w[0] == w[2] for w in women))
    assert found.loc["half", "mean"].tolist() == pytest.approx([mean(2 * sum(w) >= 8 for w in women)])
    assert found.loc["rank", "mean"].tolist() == pytest.approx([mean(ranks(w)[i] for w in women) for i in range(3)])
    assert found.loc["least", "mean"].tolist() == pytest.approx([4 - own for own in found.loc["rank", "mean"]])
    assert found.loc["rank", "mean"].sum() == pytest.approx(6)
    assert found.loc["top", "mean"].tolist() == pytest.approx([mean(in_top(w, 2)[i] for w in women) for i in range(3)])
    assert found.loc["top", "mean"].sum() == pytest.approx(2)
    ratios = [[Fraction(a, b) if b else None for a, b in table] for table in tables]
    for i in range(3):  # among those that have one
        own_ranks = [
            ranks([own[i], *(other for j, other in enumerate(own) if j != i and other is not None)])[0]
            for own in ratios
            if own[i] is not None
        ]
        row = found.loc["of ratios"].iloc[i]
        assert (row["mean"], row["undefined"]) == (pytest.approx(mean(own_ranks)), 12 * (n - len(own_ranks)))
    for i in range(3):  # without a ratio a county is not in the top
        others = [[own if own is not None else Fraction(-1 - j) for j, own in enumerate(row)] for row in ratios]
        wanted = mean(in_top(o, 2)[i] if own[i] is not None else 0 for o, own in zip(others, ratios, strict=True))
        assert found.loc["top ratios", ["mean", "undefined"]].iloc[i].tolist() == [pytest.approx(wanted), 0]
    held = mean(min(2, sum(own is not None for own in row)) for row in ratios)
    assert found.loc["top ratios", "mean"].sum() == pytest.approx(held)
    assert held < 2
    for j, sex in enumerate(TABLE["sex"]):  # ranked among those of the same sex
        names = [f"county={county}, sex={sex}" for county in TABLE["county"]]
        wanted = [mean(in_top([row[j] for row in table], 1)[i] for table in tables) for i in range(3)]
        assert found.loc["by sex"].loc[names, "mean"].tolist() == pytest.approx(wanted)
    events = found.loc[["more", "half", "top", "by sex"]]
    assert events[["sd", "eti90_lower", "eti90_upper"]].isna().all(axis=None)
    assert found.attrs["notes"].count("rank: labels with equal values share the mean of their ranks") == 1


def test_diagnostics_are_those_of_the_derived_draws(fiber):
    rng = np.random.default_rng(4)
    place = np.zeros((4, 500), dtype=int)
    for t in range(1, 500):  # draws that depend on one another, as those of chains do
        place[:, t] = np.where(rng.random(4) < 0.2, rng.integers(len(fiber), size=4), place[:, t - 1])
    tree = posterior(release(), fiber[place.ravel()], times=1)
    tree["posterior"]["x"].values[...] = fiber[place]
    women = xr.DataArray(fiber[place][..., 0].sum(axis=2) / 8.0, dims=("chain", "draw"))
    event = (women > 0.5).astype(float)
    found = bdp.summary(
        tree,
        {
            "share": D.share("sex=women"),
            "event": D.share("sex=women").exceeds(0.5),
            "own": lambda x: x.sel(sex="women").sum("county") / 8,
        },
    )
    for row, draws in ((("share", ""), women), (("own", ""), women), (("event", "share of sex=women > 0.5"), event)):
        told = found.loc[row]
        wanted = [
            az.ess(draws.values, method="bulk"),
            az.ess(draws.values, method="tail", prob=(0.05, 0.95)),
            az.rhat(draws.values),
            az.mcse(draws.values, method="mean") * np.sqrt(1999 / 2000),  # by n, as the column sd
        ]
        assert told[["ess_bulk", "ess_tail", "rhat", "mcse"]].tolist() == pytest.approx(
            [float(own) for own in wanted], rel=1e-6
        )
        assert told["ess_bulk"] < 600


def test_draws_without_a_value_are_left_out_and_count_for_nothing():
    rng = np.random.default_rng(8)
    tables = np.stack([rng.binomial(9, 0.5, (40000, 3)), rng.poisson(1.0, (40000, 3))], axis=2)
    found = bdp.summary(
        posterior(release(totals=None), tables, times=1),
        {"ratio": D.ratio("county=Lake*sex=women", "county=Lake*sex=men")},
    )
    a, b = tables[:, 2].T
    good = a[b > 0] / b[b > 0]
    own = found.loc[("ratio", "")]
    assert (own["mean"], own["sd"], own["undefined"]) == (
        pytest.approx(good.mean()),
        pytest.approx(good.std()),
        (b == 0).sum(),
    )
    assert own["ess_bulk"] == pytest.approx(len(good), rel=0.06)  # independent draws
    assert own["mcse"] == pytest.approx(good.std() / np.sqrt(len(good)), rel=0.03)
    # Whether there is a value depends on the draw before, the value does not: its mean is as good as of independent draws.
    stays = rng.random((4, 2000)) < 0.95
    there = np.ones((4, 2000), dtype=int)
    for t in range(1, 2000):
        there[:, t] = np.where(stays[:, t], there[:, t - 1], 1 - there[:, t - 1])
    tables = np.stack([rng.poisson(50.0, (8000, 3)), np.repeat(there.reshape(-1, 1), 3, axis=1)], axis=2)
    sticky = posterior(release(totals=None), tables, times=1)
    sticky["posterior"]["x"].values[...] = tables.reshape(4, 2000, 3, 2)
    told = bdp.summary(sticky, {"ratio": D.ratio("county=Lake*sex=women", "county=Lake*sex=men")}).loc[("ratio", "")]
    assert told["ess_bulk"] == pytest.approx(there.sum(), rel=0.15)
    nobody = posterior(release(totals=None), np.zeros((40, 3, 2), dtype=int))
    told = bdp.summary(nobody, {"share": D.share("sex=women")}).loc[("share", "")]
    assert told["status"] == "undefined in 480 of 480 draws"
    assert told[["mean", "eti95_lower", "mcse", "ess_bulk"]].isna().all()


def test_the_error_of_a_probability_that_was_0_in_the_draws_that_have_a_value_is_of_these():
    tables = np.ones((4000, 3, 2), dtype=int)
    tables[..., 0] = np.random.default_rng(2).poisson(50.0, (4000, 3))
    tables[20:, 2] = 0  # in Lake somebody lives in 20 draws alone
    found = bdp.summary(
        posterior(release(totals=None), tables, times=1),
        {
            "never": D.ratio("sex=women", "sex=men", by="county").exceeds(1e6),
            "own": lambda x: (x.sel(sex="women") > 1e6).any("county"),
        },
    )
    cook, lake = (
        found.loc[("never", f"county={county}, event=sex=women / sex=men > 1000000")] for county in ("Cook", "Lake")
    )
    assert (cook["undefined"], lake["undefined"]) == (0, 3980)
    for row, draws in ((cook, 4000), (lake, 20), (found.loc[("own", "")], 4000)):
        assert row["mcse"] == pytest.approx(np.sqrt((draws + 0.5) * 0.5) / (draws + 1) ** 1.5, rel=0.15)
    assert np.isnan(found.loc[("own", ""), "ess_bulk"])


def test_what_follows_from_exact_values_is_exact_and_what_never_happened_may_happen(tree):
    found = bdp.summary(
        tree,
        {
            "share": D.share("county=Lake"),
            "state": D.total(by="state"),
            "gap": D.total("county=Cook - county=Lake"),
            "ratio": D.ratio("county=Lake", "county=Cook"),
            "rank": D.total(by="county").rank("county"),
            "sure": D.probability("county=Lake > county=Cook"),
            "women": D.share("sex=women"),
            "half": D.ratio("county=Lake", "county=Cook + sex=women"),
            "many": D.probability("sex=women > 30"),
        },
    )
    assert found.loc[("share", ""), ["exact", "status"]].tolist() == [0.375, "exact"]
    assert found.loc["state", "exact"].tolist() == [5.0, 3.0]
    assert found.loc["gap", ["exact", "status"]].to_numpy().tolist() == [[-1.0, "exact"]]
    assert found.loc[("ratio", ""), "exact"] == 1.5
    assert found.loc["rank", "exact"].tolist() == [1.5, 3.0, 1.5]
    assert found.loc["sure", "exact"].tolist() == [1.0, 0.0]
    assert found.loc["share", ["sd", "mcse", "ess_bulk", "rhat"]].isna().all(axis=None)
    assert found.loc[("women", ""), "status"] == ""
    assert pd.isna(found.loc[("women", ""), "exact"])
    assert found.loc[("half", ""), "status"] == ""  # the numerator alone is exact
    mixed = bdp.summary(
        tree, {"q": D.probability("county=Cook > county=Adams*sex=women"), "c": D.ratio("sex=women", "total")}
    )
    assert mixed["status"].tolist() == ["", "", ""]
    never = found.loc[("many", "sex=women > 30")]
    assert (never["mean"], never["status"]) == (0.0, "")
    assert 0.5 / (1.5 * 576) < never["mcse"] ** 2 * never["ess_bulk"] < 1.0 / 300  # and not 0
    still = posterior(release(), np.array([[[1, 2], [1, 1], [1, 2]]]), times=400)
    told = bdp.summary(still, {"share": D.share("sex=women")}).loc[("share", "")]
    assert (told["mean"], told["sd"], told["status"]) == (0.375, 0.0, "")
    assert told[["mcse", "ess_bulk", "ess_tail", "rhat"]].isna().all()


def test_cells_are_named_by_labels_of_any_kind():
    odd = ['a, "b"', "c*d", "e = f", "60+", " g", "x - y"]
    frame = bdp.Frame.of({"kind": odd, "year": [2019, 2020], "my dim": ["1", 1]})
    cells = np.arange(24).reshape(6, 2, 2)
    for i, label in enumerate(odd):
        own = Selection.of({"kind": label, "year": 2020})
        assert own.mask(frame).reshape(6, 2, 2)[i, 1].all()
        assert own.mask(frame).sum() == 2
        again = Selection.of(str(own))  # texts are read as they are written
        assert (again.mask(frame) == own.mask(frame)).all()
    sums = Sums.of('kind=60+,"c*d" * year=2019 - total')
    assert [weight for weight, _ in sums.terms] == [1, -1]
    assert cells.reshape(-1)[sums.terms[0][1].mask(frame)].tolist() == [4, 5, 12, 13]
    assert str(Sums.of(str(sums))) == str(sums)
    assert Selection.of({"my dim": 1}).mask(frame).sum() == 12
    for given, words in (
        ({"my dim": "1"}, "several labels that are written as '1': '1', 1"),
        ("kind=60", "'kind' has no label '60'; it has .*did you mean '60\\+'"),
        ("kin=60+", "'kin' is neither a dimension nor a group label; .*did you mean 'kind'"),
        ("60+", "cells are written as 'DIM=LABEL'"),
        ("kind=60+,60+", "each once"),
        ("kind=60+*kind=x", "names a dimension twice"),
        ("kind=", "a name or a label is missing"),
        ('kind="60+', "a quote misplaced"),
        ({"year": 2021}, "'year' has no label 2021; it has 2019, 2020"),
        ({"year": []}, "must be named"),
        ({"my dim": True}, "'my dim' has no label True; it has '1', 1"),
        ({"my dim": [np.True_]}, "'my dim' has no label"),
    ):
        with pytest.raises(ValueError, match=words):
            Selection.of(given).mask(frame)
    with pytest.raises(ValueError, match="no cell has all the labels of state=IN\\*county=Cook"):
        Selection.of("state=IN*county=Cook").mask(bdp.Frame.of(TABLE))
    with pytest.raises(TypeError, match="cells must be a text"):
        Selection.of(3)


def test_statistics_do_not_add_up():
    frame = bdp.Frame.of({"of": ["mean", "median"], "sex": ["women", "men"]})
    measured = bdp.Measured(bdp.Identity(frame), np.ones((2, 2)), bdp.noise.Gaussian(1.0))
    own = bdp.Release.from_published(frame, [measured], about="statistics")
    tree = posterior(own, np.arange(40.0).reshape(10, 2, 2), times=12)
    tree["statistics"] = xr.DataTree(xr.Dataset(attrs={"variable": "x"}))
    gap = D.total("of=mean*sex=women - of=mean*sex=men")
    found = bdp.summary(
        tree, {"each": D.total(by="of*sex"), "gap": gap, "sex": D.total("of=mean", by="sex").rank("sex")}
    )
    assert found["mean"].tolist() == [18.0, 19.0, 20.0, 21.0, -1.0, 2.0, 1.0]
    for several in (D.total(), D.total("of=mean"), D.total(by="sex"), D.share("of=mean*sex=women")):
        with pytest.raises(ValueError, match=r"of statistics, which do not add up, and .* is several of them"):
            bdp.summary(tree, {"q": several})


def test_rows_that_are_left_out_and_what_is_refused(tree):
    assert bdp.summary(tree, {"t": D.total("county=Cook,Lake", by="county")}).index.tolist() == [
        ("t", "county=Cook"),
        ("t", "county=Lake"),
    ]
    for own, words in (
        (
            D.ratio("county=Cook", "county=Lake", by="county"),
            "county=Lake has no cells with county=Cook, and a denominator needs some",
        ),
        (D.total(by="cunty"), "'q': 'cunty' is neither a dimension nor a group label"),
        (D.total(by=["county", "state"]), "both belong to dimension 'county'"),
        (D.total(by="sex").rank("county"), r"that the quantity is by \('sex'\), not of 'county'"),
        (D.total().rank("county"), r"\(none\)"),
        (
            D.total(by="county").top(3, "county"),
            "k must be less than the number of ranked labels of 'county', 3, got 3",
        ),
        (D.total(by="county").exceeds(2).rank("county"), "it is a probability"),
        (D.total(by="county").exceeds(D.total(by="sex")), "both sides of total > total need the same rows"),
        (D.probability("sex=women > 3").change("y"), "'q': probability of sex=women > 3 has no change"),
        (D.total(by="county").top(1, "county").change(tree), "top 1 of county by total has no change"),
        (D.total(table="y"), "there is no table 'y' in the posterior; there are 'x'"),
    ):
        with pytest.raises(ValueError, match=words):
            bdp.summary(tree, {"q": own})
    for make, words in (
        (lambda: D.probability("county=Cook"), "a comparison has one of >= <= > < =, with blanks around it"),
        (lambda: D.probability("county=Cook>county=Lake"), "blanks around it"),
        (lambda: D.probability("3 > 2"), "about cells on one side at least"),
        (lambda: D.probability("total / total / total > 2"), "a ratio is written as 'A / B'"),
        (lambda: D.total().top(0, "county"), "k must be an integer greater than 0"),
        (lambda: D.share("sex=women - sex=men"), "cells are|no label"),
    ):
        with pytest.raises(ValueError, match=words):
            bdp.summary(tree, {"q": make()})
    assert str(D.probability("2 < total", by="sex")) == "probability of total > 2 by sex"
    assert str(D.total(by="county").rank("county", ascending=True)) == "rank of county by total, smallest first"


def test_functions_of_variables(tree):
    rate = xr.DataArray(np.linspace(0.1, 1.0, 576).reshape(4, 144), dims=("chain", "draw"))
    tree["posterior"] = xr.DataTree(
        tree["posterior"].to_dataset().assign(rate=rate, x=tree["posterior"]["x"].astype(np.uint8))
    )
    x = tree["posterior"]["x"].values.astype(int)
    found = bdp.summary(
        tree,
        {
            "gap": lambda x: x.sel(sex="women") - x.sel(sex="men"),
            "states": lambda counts: counts.groupby("state").sum().sum("sex"),
            "scaled": lambda x, rate, times=2.0: times * rate * x.sum(("county", "sex")),
            "odds": lambda x: x.sel(county="Lake", sex="women") / x.sel(county="Lake", sex="men"),
            "any": lambda x: (x.sel(sex="women") > 1).any("county"),
            "rate": lambda rate: rate,
        },
    )
    assert found.loc["gap"].index.tolist() == [f"county={own}" for own in TABLE["county"]]
    assert found.loc["gap", "mean"].tolist() == pytest.approx(
        (x[..., 0] - x[..., 1]).mean((0, 1))
    )  # unsigned: without wrapping
    assert found.loc["gap", "mean"].min() < 0.1
    assert found.loc["states", "mean"].tolist() == [5.0, 3.0]
    assert found.loc[("scaled", ""), "mean"] == pytest.approx(16 * rate.values.mean())
    zero = x[..., 2, 1] == 0
    assert found.loc[("odds", ""), "undefined"] == zero.sum() > 0
    assert found.loc[("odds", ""), "mean"] == pytest.approx((x[..., 2, 0][~zero] / x[..., 2, 1][~zero]).mean())
    assert found.loc[("any", ""), "mean"] == pytest.approx((x[..., 0] > 1).any(axis=2).mean())
    assert np.isnan(found.loc[("any", ""), "sd"])

    def broken(x):
        raise KeyError("Kook")

    for function, words in (
        (broken, "'q': the function raised KeyError: 'Kook'"),
        (lambda x: x.mean("draw"), "keeps the dimensions .*'chain': 4, 'draw': 144.*; it returned dimensions"),
        (lambda x: x.isel(draw=slice(3)), "it returned dimensions"),
        (lambda x: 3.0, "it returned float"),
        (lambda x: x.astype(str), "numbers, or True and False"),
        (lambda x, rat: x, "the posterior has no variable 'rat'; it has 'x', 'rate'; did you mean 'rate'"),
        (lambda *x: x, "the function must name the variables that it takes, and not only have \\*x"),
    ):
        with pytest.raises(ValueError, match=words):
            bdp.summary(tree, {"q": function})
    for given in ({"q": 3}, {3: D.total()}):
        with pytest.raises(TypeError, match="var must map names to"):
            bdp.summary(tree, given)


def test_label_columns_in_the_place_of_the_index(tree):
    table = bdp.summary(tree, {"share": D.share("sex=women", by="county"), "all": D.total("sex=women")}, columns=True)
    assert table.columns[:3].tolist() == ["part", "county", "mean"]
    assert table["county"].tolist()[:3] == TABLE["county"]
    assert pd.isna(table["county"][3])
    assert table.attrs["prob"] == 0.95
    numbers = bdp.Frame.of({"year": [2019, 2020], "sex": ["women", "men"]})
    own = bdp.Release.from_published(
        numbers, [bdp.Measured(bdp.Identity(numbers), [[1, 2], [3, 4]], bdp.noise.DiscreteGaussian(2.0))]
    )
    whole = bdp.summary(posterior(own, np.arange(40).reshape(10, 2, 2)), "x", columns=True)
    assert whole["year"].tolist() == [2019, 2019, 2020, 2020]  # a map joins by them
    assert whole["year"].dtype.kind == "i"
    long = [170318234001000123, 170318234001000124]  # as a float both would be one
    blocks = bdp.Frame.of({"block": long})
    own = bdp.Release.from_published(
        blocks, [bdp.Measured(bdp.Identity(blocks), [1, 2], bdp.noise.DiscreteGaussian(2.0))]
    )
    table = bdp.summary(
        posterior(own, np.arange(20).reshape(10, 2)), {"each": D.total(by="block"), "all": D.total()}, columns=True
    )
    assert table["block"].tolist() == [*long, None]
    every, plain = bdp.summary(tree, columns=True), bdp.summary(tree)
    assert every["part"].tolist() == plain.index.get_level_values("part").tolist()
    pd.testing.assert_frame_equal(every[plain.columns], plain.reset_index(drop=True))
    taken = bdp.Frame.of({"mean": ["a", "b"]})
    own = bdp.Release.from_published(
        taken, [bdp.Measured(bdp.Identity(taken), [1, 2], bdp.noise.DiscreteGaussian(2.0))]
    )
    every = bdp.summary(posterior(own, np.arange(20).reshape(10, 2)), "x", columns=True)
    assert every["mean (label)"].tolist() == ["a", "b"]
    assert every["mean"].tolist() == [9.0, 10.0]


def test_a_dimension_that_is_called_event():
    frame = bdp.Frame.of({"event": ["fair", "concert"], "sex": ["women", "men"]})
    own = bdp.Release.from_published(
        frame, [bdp.Measured(bdp.Identity(frame), np.ones((2, 2)), bdp.noise.DiscreteGaussian(2.0))]
    )
    tree = posterior(own, np.arange(40).reshape(10, 2, 2))
    found = bdp.summary(tree, {"t": D.total(by="event"), "more": D.probability("event=fair > event=concert")})
    assert found.index.get_level_values("label").tolist()[:3] == [
        "event=fair",
        "event=concert",
        "event=fair > event=concert",
    ]
    with pytest.raises(ValueError, match="have the label 'event', what is compared"):
        bdp.summary(tree, {"p": D.probability("sex=women > sex=men", by="event")})


@pytest.fixture(scope="module")
def streamed():
    record = {"places": bdp.Margins(cases.FRAME, ["county", "race"]), "ages": bdp.Totals(cases.FRAME, "age")}
    return bdp.fit_hierarchy(
        cases.small_release(),
        cases.PRIOR,
        record=record,
        draws=200,
        chains=2,
        cores=1,
        random_seed=3,
        quiet=True,
        progressbar=False,
    )


def test_streamed_posteriors_have_what_recorded_sums_add_up_to(streamed):
    places = streamed["posterior"]["places"].values.astype(float)  # chain, draw, county, race
    share = places[..., 0] / np.where(places.sum(-1) == 0, np.nan, places.sum(-1))
    found = bdp.summary(
        streamed,
        {
            "share": D.share("race=a", by="county"),
            "total": D.total(),
            "gap": D.total("county=A - county=B"),
            "rank": D.total(by="county").rank("county"),
            "old": D.total("age=old"),
            "own": lambda places: places.sum("race"),
        },
    )
    pd.testing.assert_series_equal(
        found.loc["share", "mean"], pd.DataFrame(share.reshape(-1, 2)).mean(), check_index=False, check_names=False
    )
    assert found.loc["share", "undefined"].tolist() == np.isnan(share).sum((0, 1)).tolist()
    assert found.loc[("total", ""), ["exact", "status"]].tolist() == [float(cases.TRUTH.sum()), "exact"]
    counties = places.sum(-1)
    assert found.loc[("gap", ""), "sd"] == pytest.approx((counties[..., 0] - counties[..., 1]).std())
    assert found.loc["own", "mean"].tolist() == pytest.approx(counties.mean((0, 1)))
    assert found.loc["rank", "mean"].iloc[0] == pytest.approx(
        ((counties[..., 1] > counties[..., 0]) + (counties[..., 1] == counties[..., 0]) / 2 + 1).mean()
    )
    assert found.loc[("old", ""), "mean"] == pytest.approx(streamed["posterior"]["ages"].values[..., 1].mean())
    for own, words in (
        (
            D.share("age=old", by="county"),
            r"no draws of age=old by county were kept.*'places', 'ages'.*bdp.Margins\(table, \['county', 'age'\]\)",
        ),
        (D.total(by="tract"), r"no draws of total by tract were kept.*bdp.Margins\(table, \['tract'\]\)"),
        (D.total("county=A*tract=t1"), r"bdp.Margins\(table, \['tract'\]\)"),
        (lambda x: x, "keeps no draws of cells; parameters can be the recorded variables: 'places', 'ages'"),
    ):
        with pytest.raises(ValueError, match=words):
            bdp.summary(streamed, {"q": own})


def test_the_diagnostics_of_ranks_and_events_are_those_of_arviz_in_compiled_code_too(tree, monkeypatch):
    monkeypatch.setattr("bayesdp._chains._MANY", 0)
    women = D.total("sex=women", by="county")
    found = bdp.summary(tree, {"women": women, "rank": women.rank("county"), "more": women.exceeds(1)})
    values = tree["posterior"]["x"].sel(sex="women").values.astype(float)
    ranks = rankdata(-values, axis=-1)
    assert 0.0 < np.mean(ranks % 1.0 != 0.0)  # ties: halves
    for part, own in (("women", values), ("rank", ranks), ("more", np.concatenate([values > 1, values == 1], axis=2))):
        for name, more in (("ess_bulk", {"method": "bulk"}), ("ess_tail", {"method": "tail", "prob": (0.05, 0.95)})):
            expected = [float(az.ess(own[..., i].astype(float), **more)) for i in range(own.shape[2])]
            np.testing.assert_allclose(found.loc[part, name].to_numpy(float), expected, rtol=1e-8)

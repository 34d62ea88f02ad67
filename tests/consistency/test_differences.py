"""Published numbers that contradict each other by their laws: exact tails of differences, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.consistency import differences, law_check

N = bdp.noise
LABELS = {"county": [f"c{i}" for i in range(8)], "sex": ["f", "m"]}
GAPS = np.array([0.0, 1.0, 5.0, 20.0, 50.0])


def release(values, law, query=None):
    return bdp.Release.from_published(LABELS, [bdp.Measured(query or bdp.Identity(LABELS), values, law)])


def tails(law, *scales):
    """P(|sum of noise| >= gap), as the check works it out."""
    terms = [differences.Term((law.name, own), law.at_scales(np.array(own)), bounded=False) for own in scales]
    counts = np.ones((len(terms), len(GAPS)), dtype=np.int64)
    variance = np.array([term.moments[0] for term in terms]) @ counts
    return differences._chances(
        terms, counts, variance, GAPS, np.ones((2, len(GAPS)), bool), 0.0 if law.integer else 1e-9
    )[0][0]


def contradicting(one, other, level=1e-6):
    """The words of a contradiction between two lists of measurements, and None without."""
    found = law_check([*one, *other], [])
    told = [g for g in found.groups if (g.sources[0] < len(one)) != (g.sources[1] < len(one))]
    worst = min(told, key=lambda group: group.too_far)
    return worst.told if worst.too_far < level / len(told) else None


def test_tails_of_sums_of_noise_are_those_of_their_laws():
    b, q = 2.5, np.exp(-1 / 2.5)
    mass = (1 - q) / (1 + q) * q ** np.abs(np.arange(-400, 401))
    two, at = np.convolve(mass, mass), np.abs(np.arange(-800, 801))
    discrete = [two[at >= gap].sum() for gap in GAPS]
    np.testing.assert_allclose(tails(N.DiscreteLaplace(b=1.0), b, b)[:4], discrete[:4], rtol=1e-9)
    laplace = (1 + GAPS / (2 * b)) * np.exp(-GAPS / b)  # the difference of two
    normal = 2 * stats.norm.sf(GAPS / 5)
    for found, exact in ((tails(N.Laplace(1.0), b, b), laplace), (tails(N.Gaussian(1.0), 3.0, 4.0), normal)):
        assert np.all(found >= np.maximum(exact, 0) * (1 - 1e-9))  # never smaller: bounds
        np.testing.assert_allclose(found[:4], exact[:4], rtol=0.1)


def test_arrays_of_scales_and_answers_that_were_not_published():
    scales = np.exp(np.random.default_rng(1).uniform(0, 3, (8, 2)))
    law = N.DiscreteGaussian(sigma=scales)
    x = np.random.default_rng(2).poisson(50.0, (8, 2))
    hidden = np.zeros((8, 2), dtype=bool)
    hidden[0, 0] = True
    far = x.astype(float)
    far[0, 0] = np.nan
    one = bdp.Measured(bdp.Identity(LABELS), far, law, unmeasured=hidden)
    assert contradicting([one], [bdp.Measured(bdp.Identity(LABELS), x, law)]) is None
    x[3, 1] += 12 * scales[3, 1]
    told = contradicting([one], [bdp.Measured(bdp.Identity(LABELS), x, law)])
    assert "of 15 answers" in told
    assert told.index("county=c3, sex=m") < 80


def test_two_years_are_refused_by_name(tmp_path, capsys):
    x = np.random.default_rng(3).poisson(200.0, (8, 2))
    later = x.copy()
    later[2, 1] += 64
    files = [str(tmp_path / name) for name in ("y2023.nc", "y2024.nc")]
    for path, values in zip(files, (x, later), strict=True):
        release(values, LAW).to_netcdf(path)
    assert main(["fit", *files, "-o", str(tmp_path / "p.nc")]) == 2
    said = capsys.readouterr().err
    for words in ("y2023.nc and", f"county=c2, sex=m {x[2, 1]} and {later[2, 1]}", "one table at one time"):
        assert words in said
    with pytest.raises(ValueError, match="release 1 and release 2 contradict each other by their laws"):
        bdp.compose(release(x, LAW), release(later, LAW))


YEARS = np.random.default_rng(3).poisson(200.0, (2, 8, 2))
LAW = N.DiscreteGaussian(sigma=5.0)


@pytest.mark.parametrize("query", [bdp.Identity(LABELS), bdp.Margins(LABELS, ["county"])])
def test_two_years_in_one_release_are_refused(query):
    """The same answers, or sums of them."""
    x = YEARS[0]
    moved = x.copy()
    moved[2, 1] += 200
    first = bdp.Measured(bdp.Identity(LABELS), x, LAW, name="y2023")
    measured = [first, bdp.Measured(query, query.apply(moved) + 1, LAW)]
    words = r"y2023, 16 answers by county × sex and .* contradict each other by their laws: of.*one table at one time"
    with pytest.raises(ValueError, match=words):
        bdp.Release.from_published(LABELS, measured)
    with pytest.warns(bdp.consistency.PostProcessedWarning, match="contradict each other by their laws"):
        assert len(bdp.Release.from_published(LABELS, measured, adding_up="warn").measurements) == 2
    fine = [first, bdp.Measured(query, query.apply(x) + 1, LAW)]
    assert len(bdp.Release.from_published(LABELS, fine).measurements) == 2


def test_two_years_on_the_command_line(tmp_path, capsys):
    law, asked = ["--law", "discrete-gaussian sigma=5"], []
    for k, option in enumerate(("import", "--noisy")):
        path = tmp_path / f"y{k}.csv"
        cells = zip(product(LABELS["county"], "fm"), YEARS[k].reshape(-1), strict=True)
        path.write_text("\n".join(["county,sex,n", *(f"{county},{sex},{n}" for (county, sex), n in cells)]) + "\n")
        asked += [option, str(path), *law]
    asked += ["-o", str(tmp_path / "r.nc")]
    assert main(asked) == 2
    assert "contradict each other by their laws" in capsys.readouterr().err
    assert main([*asked, "--adding-up", "warn"]) == 0
    assert "warning: " in capsys.readouterr().err


def test_many_small_changes_are_refused_though_none_is_large():
    table = {"county": [f"c{i}" for i in range(400)]}
    law, rng = N.DiscreteGaussian(sigma=5.0), np.random.default_rng(4)
    x = rng.poisson(300.0, 400)
    one = bdp.Measured(bdp.Identity(table), law.draw(rng, (400,), location=x), law)
    moved = x + rng.choice([-8, 8], 400)
    other = bdp.Measured(bdp.Identity(table), law.draw(rng, (400,), location=moved), law)
    assert contradicting([one], [other]) is not None


def test_what_bounded_laws_cannot_have_given():
    law = N.RandomRounding(3)
    x = np.full((8, 2), 30)
    x[1, 0] = 36
    with pytest.raises(ValueError, match=r"county=c1, sex=f 30 and 36 \(impossible\)"):
        bdp.compose(release(np.full((8, 2), 30), law), release(x, law))
    exact = bdp.Release.from_published(LABELS, exact=[bdp.Exact(bdp.Margins(LABELS, ["county"]), [60] * 8)])
    with pytest.raises(ValueError, match=r"county=c1 66 and 60 \(impossible\)"):
        bdp.compose(release(x, law), exact)

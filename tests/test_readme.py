"""What the README and the pages promise: examples, files, samplers, log-likelihoods; names that were mistyped."""

import re
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import distributions
from bayesdp import mechanisms as m
from bayesdp.cli import main
from bayesdp.noise.base import law_names, registered_law
from bayesdp.papers import integer_subspace, models
from bayesdp.privacy import EXACT_SAMPLER
from bayesdp.tables import read_margins

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language, page=README):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for own, text in fenced if own == language]


def run(page, *changes):
    [block] = blocks("python", (ROOT / page).read_text(encoding="utf-8"))
    for old, new in changes:
        assert block.count(old) == 1
        block = block.replace(old, new)
    names = {}
    exec(compile(block, page, "exec"), names)
    return names


def test_the_ten_lines_and_the_examples_of_the_pages_on_calibration_and_designs_run_shorter(capsys):
    run("README.md", ("draws=500, tune=500, chains=4", "draws=40, tune=60, chains=2"))
    assert "[18. 24. 13.]" in capsys.readouterr().out  # the exact rows, kept by every draw
    assert len(README) < 5000
    run("docs/CALIBRATION.md")
    assert capsys.readouterr().out == "True\n"
    result = run("docs/how-to/design-a-release.md", ("draws=300", "draws=150"))["result"]
    # One record that moves within a county is 2 in l1, for every candidate.
    assert result.data["loss"].values.tolist() == [0.5, 2.0, 0.5]
    widths = result.data["width"].sel(probability=0.95, question="people in Alpha").values
    assert widths[0] > widths[1] > widths[2] == 0.0  # exact counties leave nothing to ask
    assert "counties exact, 0.25" in capsys.readouterr().out


@pytest.mark.system
def test_the_ten_lines_converge_and_semi_k_norm_noise_is_exact_for_10_x_10():
    assert run("README.md")["posterior"]["diagnostics"].attrs["converged"] == 1
    assert m.SemiKNorm(both(10, 10), 1.0).guarantee.sampler == EXACT_SAMPLER


def test_the_files_and_targets_that_pages_name_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "how-to").glob("*.md")]
    path = re.compile(r"`((?:docs|models|notebooks|tests|benchmarks)/[\w./-]*)`")
    named = {own for page in pages for own in path.findall(page.read_text("utf-8"))}
    assert len(named) > 10
    assert not [own for own in named if not (ROOT / own).exists()]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", "\n".join(blocks("")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def both(rows, columns):
    return bdp.Margins({"row": range(rows), "column": range(columns)}, ["row"], ["column"])


TOTAL = bdp.Totals({"cell": range(5)})
SMALL = {"total": TOTAL, "2x2": both(2, 2), "2x3": both(2, 3), "3x3": both(3, 3)}

SUBSPACE = {
    "LatticeLaplace": lambda exact: m.LatticeLaplace(exact, 0.5),
    "LatticeGaussian": lambda exact: m.LatticeGaussian(exact, rho=0.1),
    "ProjectedGaussian": lambda exact: m.ProjectedGaussian(exact, rho=0.1),
    "ExtendedGaussian": lambda exact: m.ExtendedGaussian(exact, rho=0.1),
    "CorrelatedGaussian": lambda exact: m.CorrelatedGaussian(exact, epsilon=1.0, delta=1e-6),
    "ProjectedLaplace": lambda exact: m.ProjectedLaplace(exact, 1.0),
    "ExtendedLaplace": lambda exact: m.ExtendedLaplace(exact, 1.0),
    "KNorm": lambda exact: m.KNorm(exact, 1.0),
}


def log_likelihood(mechanism):
    """``exact``, ``up to a constant`` or ``refused``, at a table with ones."""
    table = np.ones(mechanism.frame.shape, dtype=np.int64)
    try:
        found = mechanism.logp(mechanism.released_query.apply(table), table)
    except NotImplementedError:
        return "refused"
    assert np.isfinite(found)
    known = getattr(mechanism.law, "log_normaliser", 0.0)
    return "up to a constant" if (known(mechanism.answer_invariants) if callable(known) else known) is None else "exact"


@pytest.mark.parametrize("name", SUBSPACE)
def test_log_likelihoods_and_samplers(name):
    """KNorm needs half a minute for 10 x 10 tables; a case of its own is below."""
    with_both = "refused" if name == "ProjectedLaplace" else "exact"
    found = {own: log_likelihood(SUBSPACE[name](exact)) for own, exact in SMALL.items()}
    assert found == {own: "exact" if own == "total" else with_both for own in SMALL}
    if name == "KNorm":
        return
    mechanism = SUBSPACE[name](both(4, 4) if name == "CorrelatedGaussian" else both(10, 10))
    assert mechanism.guarantee.sampler == EXACT_SAMPLER
    if name == "CorrelatedGaussian":
        return
    kind = "up to a constant" if name.startswith("Lattice") else with_both
    assert log_likelihood(mechanism) == kind
    if kind == "up to a constant":  # it cancels between two tables, as nothing but the norm of the noise differs
        zero = np.full((10, 10), 5)
        one = zero + np.pad([[1, -1], [-1, 1]], (0, 8))
        lost = mechanism.logp(zero, zero) - mechanism.logp(zero, one)
        size = 0.5 * 4 if name == "LatticeLaplace" else 4 / (2 * mechanism.sigma**2)
        assert lost == pytest.approx(size, rel=1e-12)


def test_samplers_of_semi_dp_are_exact_up_to_10_x_10():
    for exact in (both(3, 3), both(10, 10)):
        made = [m.SemiGaussian(exact, mu=1.0), *(m.SemiLatticeLaplace(exact, 1.0, norm) for norm in ("l1", "l2"))]
        made += [m.SemiNorm(exact, 1.0, norm) for norm in ("l1", "l2", "linf")] + [m.SemiKNorm(both(3, 3), 1.0)]
        assert {own.guarantee.sampler for own in made} == {EXACT_SAMPLER}


def test_every_noise_law_of_the_table_is_a_pymc_distribution():
    with pytest.raises(NotImplementedError, match="RowSpaceNoise and ProjectedLaplaceGivenRows"):
        m.ProjectedLaplace(both(2, 3), 1.0).logp(np.zeros((2, 3)), np.zeros((2, 3)))
    assert {"RowSpaceNoise", "ProjectedLaplaceGivenRows"} <= set(distributions.__all__)
    found = [distributions.distribution_of(registered_law(name)).__name__ for name in law_names().split(", ")]
    assert len(set(found)) == len(found) >= 22
    assert set(found) <= {*distributions.__all__, *models.__all__} | set(dir(distributions))


def test_k_norm_noise_by_hit_and_run_is_said_and_not_certified():
    """Running totals of fourteen cells: too many dimensions to triangulate, and no l1 noise to reject from."""
    cells = {"cell": range(14)}
    query = bdp.LinearQuery(cells, np.tril(np.ones((14, 14), dtype=np.int64)), [f"up to {i}" for i in range(14)])
    mechanism = m.KNorm(bdp.Totals(cells), 1.0, query=query)
    stated = mechanism.guarantee
    assert (mechanism.answer_invariants.dimension, stated.certified) == (13, False)
    text = " ".join(str(stated).split()).replace("hit- and", "hit-and")
    assert "epsilon = 1 (approximate, 50 sweeps of hit-and-run, convergence not certified)" in text
    assert text.count("epsilon = 1") == text.count("epsilon = 1 (approximate")
    assert log_likelihood(mechanism) == "up to a constant"
    assert mechanism.release(np.arange(14), rng=np.random.default_rng(1)).guarantee.sampler == stated.sampler
    words = r"LatticeLaplace or LatticeGaussian, .* hit-and-run .* certified by nothing here"
    with pytest.raises(TypeError, match=words):
        integer_subspace.certify(mechanism, 0.1)


LABELS = {"County": ["Alpha", "Beta"], "Sex": ["f", "m"]}
ROWS = [bdp.Measured(bdp.Identity(LABELS), [[9, 4], [7, 8]], bdp.noise.DiscreteGaussian(sigma=3.0))]
LAW, RELEASE = ROWS[0].law, bdp.Release.from_published(LABELS, ROWS)


def test_names_in_python_and_columns_and_labels_of_margins(tmp_path):
    for wrong, meant in (
        (lambda: bdp.noise.parse_law("discrete-gausian sigma=3"), "did you mean 'discrete-gaussian'"),
        (lambda: bdp.noise.NoiseLaw.from_description({"law": "laplac", "b": 1}), "did you mean 'laplace'"),
        (lambda: bdp.Margins(LABELS, ["county"]), "'County', 'Sex'; did you mean 'County'?"),
        (lambda: bdp.priors.build_model(RELEASE, "loglinear"), "did you mean 'log-linear'?"),
        (lambda: bdp.Measured(bdp.Identity(LABELS), [[1, 2], [3, 4]], LAW, unmeasured=["County=Alpha, Sex=F"]), "mean"),
        (lambda: bdp.Release.from_published(LABELS, ROWS, about="count"), "did you mean 'counts'?"),
    ):
        with pytest.raises(ValueError, match="mean") as caught:
            wrong()
        assert meant in str(caught.value)
        assert len(str(caught.value)) < 400  # and no list of thirty
    path = tmp_path / "margins.csv"
    for text, message in (
        ("county,total\nAlpha,13\n", r"'county' is neither .* 'County', 'Sex'; did you mean 'County'\?(?!.*ignore)"),
        ("people,total\nAlpha,13\n", r"those are 'County', 'Sex'\. A column of something else .*--ignore people"),
        ("County,total\nalpha,13\n", r"'alpha' is no label .* are 'Alpha', 'Beta'; did you mean 'Alpha'\?"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_margins(path, LABELS)


def test_subcommands_options_and_columns_on_the_command_line(tmp_path, capsys):
    for words, meant in (
        (["imprt", "a.csv"], "did you mean 'import'?"),
        (["fit", "a.nc", "--prior", "loglinear", "-o", "b.nc"], "did you mean 'log-linear'?"),
        (["fit", "a.nc", "--drws", "5", "-o", "b.nc"], "did you mean '--draws'?"),
    ):
        with pytest.raises(SystemExit):
            main(words)
        assert meant in capsys.readouterr().err
    table = tmp_path / "t.csv"
    table.write_text("County,Sex,n,pop\nAlpha,f,1,5\nAlpha,m,2,5\n")
    for option, meant in ((["--value", "N"], "'n'"), (["--ignore", "Pop"], "'pop'"), (["--group", "Pop=Sex"], "'pop'")):
        assert main(["import", str(table), "--law", "laplace b=2", *option, "-o", str(tmp_path / "r.nc")]) == 2
        assert f"did you mean {meant}?" in capsys.readouterr().err

"""What is nearly right is proposed, and not what leads astray."""

from __future__ import annotations

import pytest

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.tables import read_margins

LABELS = {"County": ["Alpha", "Beta"], "Sex": ["f", "m"]}
ROWS = [bdp.Measured(bdp.Identity(LABELS), [[9, 4], [7, 8]], bdp.noise.DiscreteGaussian(sigma=3.0))]


@pytest.fixture
def margins(tmp_path):
    path = tmp_path / "margins.csv"

    def write(text):
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (lambda: bdp.noise.parse_law("discrete-gausian sigma=3"), "did you mean 'discrete-gaussian'"),
        (lambda: bdp.noise.parse_law("Discrete Gausian sigma=3"), "did you mean 'discrete-gaussian'"),
        (lambda: bdp.noise.NoiseLaw.from_description({"law": "laplac", "b": 1}), "did you mean 'laplace'"),
        (lambda: bdp.Margins(LABELS, ["county"]), "'County', 'Sex'; did you mean 'County'?"),
        (lambda: bdp.priors.build_model(bdp.Release.from_published(LABELS, ROWS), "loglinear"), "did you mean 'log-linear'?"),
        (lambda: bdp.Measured(bdp.Identity(LABELS), [[1, 2], [3, 4]], ROWS[0].law, unmeasured=["County=Alpha, Sex=F"]), "mean"),
        (lambda: bdp.Release.from_published(LABELS, ROWS, about="count"), "did you mean 'counts'?"),
    ],
)  # fmt: skip
def test_names_in_python(wrong, meant):
    with pytest.raises(ValueError, match="mean") as caught:
        wrong()
    assert meant in str(caught.value)
    assert len(str(caught.value)) < 400  # and no list of thirty


def test_a_column_of_another_case_is_no_column_to_be_ignored(margins):
    path = margins("county,total\nAlpha,13\nBeta,15\n")
    with pytest.raises(
        ValueError, match=r"'county' is neither .* those are 'County', 'Sex'; did you mean 'County'\?"
    ) as caught:
        read_margins(path, LABELS)
    assert "ignore" not in str(caught.value)
    with pytest.raises(ValueError, match=r"those are 'County', 'Sex'\. A column of something else .*--ignore people"):
        read_margins(margins("people,total\nAlpha,13\n"), LABELS)


def test_a_label_of_a_margin(margins):
    with pytest.raises(
        ValueError, match=r"'alpha' is no label of 'County'; labels are 'Alpha', 'Beta'; did you mean 'Alpha'\?"
    ):
        read_margins(margins("County,total\nalpha,13\nBeta,15\n"), LABELS)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["imprt", "a.csv"], "did you mean 'import'?"),
        (["fit", "a.nc", "--prior", "loglinear", "-o", "b.nc"], "did you mean 'log-linear'?"),
        (["fit", "a.nc", "--drws", "5", "-o", "b.nc"], "did you mean '--draws'?"),
    ],
)
def test_subcommands_and_options(words, meant, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert meant in capsys.readouterr().err


def test_columns_on_the_command_line(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("County,Sex,n,pop\nAlpha,f,1,5\nAlpha,m,2,5\n")
    for option, meant in ((["--value", "N"], "'n'"), (["--ignore", "Pop"], "'pop'"), (["--group", "Pop=Sex"], "'pop'")):
        assert main(["import", str(table), "--law", "laplace b=2", *option, "-o", str(tmp_path / "r.nc")]) == 2
        assert f"did you mean {meant}?" in capsys.readouterr().err

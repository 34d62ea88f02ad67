"""Labels that a terminal would obey, a spreadsheet would compute, or that turn text around, through every command.

What is printed holds none of them as they are, a row stays a row, and what is written comes back exactly as it was.
"""

import csv
import io
import json
import logging
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp._text import width
from bayesdp.cli import errors
from bayesdp.tables import label_of_csv
from tests.cli.conftest import LAW
from tests.nasty import LABELS, obeyed

COUNTY, EDUCATION = DIMS = ("cou\x1b[31mnty", "=edu\u202ecation\n")
GROUPS = [f"=g\x1b{i % 3}" for i in range(len(LABELS))]
FRAME = {COUNTY: LABELS, EDUCATION: ["Low\x07", "-High"], "@group\n": (COUNTY, GROUPS)}
COUNTS = np.arange(2 * len(LABELS)).reshape(-1, 2)
CELLS, MARGIN, TOTAL = bdp.Identity(FRAME), bdp.Margins(FRAME, [EDUCATION]), bdp.Totals(FRAME)
SQUARE = {COUNTY: LABELS[:2], EDUCATION: ["=Low\x07", "\u202eHigh"]}
GAUSSIAN = bdp.noise.DiscreteGaussian(sigma=2.0)


def published(*exact):
    return bdp.Release.from_published(FRAME, exact=exact)


def posterior():
    noisy = COUNTS + np.tile([1, -1], (len(LABELS), 1)) * (-1) ** np.arange(len(LABELS))[:, None]
    sums = MARGIN + bdp.Totals(FRAME, "@group\n")
    measured = [
        bdp.Measured(CELLS, noisy, GAUSSIAN, name="noi\x1bsy"),
        bdp.Measured(sums, sums.apply(COUNTS) + 1, GAUSSIAN),
    ]
    own = bdp.Release.from_published(FRAME, measured, [bdp.Exact(MARGIN, MARGIN.apply(COUNTS))], simulated=True)
    rng, shares = np.random.default_rng(1), np.full(len(LABELS), 1 / len(LABELS))
    draws = np.stack([rng.multinomial(total, shares, size=(2, 100)) for total in COUNTS.sum(axis=0)], axis=-1)
    x = xr.DataArray(draws, dims=("chain", "draw", *DIMS), coords=own.coords)
    effect = xr.DataArray(
        rng.normal(size=(2, 100, len(LABELS))), dims=("chain", "draw", COUNTY), coords={COUNTY: LABELS}
    )
    values = xr.Dataset({"x": x, "eff\x1bect\n": effect})
    limits = {name: (DIMS, array) for name, array in zip(("lower", "upper"), own.fiber.bounds()[:2], strict=True)}
    limits["determined"] = (DIMS, own.fiber.determined())
    made = xr.DataTree.from_dict({"posterior": values, "release": own.to_dataset()})
    attrs = {"variable": "x", "connectivity": "proved: by hand"}
    made["fiber"] = xr.DataTree(xr.Dataset(limits, coords=own.coords, attrs=attrs))
    made["diagnostics"] = xr.DataTree(bdp.inference.diagnose(values, {"x": own.fiber.determined()}))
    made["diagnostics"].attrs["message"] = "as\x1b[31m somebody\u202e wrote it"
    return made


MADE = posterior()
STATUS = 0 if MADE["diagnostics"].attrs["converged"] else 3


@pytest.fixture
def shown(run):
    """Run a command, and look at all that it printed."""

    def call(*arguments, status=0):
        result = run(*arguments)
        assert result.status == status, result.err
        assert obeyed(result.out) == obeyed(result.err) == set()
        return result

    return call


@pytest.fixture
def saved(shown):
    MADE.to_netcdf("posterior.nc", engine="h5netcdf")
    return lambda *arguments, status=STATUS: shown("summary", "posterior.nc", *arguments, status=status)


def write(path, *rows, header="count"):
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[COUNTY, "education", header], *rows])


@pytest.fixture
def table(shown):
    names = zip(LABELS, COUNTS.tolist(), strict=True)
    write(
        "labels.csv", *([label, name, n] for label, row in names for name, n in zip(("Low", "High"), row, strict=True))
    )
    return shown


def test_a_row_stays_a_row_and_a_column_a_column_in_words_and_csv(saved):
    for query, rows in (("cells", 2 * len(LABELS)), (f"margins:{COUNTY}", len(LABELS)), ("totals:@group\n", 3)):
        table = saved("--query", query).out.split("\n\n")[1].split("\n")
        assert len(table) == 1 + rows
        if query.startswith("margins"):
            # The position of the mean, in columns of a terminal: two for each letter of 東京都, none for a combining mark.
            assert len({width(row[: row.rindex("  ")].rstrip()) for row in table[1:]}) == 1
    for options, dims, labels in (
        ((), DIMS, LABELS),
        (("--query", "totals:@group\n"), ("@group\n",), GROUPS[:3]),
        (("--var", "eff\x1bect\n"), (COUNTY,), LABELS),
    ):
        out = saved("--format", "csv", *options).out
        header, *rows = csv.reader(io.StringIO(out))
        assert len(rows) == len(out.splitlines()) - 1
        place = len(dims)
        assert [label_of_csv(cell) for cell in header[: place + 1]] == [*dims, "published"]
        assert list(dict.fromkeys(label_of_csv(row[0]) for row in rows)) == labels
        for row in rows:
            assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row[:place])
            assert all(float(cell) == float(cell) for cell in row[place:-1] if cell)  # numbers stay numbers


def test_json_errors_and_a_page(saved, shown):
    rows = json.loads(saved("--format", "json").out)["rows"]
    assert list(dict.fromkeys(row[COUNTY] for row in rows)) == LABELS
    for options in (
        ["--query", "margins:\x1b[31m"], ["--query", f"margins:{COUNTY}*@group\n"], ["--var", "\u202eno"], ["--\x1b[31m"],
        ["--format", "\x1b"],
    ):  # fmt: skip
        assert len(saved(*options, status=2).err.splitlines()) == 1
    assert "\\x1b" in shown("summary", "no\x1bfile.nc", status=2).err
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a picture of letters that no font has
        shown("report", "posterior.nc", "-o", "out\u202e.html", "--title", "ti\x1b[31mtle", status=STATUS)
    text = Path("out\u202e.html").read_text(encoding="utf-8")
    assert obeyed(text) == set()
    for label in ("القاهرة", "ירושלים", "東京都"):
        assert f"<bdi>{label}" in text


def test_import_and_back_what_is_wrong_with_a_table_and_a_test(table):
    table("import", "labels.csv", *LAW, "--group", "no\x1b=x", "-o", "release.nc", status=2)
    for name, read in (("release.nc", bdp.Release.from_netcdf), ("release.csv", bdp.Release.from_csv)):
        table("import", "labels.csv", *LAW, "-o", name)
        made = read(name)
        assert (made.frame.labels[0], made.dims) == (tuple(LABELS), (COUNTY, "education"))
        np.testing.assert_array_equal(made.values, COUNTS)
    lines = Path("labels.csv").read_bytes().split(b"\r\n")
    whole = lines[:-1]
    for wrong in (
        lines[:-2], [*whole, lines[1]], [*whole, lines[1] + b",3"], [*whole, b"\x1b[31m,Low,\x9b"],
        [*whole, "\u202e,Low,x\x1b".encode()],
    ):  # fmt: skip
        Path("wrong.csv").write_bytes(b"\r\n".join(wrong) + b"\r\n")
        table("import", "wrong.csv", *LAW, "-o", "out.nc", status=2)
    totals = [[label, "", total] for label, total in zip(LABELS, COUNTS.sum(axis=1).tolist(), strict=True)]
    write("exact.csv", *totals, ["", "Low", 5], ["", "High", 7], header="total")
    told = table("import", "labels.csv", *LAW, "--exact", "exact.csv", "-o", "o.nc", status=2).err
    assert "contradict" in told
    assert "cou\\x1b[31mnty" in told
    mechanism = bdp.LatticeLaplace(bdp.Margins(SQUARE, [COUNTY], [EDUCATION]), epsilon=0.25)
    mechanism.release(np.array([[12, 30], [25, 17]]), rng=np.random.default_rng(1)).to_csv("square.csv")
    words = table("test", "square.csv", "--seed", "1").out
    assert "\\x1b[2J" in words
    assert len(words.splitlines()[0]) > 30
    found = json.loads(table("test", "square.csv", "--seed", "1", "--format", "json").out)
    assert found["cell"] == f"{COUNTY}={LABELS[0]}, {EDUCATION}==Low\x07"


def test_labels_in_errors_of_the_library_and_in_what_pymc_logs_and_who_prints(capsys):
    """They are printed with a traceback where nobody catches them."""
    for call in (
        lambda: bdp.Measured(CELLS, np.where(COUNTS == 3, np.nan, COUNTS), GAUSSIAN),
        lambda: bdp.Measured(CELLS, COUNTS + 0.5, GAUSSIAN),
        lambda: bdp.Measured(CELLS, COUNTS, bdp.noise.TruncatedLaplace(2.0, (0.0, 5.0))),
        lambda: bdp.Measured(CELLS, COUNTS, GAUSSIAN, unmeasured=["\x1b[31m"]),
        lambda: bdp.Exact(MARGIN, [3, -1]),
        lambda: bdp.Exact(CELLS, COUNTS - 1),
        lambda: bdp.Margins(FRAME, ["\x1b"]),
        lambda: bdp.Margins(FRAME, [COUNTY, "@group\n"]),
        lambda: bdp.LatticeLaplace(MARGIN, epsilon=1.0).release(COUNTS - 1, rng=np.random.default_rng(1)),
        lambda: published(bdp.Exact(MARGIN, [3, 4]), bdp.Exact(TOTAL, 9)),
        lambda: published(bdp.Exact(bdp.LinearQuery(FRAME, [[1] * COUNTS.size], ["\x1b"]), [3]), bdp.Exact(TOTAL, 9)),
        lambda: published(bdp.Exact(MARGIN, [3, 4]), bdp.Exact(CELLS, COUNTS + 9, ">=")),
        lambda: bdp.Frame.of({"a\x1b": ["\u202e", "\u202e"]}),
        lambda: bdp.Frame.of({"a\x1b": [None]}),
        lambda: MARGIN.apply(xr.DataArray([1], dims="a\x1b")),
        lambda: bdp.Frame.of(FRAME).align(xr.DataArray(COUNTS[1:], dims=DIMS, coords={COUNTY: LABELS[1:]}), "table"),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert obeyed(str(caught.value), "") == set()
    # The names of its variables hold those of dimensions.
    handler, logger = logging.StreamHandler(), logging.getLogger("pymc")
    logger.addHandler(handler)
    try:
        errors.log_safely()
        errors.log_safely()
        logger.getChild("sampling").warning("NUTS: [%s_effect]", COUNTY)
    finally:
        logger.removeHandler(handler)
    assert "NUTS: [cou\\x1b[31mnty_effect]\n" in capsys.readouterr().err
    folder = Path(bdp.__file__).parent / "cli"
    own = {path.name for path in folder.glob("*.py") if "print(" in path.read_text(encoding="utf-8")}
    assert own == {"errors.py", "demo.py"}  # the demonstration prints its own tables only

"""Labels that a terminal would obey, a spreadsheet would compute, or that turn text around, through every command.

What is printed holds none of them as they are, a row stays a row, and what is written comes back exactly as it was.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.cli import errors
from bayesdp.tables import label_of_csv
from tests.nasty import LABELS, obeyed

DIMS = ("cou\x1b[31mnty", "=edu\u202ecation\n")
FRAME = {
    DIMS[0]: LABELS,
    DIMS[1]: ["Low\x07", "-High"],
    "@group\n": (DIMS[0], [f"=g\x1b{i % 3}" for i in range(len(LABELS))]),
}
COUNTS = np.arange(2 * len(LABELS)).reshape(-1, 2)
MARGIN = bdp.Margins(FRAME, [DIMS[1]])


SUMS = MARGIN + bdp.Totals(FRAME, "@group\n")


def release(law: bdp.noise.NoiseLaw | None = None) -> bdp.Release:
    noisy = COUNTS + np.tile([1, -1], (len(LABELS), 1)) * (-1) ** np.arange(len(LABELS))[:, None]
    own = bdp.noise.DiscreteGaussian(sigma=2.0) if law is None else law
    return bdp.Release.from_published(
        FRAME,
        [
            bdp.Measured(bdp.Identity(FRAME), noisy, own, name="noi\x1bsy"),
            bdp.Measured(SUMS, SUMS.apply(COUNTS) + 1, own),
        ],
        [bdp.Exact(MARGIN, MARGIN.apply(COUNTS))],
        simulated=True,
    )


def posterior() -> xr.DataTree:
    """Draws made up, as `bayesdp.sample` would return them."""
    own = release()
    rng = np.random.default_rng(1)
    draws = np.stack(
        [rng.multinomial(total, np.full(len(LABELS), 1 / len(LABELS)), size=(2, 100)) for total in COUNTS.sum(axis=0)],
        axis=-1,
    )
    x = xr.DataArray(draws, dims=("chain", "draw", *DIMS), coords=own.coords)
    effect = xr.DataArray(
        rng.normal(size=(2, 100, len(LABELS))), dims=("chain", "draw", DIMS[0]), coords={DIMS[0]: LABELS}
    )
    values = xr.Dataset({"x": x, "eff\x1bect\n": effect})
    limits = {name: (DIMS, array) for name, array in zip(("lower", "upper"), own.fiber.bounds()[:2], strict=True)}
    determined = {"determined": (DIMS, own.fiber.determined())}
    made = xr.DataTree.from_dict({
        "posterior": values,
        "release": own.to_dataset(),
        "fiber": xr.Dataset({**limits, **determined}, coords=own.coords, attrs={"variable": "x", "connectivity": "proved: by hand"}),
        "diagnostics": bdp.inference.diagnose(values, {"x": own.fiber.determined()}),
    })  # fmt: skip
    made["diagnostics"].attrs["message"] = "as\x1b[31m somebody\u202e wrote it"
    return made


@pytest.fixture
def shown(run):
    """Run a command, and look at all that it printed."""

    def call(*arguments: str, status: int = 0):
        result = run(*arguments)
        assert result.status == status, result.err
        assert obeyed(result.out) == obeyed(result.err) == set()
        return result

    return call


MADE = posterior()
STATUS = 0 if MADE["diagnostics"].attrs["converged"] else 3


@pytest.fixture
def saved(shown):
    MADE.to_netcdf("posterior.nc", engine="h5netcdf")
    return shown


def write_table(path: str, counts: np.ndarray = COUNTS) -> None:
    """As an agency might write it: labels as they are."""
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([DIMS[0], "education", "count"])
        for label, row in zip(LABELS, counts.tolist(), strict=True):
            writer.writerows([[label, "Low", row[0]], [label, "High", row[1]]])


class TestSummary:
    @pytest.mark.parametrize("query", ["cells", f"margins:{DIMS[0]}", "totals:@group\n"])
    def test_a_row_stays_a_row(self, saved, query):
        result = saved("summary", "posterior.nc", "--query", query, status=STATUS)
        table = result.out.split("\n\n")[1].split("\n")
        assert len(table) == 1 + {"cells": 2 * len(LABELS), f"margins:{DIMS[0]}": len(LABELS)}.get(query, 3)

    def test_columns_stay_columns(self, saved):
        # The position of the mean, in columns of a terminal: two for each letter of 東京都, none for a combining mark.
        from bayesdp._text import width

        table = (
            saved("summary", "posterior.nc", "--query", f"margins:{DIMS[0]}", status=STATUS)
            .out.split("\n\n")[1]
            .split("\n")
        )
        ends = {width(row[: row.rindex("  ")].rstrip()) for row in table[1:]}
        assert len(ends) == 1

    @pytest.mark.parametrize("options", [[], ["--query", "totals:@group\n"], ["--var", "eff\x1bect\n"]])
    def test_csv(self, saved, options):
        out = saved("summary", "posterior.nc", "--format", "csv", *options, status=STATUS).out
        header, *rows = csv.reader(io.StringIO(out))
        assert len(rows) == len(out.splitlines()) - 1
        names = [label_of_csv(cell) for cell in header]
        place = names.index("published")
        assert tuple(names[:place]) == {0: DIMS, 2: ("@group\n",) if "--query" in options else (DIMS[0],)}[len(options)]
        labels = list(dict.fromkeys(label_of_csv(row[0]) for row in rows))
        assert labels == (LABELS if "--query" not in options else [f"=g\x1b{i}" for i in range(3)])
        for row in rows:
            assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row[:place])
            assert all(float(cell) == float(cell) for cell in row[place:-1] if cell)  # numbers stay numbers

    def test_json(self, saved):
        rows = json.loads(saved("summary", "posterior.nc", "--format", "json", status=STATUS).out)["rows"]
        assert list(dict.fromkeys(row[DIMS[0]] for row in rows)) == LABELS

    def test_errors(self, saved):
        for options in (
            ["--query", "margins:\x1b[31m"],
            ["--query", f"margins:{DIMS[0]}*@group\n"],
            ["--var", "\u202eno"],
            ["--\x1b[31m"],
            ["--format", "\x1b"],
        ):
            assert len(saved("summary", "posterior.nc", *options, status=2).err.splitlines()) == 1
        assert "\\x1b" in saved("summary", "no\x1bfile.nc", status=2).err


class TestReport:
    def test_page(self, saved):
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="Glyph .* missing from font"
            )  # a picture of letters that no font has
            saved("report", "posterior.nc", "-o", "out\u202e.html", "--title", "ti\x1b[31mtle", status=STATUS)
        text = Path("out\u202e.html").read_text(encoding="utf-8")
        assert obeyed(text) == set()
        for label in ("القاهرة", "ירושלים", "東京都"):
            assert f"<bdi>{label}" in text


class TestReleases:
    @pytest.mark.parametrize("name", ["release.nc", "release.csv"])
    def test_import_and_back(self, shown, name):
        write_table("labels.csv")
        shown("import", "labels.csv", "--law", "discrete-gaussian sigma=2", "--group", "no\x1b=x", "-o", name, status=2)
        shown("import", "labels.csv", "--law", "discrete-gaussian sigma=2", "-o", name)
        made = bdp.Release.from_netcdf(name) if name.endswith(".nc") else bdp.Release.from_csv(name)
        assert made.frame.labels[0] == tuple(LABELS)
        assert made.dims == (DIMS[0], "education")
        np.testing.assert_array_equal(made.values, COUNTS)

    def test_release(self, shown):
        write_table("labels.csv")
        shown(
            "release", "labels.csv", "--invariant", "margins:education", "--mechanism", "lattice-laplace", "--epsilon", "1",
            "--seed", "1", "-o", "made.csv",
        )  # fmt: skip
        assert bdp.Release.from_csv("made.csv").frame.labels[0] == tuple(LABELS)

    def test_what_is_wrong_with_a_table(self, shown):
        write_table("labels.csv")
        lines = Path("labels.csv").read_bytes().split(b"\r\n")
        for wrong in (lines[:-2], [*lines[:-1], lines[1]], [*lines[:-1], lines[1] + b",3"], [*lines[:-1], b"\x1b[31m,Low,\x9b"],
                      [*lines[:-1], "\u202e,Low,x\x1b".encode()]):  # fmt: skip
            Path("wrong.csv").write_bytes(b"\r\n".join(wrong) + b"\r\n")
            shown("import", "wrong.csv", "--law", "discrete-gaussian sigma=2", "-o", "out.nc", status=2)

    def test_margins_that_contradict_one_another(self, shown):
        write_table("labels.csv")
        with Path("exact.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([DIMS[0], "education", "total"])
            writer.writerows(
                [[label, "", total] for label, total in zip(LABELS, COUNTS.sum(axis=1).tolist(), strict=True)]
            )
            writer.writerows([["", "Low", 5], ["", "High", 7]])
        told = shown(
            "import", "labels.csv", "--law", "discrete-gaussian sigma=2", "--exact", "exact.csv", "-o", "o.nc", status=2
        ).err
        assert "contradict" in told
        assert "cou\\x1b[31mnty" in told

    def test_a_test(self, shown):
        frame = {DIMS[0]: LABELS[:2], DIMS[1]: ["=Low\x07", "\u202eHigh"]}
        both = bdp.Margins(frame, [DIMS[0]], [DIMS[1]])
        made = bdp.LatticeLaplace(both, epsilon=0.25).release(
            np.array([[12, 30], [25, 17]]), rng=np.random.default_rng(1)
        )
        made.to_csv("square.csv")
        words = shown("test", "square.csv", "--seed", "1").out
        assert "\\x1b[2J" in words
        found = json.loads(shown("test", "square.csv", "--seed", "1", "--format", "json").out)
        assert found["cell"] == f"{DIMS[0]}={LABELS[0]}, {DIMS[1]}==Low\x07"
        assert len(words.splitlines()[0]) > 30

    def test_python(self):
        own = release()
        for text in (repr(own), own._repr_html_(), *(repr(part) for part in (*own.measurements, *own.exact))):
            assert obeyed(text) == set()
        assert obeyed(repr(own.frame), "\u3164\u115f") == set()  # as Python writes tuples of strings
        assert len(repr(own).splitlines()) == 5
        for part in (*own.measurements, *own.exact):
            assert obeyed(repr(part.query) + repr(part)) == set()
        both = bdp.compose(
            own, bdp.Release.from_published(FRAME, exact=[bdp.Exact(bdp.Totals(FRAME), int(COUNTS.sum()))])
        )
        assert obeyed(repr(own.invariants) + str(both) + repr(both)) == set()
        mechanism = bdp.LatticeLaplace(MARGIN, epsilon=1.0)
        made = mechanism.release(COUNTS, rng=np.random.default_rng(1))
        assert obeyed(repr(mechanism) + str(made.guarantee) + made.guarantee._repr_html_() + repr(made)) == set()


class TestWhatIsRefused:
    """Errors of the library hold labels, and are printed with a traceback where nobody catches them."""

    @pytest.mark.parametrize(
        "call",
        [
            lambda: bdp.Measured(
                bdp.Identity(FRAME), np.where(COUNTS == 3, np.nan, COUNTS), bdp.noise.DiscreteGaussian(2.0)
            ),
            lambda: bdp.Measured(bdp.Identity(FRAME), COUNTS + 0.5, bdp.noise.DiscreteGaussian(2.0)),
            lambda: bdp.Measured(bdp.Identity(FRAME), COUNTS, bdp.noise.TruncatedLaplace(2.0, (0.0, 5.0))),
            lambda: bdp.Measured(bdp.Identity(FRAME), COUNTS, bdp.noise.DiscreteGaussian(2.0), unmeasured=["\x1b[31m"]),
            lambda: bdp.Exact(MARGIN, [3, -1]),
            lambda: bdp.Exact(bdp.Identity(FRAME), COUNTS - 1),
            lambda: bdp.Margins(FRAME, ["\x1b"]),
            lambda: bdp.Margins(FRAME, [DIMS[0], "@group\n"]),
            lambda: bdp.LatticeLaplace(MARGIN, epsilon=1.0).release(COUNTS - 1, rng=np.random.default_rng(1)),
            lambda: bdp.Release.from_published(
                FRAME, exact=[bdp.Exact(MARGIN, [3, 4]), bdp.Exact(bdp.Totals(FRAME), 9)]
            ),
            lambda: bdp.Release.from_published(
                FRAME,
                exact=[
                    bdp.Exact(bdp.LinearQuery(FRAME, [[1] * FRAME_SIZE], ["na\x1bme"]), [3]),
                    bdp.Exact(bdp.Totals(FRAME), 9),
                ],
            ),
            lambda: bdp.Release.from_published(
                FRAME, exact=[bdp.Exact(MARGIN, [3, 4]), bdp.Exact(bdp.Identity(FRAME), COUNTS + 9, ">=")]
            ),
            lambda: bdp.Frame.of({"a\x1b": ["\u202e", "\u202e"]}),
            lambda: bdp.Frame.of({"a\x1b": [None]}),
            lambda: MARGIN.apply(xr.DataArray([1], dims="a\x1b")),
            lambda: bdp.Frame.of(FRAME).align(
                xr.DataArray(COUNTS[1:], dims=DIMS, coords={DIMS[0]: LABELS[1:]}), "table"
            ),
        ],
    )
    def test_labels(self, call):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert obeyed(str(caught.value), "") == set()


FRAME_SIZE = COUNTS.size


@pytest.mark.slow
def test_a_fit(shown):
    # Names of dimensions are in those of variables, which PyMC logs.
    frame = {DIMS[0]: LABELS[:2], DIMS[1]: ["=Low\x07", "\u202eHigh"]}
    counts = np.array([[12, 30], [25, 17]])
    bdp.Release.from_published(
        frame,
        [bdp.Measured(bdp.Identity(frame), counts + 1, bdp.noise.DiscreteGaussian(2.0))],
        [bdp.Exact(bdp.Totals(frame), int(counts.sum()))],
    ).to_netcdf("release.nc")
    shown(
        "fit", "release.nc", "--prior", "log-linear", "--draws", "5", "--tune", "5", "--chains", "2", "--cores", "1", "--seed", "1",
        "-o", "fitted.nc", status=3,
    )  # fmt: skip
    rows = shown("summary", "fitted.nc", status=3).out.split("\n\n")[1].split("\n")
    assert len(rows) == 5


def test_what_pymc_logs(capsys):
    # The names of its variables hold those of dimensions.
    import logging

    handler = logging.StreamHandler()
    logger = logging.getLogger("pymc")
    logger.addHandler(handler)
    try:
        errors.log_safely()
        errors.log_safely()
        logger.getChild("sampling").warning("NUTS: [%s_effect]", DIMS[0])
    finally:
        logger.removeHandler(handler)
    assert "NUTS: [cou\\x1b[31mnty_effect]\n" in capsys.readouterr().err


def test_nothing_is_printed_but_by_two_functions():
    folder = Path(bdp.__file__).parent / "cli"
    own = {path.name for path in folder.glob("*.py") if "print(" in path.read_text(encoding="utf-8")}
    assert own == {"errors.py", "demo.py"}  # the demonstration prints its own tables only

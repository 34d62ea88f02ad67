"""What is attacked: a kind of file, how it is changed, how it is read, and what must hold of what was accepted."""

import json
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bayesdp.cli.files import read_posterior
from bayesdp.datasets import read_county_demonstration, read_county_populations, read_wikimedia
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.noise import read_ptable
from bayesdp.release import Release
from bayesdp.tables import read_margins, read_noisy_margins, read_office_csv, read_table
from tests.storage.examples import TABLE
from tests.storage.fuzz import journals, readers
from tests.storage.stated import at


@dataclass(frozen=True)
class Target:
    name: str
    specimens: tuple[str, ...]
    read: Callable  # of a path: ValueError or OSError where it is refused
    check: Callable  # of what was read, given a function that reads once more and a folder to write in: raises `Defect`
    weight: int  # how often it is taken, relative to the others
    goes_on: bool = False  # whether the reader may write on in the file: a journal
    cpu_seconds: float | None = None  # the limit where reading is not all that is done


_RELEASES = ("lattice", "several", "projected", "scalar")
_FILES = (*(f"{own}.nc" for own in _RELEASES), "exact_only.nc")
_COLUMNS = tuple(f"{own}_columns" for own in (*_RELEASES, "exact_only"))
_SYMBOLS = {"..": "suppressed", "x": "suppressed", "-": "zero", "<5": "below_threshold"}
_OFFICE = {"symbols": _SYMBOLS, "footnotes": ["r", "*"], "thousands": " ", "missing": "not_published"}
_LONG = {"flags": "flag", "totals": {"sex": "Total"}, "skip_rows": 1, "footer": 1, **_OFFICE}
_WIDE = {"layout": "wide", "dims": ["area", "sex"], "totals": {"area": "Total", "sex": "Total"}, **_OFFICE}
_PAGES = {
    "project": "en.wikipedia",
    "pages": ["Marie_Curie", "Albert_Einstein"],
    "countries": ["FR", "DE"],
    "date": "2023-03-01",
}
_LAW = ("--law", "discrete-gaussian sigma=5")
_IMPORT = readers.command("import", "FILE", *_LAW, "-o", "../output/imported.nc", "--force")
_REPORT = readers.command("report", "FILE", "-o", "../output/report.html", "--force")


def _fit(file):
    """An unknown hyperparameter ends the command after the release was read: nothing is drawn."""
    return readers.command("fit", file, "--hyper", "unknown=1", "-o", "fitted.nc")


TARGETS = (
    Target("release, netCDF", _FILES, Release.from_netcdf, readers.check_netcdf, 30),
    Target("release, columns", _COLUMNS, lambda path: Release.from_csv(path / "DATA.csv"), readers.check_columns, 24),
    Target("release of statistics", ("statistics.nc", "stated.nc"), StatisticRelease.from_netcdf, readers.check_netcdf, 8),
    Target("posterior", ("posterior.nc",), lambda path: read_posterior(str(path)), readers.check_posterior, 14),
    Target("table, netCDF", ("table.nc",), read_table, readers.check_same, 4),
    Target("table, long", ("long.csv",), read_table, readers.check_same, 4),
    Target("table, wide", ("wide.csv",), lambda path: read_table(path, dims=["county", "education"]), readers.check_same, 4),
    Target("margins", ("margins.csv",), lambda path: read_margins(path, TABLE), readers.check_same, 3),
    Target("noisy margins", ("margins.csv",), lambda path: read_noisy_margins(path, TABLE), readers.check_same, 2),
    Target("county populations", ("populations.csv",), read_county_populations, readers.check_same, 2),
    Target("demonstration, counties", ("demonstration.csv",), read_county_demonstration, readers.check_same, 1),
    Target("office's table, long", ("office.csv",), partial(read_office_csv, **_LONG), readers.check_office, 4),
    Target("office's table, wide", ("office_wide.csv",), partial(read_office_csv, **_WIDE), readers.check_office, 3),
    Target("page views", ("wikimedia.csv",), partial(read_wikimedia, **_PAGES), readers.check_views, 2),
    Target("measurement file", ("part-0.parquet",), readers.read_measurements, readers.check_netcdf, 8),
    Target("report of PipelineDP", ("report.txt",), readers.read_report, readers.check_same, 2),
    Target("perturbation table", ("ptable.csv",), read_ptable, readers.check_law, 3),
    Target("journal of sbc", ("journal.jsonl",), journals.go_on, journals.check_journal, 8, goes_on=True),
    Target("journal of draws", ("draws.partial",), journals.read_draws, readers.check_same, 6, goes_on=True),
    Target("folder of fits", ("fits",), journals.go_on_with_fits, journals.check_journal, 3, goes_on=True),
    Target("bayesdp summary", ("posterior.nc",), readers.command("summary", "FILE"), readers.check_output, 6),
    Target("bayesdp fit, files", ("several.nc", "lattice.nc"), _fit("FILE"), readers.check_output, 4),
    Target("bayesdp fit, columns", _COLUMNS, _fit("FILE/DATA.csv"), readers.check_output, 2),
    Target("bayesdp import", ("long.csv",), _IMPORT, readers.check_output, 2),
    Target("bayesdp report", ("posterior.nc",), _REPORT, readers.check_output, 1, cpu_seconds=11.0),
)  # fmt: skip
# Files that did harm once, or were taken for what they are not: the first cases of every run.
_DIGITS = "9" * 401  # more than a float can hold, and fewer than Python refuses to read


Known = namedtuple("Known", "name target specimen change")


def _digits(*place):
    def run(path):
        source = path / "DATA.noise.json"
        known = json.loads(source.read_text(encoding="utf-8"))
        at(known, place[:-1])[place[-1]] = "DIGITS"
        source.write_text(json.dumps(known).replace('"DIGITS"', _DIGITS), encoding="utf-8")

    return run


_FIELDS = (
    ("noise_json",), ("table", "dimensions", 0, "labels", 0), ("measured", 0, "column"), ("measured", 0, "query", "kind"),
    ("measured", 0, "law", "epsilon"), ("measured", 0, "invariants"), ("exact", 0, "sign"), ("mechanism", "epsilon"),
    ("guarantee", "parameters", "epsilon"), ("simulated",),
)  # fmt: skip
_JOURNALS = {
    "half a first line": lambda lines: [lines[0][:40]],
    "zeros at the end": lambda lines: [*lines[:-1], bytes(500)],
    "a line of zeros at the end": lambda lines: [*lines[:-1], bytes(500), b""],
    "zeros only": lambda lines: [bytes(500)],
    "a line that is a list": lambda lines: [*lines[:3], b"[1]", *lines[3:]],
    "a line that is an integer": lambda lines: [*lines[:3], b"1", *lines[3:]],
    "a first line that is an integer": lambda lines: [b"1", *lines[1:]],
    "no number": lambda lines: [lines[0], b'{"ranks": {}}', *lines[2:]],
    "no ranks": lambda lines: [lines[0], b'{"number": 0}', *lines[2:]],
    "an error that is a number": lambda lines: [lines[0], b'{"number": 0, "error": 3}', *lines[2:]],
    "a number of 401 digits": lambda lines: [lines[0], b'{"number": ' + _DIGITS.encode() + b"}", *lines[2:]],
    "deep nesting": lambda lines: [*lines[:3], b"[" * 100_000, *lines[3:]],
    "not UTF-8": lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]],
}


def _lines(change):
    def run(path):
        path.write_bytes(b"\n".join(change(path.read_bytes().split(b"\n"))))

    return run


KNOWN = (
    *(Known(name, "journal of sbc", "journal.jsonl", _lines(change)) for name, change in _JOURNALS.items()),
    *(Known(f"401 digits at {own}", "release, columns", "lattice_columns", _digits(*own)) for own in _FIELDS),
)

"""What is attacked: a kind of file, how it is changed, how it is read, and what must hold of what was accepted."""

from collections.abc import Callable
from dataclasses import dataclass

from bayesdp.cli.files import read_posterior
from bayesdp.datasets import read_county_demonstration, read_county_populations
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.noise import read_ptable
from bayesdp.release import Release
from bayesdp.tables import read_margins, read_noisy_margins, read_table
from tests.storage.examples import TABLE
from tests.storage.fuzz import journals, readers


@dataclass(frozen=True)
class Target:
    """A reader and its valid files, which `write_specimens` and `prepare_journals` make."""

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

TARGETS = (
    Target("release, netCDF", _FILES, Release.from_netcdf, readers.check_netcdf, 30),
    Target("release, columns", _COLUMNS, lambda path: Release.from_csv(path / "DATA.csv"), readers.check_columns, 24),
    Target("release of statistics", ("statistics.nc", "stated.nc"), StatisticRelease.from_netcdf, readers.check_statistics, 8),
    Target("posterior", ("posterior.nc",), lambda path: read_posterior(str(path)), readers.check_posterior, 14),
    Target("table, netCDF", ("table.nc",), read_table, readers.check_same, 4),
    Target("table, long", ("long.csv",), read_table, readers.check_same, 4),
    Target("table, wide", ("wide.csv",), lambda path: read_table(path, dims=["county", "education"]), readers.check_same, 4),
    Target("margins", ("margins.csv",), lambda path: read_margins(path, TABLE), readers.check_same, 3),
    Target("noisy margins", ("margins.csv",), lambda path: read_noisy_margins(path, TABLE), readers.check_same, 2),
    Target("county populations", ("populations.csv",), read_county_populations, readers.check_same, 2),
    Target("demonstration, counties", ("demonstration.csv",), read_county_demonstration, readers.check_same, 1),
    Target("office's table, long", ("office.csv",), readers.read_office, readers.check_office, 4),
    Target("office's table, wide", ("office_wide.csv",), readers.read_office_wide, readers.check_office, 3),
    Target("page views", ("wikimedia.csv",), readers.read_page_views, readers.check_views, 2),
    Target("measurement file", ("part-0.parquet",), readers.read_measurements, readers.check_netcdf, 8),
    Target("report of PipelineDP", ("report.txt",), readers.read_report, readers.check_same, 2),
    Target("perturbation table", ("ptable.csv",), read_ptable, readers.check_law, 3),
    Target("journal of sbc", ("journal.jsonl",), journals.go_on, journals.check_journal, 8, goes_on=True),
    Target("journal of draws", ("draws.partial",), journals.read_draws, readers.check_same, 6, goes_on=True),
    Target("folder of fits", ("fits",), journals.go_on_with_fits, journals.check_journal, 3, goes_on=True),
    Target("bayesdp summary", ("posterior.nc",), readers.command("summary", "FILE"), readers.check_output, 6),
    # An unknown hyperparameter ends the command after the release was read: nothing is drawn.
    Target(
        "bayesdp fit, files", ("several.nc", "lattice.nc"),
        readers.command("fit", "FILE", "--hyper", "unknown=1", "-o", "fitted.nc"), readers.check_output, 4,
    ),
    Target(
        "bayesdp fit, columns", _COLUMNS,
        readers.command("fit", "FILE/DATA.csv", "--hyper", "unknown=1", "-o", "fitted.nc"), readers.check_output, 2,
    ),
    Target(
        "bayesdp import", ("long.csv",),
        readers.command("import", "FILE", "--law", "discrete-gaussian sigma=5", "-o", "../output/imported.nc", "--force"),
        readers.check_output, 2,
    ),
    Target(
        "bayesdp report", ("posterior.nc",), readers.command("report", "FILE", "-o", "../output/report.html", "--force"),
        readers.check_output, 1, cpu_seconds=11.0,
    ),
)  # fmt: skip

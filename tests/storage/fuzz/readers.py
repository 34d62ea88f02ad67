"""How each kind of file is read, and what must hold of what was accepted."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesdp._text import printable
from bayesdp.cli import main
from bayesdp.cli.files import read_posterior
from bayesdp.datasets import noise_json_of_pipelinedp, read_nmf, read_wikimedia
from bayesdp.datasets.wikimedia import WikimediaViews
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.noise import DiscreteLaplace, TransitionTable
from bayesdp.posterior import tables_of_posterior
from bayesdp.queries import Identity
from bayesdp.release import Release
from bayesdp.storage import write_draws
from bayesdp.tables import STATUSES, OfficeTable, read_office_csv
from tests.storage.examples import TABLE
from tests.storage.fuzz.outcome import Defect, Refused

_CONTROLS = {
    chr(own) for own in (*range(32), 127, *range(128, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
} - {"\n"}


def require(holds: bool, sort: str, message: str) -> None:
    """Raise a defect where something does not hold."""
    if not holds:
        raise Defect(sort, message)


def require_printable(text: str) -> None:
    """No control characters but ends of lines."""
    found = sorted(_CONTROLS & set(text))
    require(not found, "control characters in a text", f"{found!r}")


def same(one: Any, other: Any) -> bool:
    """Whether two things that were read are equal, labels and all."""
    if isinstance(one, (xr.DataArray, xr.Dataset, xr.DataTree)):
        return bool(one.identical(other))
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other, equal_nan=True)) and one.dtype == other.dtype
    if isinstance(one, dict):
        return list(one) == list(other) and same([*one.values()], [*other.values()])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def check_same(value: Any, again: Callable[[], Any], output: Path) -> None:
    """Reading once more gives the same."""
    require(same(value, again()), "reading is not repeatable", "a second reading gave something else")


def _check_release(release: Release) -> None:
    """A table that agrees with all exact answers exists, and the release agrees with itself."""
    point = release.fiber.find_point()
    require(bool(release.fiber.members(point)), "broken invariant", "the fiber has no member")
    for part in release.exact:
        difference = part.query.apply(point) - part.values
        fits = {"=": difference == 0, ">=": difference >= 0, "<=": difference <= 0}[part.sign]
        require(bool(np.all(fits)), "broken invariant", f"{part!r} does not hold for a member of the fiber")
    if release.guarantee is not None:
        require(
            release.guarantee.simulated == release.simulated,
            "contradiction: simulated",
            f"the release says simulated={release.simulated}, its guarantee says {release.guarantee.simulated}",
        )
    require_printable(repr(release))
    release._repr_html_()


def check_netcdf(release: Release, again: Callable[[], Any], output: Path) -> None:
    """A release from a netCDF file: the same again, through a file as well."""
    check_same(release, again, output)
    _check_release(release)
    release.to_netcdf(output / "again.nc")
    require(Release.from_netcdf(output / "again.nc") == release, "written and read is another", "netCDF")


def check_columns(release: Release, again: Callable[[], Any], output: Path) -> None:
    """A release from a CSV file with noise.json; other labels than text keeps apart go into netCDF only."""
    check_netcdf(release, again, output)
    try:
        release.to_csv(output / "again.csv")
    except ValueError as error:
        require("use to_netcdf" in str(error), "cannot be written", str(error))
        return
    require(Release.from_csv(output / "again.csv") == release, "written and read is another", "CSV and noise.json")


def check_statistics(release: StatisticRelease, again: Callable[[], Any], output: Path) -> None:
    """A release of statistics."""
    check_same(release, again, output)
    require(bool(np.isfinite(release.values).all()), "broken invariant", "values are not finite")
    release.to_netcdf(output / "again.nc")
    require(StatisticRelease.from_netcdf(output / "again.nc") == release, "written and read is another", "statistics")


def check_posterior(value: tuple[xr.DataTree, Release], again: Callable[[], Any], output: Path) -> None:
    """A posterior: counts are tables of their own releases, and the file can be written again."""
    tree, release = value
    check_same(value, again, output)
    _check_release(release)
    try:
        tables = tables_of_posterior(tree)
    except ValueError:  # no counts were recorded, or too many: `summary` asks for --var
        tables = {}
    for name, releases in tables.items():
        draws = tree["posterior"][name]
        if draws.dtype.kind not in "iu":
            continue  # a continuous relaxation
        counts = draws.transpose("chain", "draw", *releases[0].dims).values
        for own in releases:
            require(bool(own.fiber.members(counts).all()), "counts off their fiber", f"draws of {name}")
    write_draws(tree.copy(), output / "again.nc")
    back, _ = read_posterior(str(output / "again.nc"))
    require(same(tree, back), "written and read is another", "posterior")


def read_measurements(path: Path) -> Release:
    """A parquet file of noisy measurements, put where those of housing units of counties of Vermont are."""
    root = path.parents[1] / "output" / f"nmf-{path.stem}"
    place = root / "US_Unit_PL_PROD" / "County.parquet" / "DPQuery" / "State=50"
    place.mkdir(parents=True, exist_ok=True)
    (place / path.name).write_bytes(path.read_bytes())
    try:
        return read_nmf(root, "50", product="pl94-unit").release
    except (ValueError, FileNotFoundError) as error:
        if path.name in str(error):
            raise
        raise ValueError(f"{path.name} in {error}") from None


def read_report(path: Path) -> dict[str, Any]:
    """The text of a report of PipelineDP: not read from a file by the package, so that its errors name none."""
    try:
        return noise_json_of_pipelinedp(path.read_text(encoding="utf-8"), {"count": Identity(TABLE)})
    except (ValueError, NotImplementedError) as error:
        raise ValueError(f"{path.name}: {printable(error)[:500]}") from None


_DECLARED: dict[str, Any] = {
    "symbols": {"..": "suppressed", "x": "suppressed", "-": "zero", "<5": "below_threshold"},
    "footnotes": ["r", "*"],
    "thousands": " ",
    "missing": "not_published",
}


def read_office(path: Path) -> tuple[OfficeTable, ...]:
    """A long file of an office, with totals, a title and a source."""
    return read_office_csv(path, flags="flag", totals={"sex": "Total"}, skip_rows=1, footer=1, **_DECLARED)


def read_office_wide(path: Path) -> tuple[OfficeTable, ...]:
    """A wide file of an office, with totals."""
    totals = {"area": "Total", "sex": "Total"}
    return read_office_csv(path, layout="wide", dims=["area", "sex"], totals=totals, **_DECLARED)


def check_office(tables: tuple[OfficeTable, ...], again: Callable[[], Any], output: Path) -> None:
    """Tables of an office: the same again, one frame for all, and nothing measured that was not published."""
    check_same(tables, again, output)
    require(len({own.query.frame for own in tables}) == 1, "several frames", "tables are not of one frame")
    for own in tables:
        require_printable(repr(own))
        published, zeros = own.mask("published").values, own.exact_zeros()
        count = 0 if zeros is None else zeros.query.rows
        require(count == int(own.mask("zero", "not_applicable").sum()), "broken invariant", "true zeros are not exact")
        whole = not np.any(np.modf(own.values[published])[0])
        if published.any() and whole:
            measured = own.measured(DiscreteLaplace(1.0), unmeasured=tuple(STATUSES)[1:])
            require(bool(np.array_equal(measured.unmeasured, ~published)), "broken invariant", "another mask")


def read_page_views(path: Path) -> WikimediaViews:
    """Noisy page views of a day."""
    pages, countries = ["Marie_Curie", "Albert_Einstein"], ["FR", "DE"]
    return read_wikimedia(path, project="en.wikipedia", pages=pages, countries=countries, date="2023-03-01")


def check_views(views: WikimediaViews, again: Callable[[], Any], output: Path) -> None:
    """Reading once more gives the same, and what was published makes a release."""
    check_same(views.published, lambda: again().published, output)
    if views.published.notnull().any():
        _check_release(views.release())


def check_law(law: TransitionTable, again: Callable[[], Any], output: Path) -> None:
    """A law of perturbed counts: the same again, and what it draws has a mass."""
    check_same(law, again, output)
    counts = np.arange(len(law.rows) + 2)
    drawn = law.draw(np.random.default_rng(1), counts.shape, location=counts)
    require(bool(np.isfinite(law.log_each(drawn, counts)).all()), "impossible draw", f"{drawn.tolist()[:20]}")
    require_printable(repr(law))


def command(*arguments: str) -> Callable[[Path], str]:
    """The command line with these arguments, where FILE stands for the file; gives what it prints.

    Status 2 with one line is a refusal; everything else that does not end well is a defect.
    """

    def run(path: Path) -> str:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                status = main([own.replace("FILE", str(path)) for own in arguments])
            except SystemExit as stop:
                raise Defect("the command line left by itself", f"{stop.code}: {err.getvalue()}") from None
        told = err.getvalue()
        if status == 2:
            require(told.startswith(f"bayesdp {arguments[0]}: error: "), "refusal in another form", told)
            require(told.count("\n") == 1, "refusal of several lines", told)
            raise Refused(told.rstrip("\n"))
        require(status in (0, 3), f"status {status}", told)
        return out.getvalue()

    return run


def check_output(text: str, again: Callable[[], Any], output: Path) -> None:
    """What goes to a terminal has no control characters but ends of lines."""
    require(text == again(), "reading is not repeatable", "a second run printed something else")
    require_printable(text)

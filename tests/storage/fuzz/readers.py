"""How each kind of file is read, and what must hold of what was accepted."""

import io
from contextlib import redirect_stderr, redirect_stdout, suppress

import numpy as np
import xarray as xr

from bayesdp import Identity, Release
from bayesdp._text import printable
from bayesdp.cli import main
from bayesdp.cli.files import read_posterior
from bayesdp.datasets import noise_json_of_pipelinedp, read_nmf
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.noise import DiscreteLaplace
from bayesdp.posterior import tables_of_posterior
from bayesdp.storage import write_draws
from bayesdp.tables import STATUSES
from tests.storage.examples import TABLE
from tests.storage.fuzz.outcome import Refused, require

_CONTROLS = {*map(chr, (*range(10), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)))}


def require_printable(text):
    require(not _CONTROLS & set(text), "control characters in a text", f"{sorted(_CONTROLS & set(text))!r}")


def same(one, other):
    if isinstance(one, (xr.DataArray, xr.Dataset, xr.DataTree)):
        return one.identical(other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=True) and one.dtype == other.dtype
    if isinstance(one, dict):
        return list(one) == list(other) and same([*one.values()], [*other.values()])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def check_same(value, again, output):
    require(same(value, again()), "reading is not repeatable", "a second reading gave something else")


def _check_release(release):
    """A table that agrees with all exact answers exists, and the release agrees with itself."""
    point = release.fiber.find_point()
    require(release.fiber.members(point), "broken invariant", "the fiber has no member")
    for part in release.exact:
        off = part.query.apply(point) - part.values
        fits = {"=": off == 0, ">=": off >= 0, "<=": off <= 0}[part.sign]
        require(np.all(fits), "broken invariant", f"{part!r} does not hold for a member of the fiber")
    stated = release.guarantee is None or release.guarantee.simulated == release.simulated
    require(stated, "contradiction: simulated", f"the release says simulated={release.simulated}, its guarantee not")
    require_printable(repr(release))
    release._repr_html_()


def check_netcdf(release, again, output):
    check_same(release, again, output)
    if isinstance(release, StatisticRelease):
        require(np.isfinite(release.values).all(), "broken invariant", "values are not finite")
    else:
        _check_release(release)
    release.to_netcdf(output / "again.nc")
    require(type(release).from_netcdf(output / "again.nc") == release, "written and read is another", "netCDF")


def check_columns(release, again, output):
    """A release from a CSV file with noise.json; other labels than text keeps apart go into netCDF only."""
    check_netcdf(release, again, output)
    try:
        release.to_csv(output / "again.csv")
    except ValueError as error:
        require("use to_netcdf" in str(error), "cannot be written", str(error))
        return
    require(Release.from_csv(output / "again.csv") == release, "written and read is another", "CSV and noise.json")


def check_posterior(value, again, output):
    tree, release = value
    check_same(value, again, output)
    _check_release(release)
    tables = {}
    with suppress(ValueError):  # no counts were recorded, or too many: `summary` asks for --var
        tables = tables_of_posterior(tree)
    for name, releases in tables.items():
        draws = tree["posterior"][name]
        counts = draws.transpose("chain", "draw", *releases[0].dims).values
        for own in releases if draws.dtype.kind in "iu" else ():  # and not a continuous relaxation
            require(own.fiber.members(counts).all(), "counts off their fiber", f"draws of {name}")
    write_draws(tree.copy(), output / "again.nc")
    back, _ = read_posterior(str(output / "again.nc"))
    require(same(tree, back), "written and read is another", "posterior")


def read_measurements(path):
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


def read_report(path):
    """The text of a report of PipelineDP: not read from a file by the package, so that its errors name none."""
    try:
        return noise_json_of_pipelinedp(path.read_text(encoding="utf-8"), {"count": Identity(TABLE)})
    except (ValueError, NotImplementedError) as error:
        raise ValueError(f"{path.name}: {printable(error)[:500]}") from None


def check_office(tables, again, output):
    check_same(tables, again, output)
    require(len({own.query.frame for own in tables}) == 1, "several frames", "tables are not of one frame")
    for own in tables:
        require_printable(repr(own))
        published, zeros = own.mask("published").values, own.exact_zeros()
        count = 0 if zeros is None else zeros.query.rows
        require(count == own.mask("zero", "not_applicable").sum(), "broken invariant", "true zeros are not exact")
        if published.any() and not np.any(np.modf(own.values[published])[0]):
            measured = own.measured(DiscreteLaplace(1.0), unmeasured=tuple(STATUSES)[1:])
            require(np.array_equal(measured.unmeasured, ~published), "broken invariant", "another mask")


def check_views(views, again, output):
    check_same(views.published, lambda: again().published, output)
    if views.published.notnull().any():
        _check_release(views.release())


def check_law(law, again, output):
    check_same(law, again, output)
    counts = np.arange(len(law.rows) + 2)
    drawn = law.draw(np.random.default_rng(1), counts.shape, location=counts)
    require(np.isfinite(law.log_each(drawn, counts)).all(), "impossible draw", f"{drawn.tolist()[:20]}")
    require_printable(repr(law))


def command(*arguments):
    """What the command line prints, FILE being the file: status 2 with one line is a refusal, any other bad end a defect."""

    def run(path):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):  # SystemExit is a defect
            status = main([own.replace("FILE", str(path)) for own in arguments])
        told = err.getvalue()
        if status == 2:
            require(told.startswith(f"bayesdp {arguments[0]}: error: "), "refusal in another form", told)
            require(told.count("\n") == 1, "refusal of several lines", told)
            raise Refused(told.rstrip("\n"))
        require(status in (0, 3), f"status {status}", told)
        return out.getvalue()

    return run


def check_output(text, again, output):
    require(text == again(), "reading is not repeatable", "a second run printed something else")
    require_printable(text)

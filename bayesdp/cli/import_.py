"""``bayesdp import``: published files in, noisy tables and margins with the law of each and exact margins; a release out."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp._text import printable
from bayesdp.cli.arguments import add_command, add_output, add_repeatable, add_table_options, table_options

if TYPE_CHECKING:
    import xarray as xr

    from bayesdp.frames import Frame
    from bayesdp.measurements import Exact, Measured
    from bayesdp.noise import NoiseLaw
    from bayesdp.queries import Query

_TEXT = """\
The noisy table is a CSV file (long or wide) or netCDF; the exact margins are CSV. The noise law and its
scale are in the agency's methods note:
  discrete-laplace b=4               independent integers, mass ~ exp(-|k| / b): two-sided geometric
  discrete-gaussian sigma=5          independent integers, mass ~ exp(-k^2 / (2 sigma^2))
  laplace b=4                        independent real numbers, density ~ exp(-|z| / b)
  gaussian sigma=5                   independent real numbers, density ~ exp(-z^2 / (2 sigma^2))
  rounded law=(laplace b=4) base=1   the last two, rounded to multiples of a base
  random-rounding base=3             true counts, rounded at random; conventional-rounding base=5: to the nearest multiple
  cell-key FILE                      true counts, perturbed by cell keys with the table of an office
  censored law=(gaussian sigma=5) below=90    another law, of which only values of at least 90 are published
  lattice-laplace epsilon=0.25 norm=l1    integers that change no exact value, ~ exp(-epsilon * norm)
  lattice-gaussian sigma=5           integers that change no exact value, ~ exp(-l2^2 / (2 sigma^2))
  projected-gaussian sigma=5         real numbers that change no exact value, same form
For the first four, 'epsilon=0.5 sensitivity=2' stands for b (b = sensitivity / epsilon), 'rho=0.1 sensitivity=1' for
sigma (sigma = sensitivity / sqrt(2 rho)), and 'variance=25' or 'standard deviation=5' for either. docs/how-to/by-agency.md has laws by
country and agency.

Numbers that were clipped or made consistent after the noise was added follow no such law: see --postprocessing and
--adding-up. Further noisy files are named with --noisy, each followed by its own --law; the noise of the files, and of the margins
in one file, must be independent of one another. Lines or columns of totals within the table are declared, --total county=Total,
and so is how an office writes its files, --declare. A file noise.json that came with the data says all of this:
  bayesdp import DATA.csv --noise DATA.noise.json -o release.nc

docs/FILES.md describes the files."""


def add(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "import",
        run,
        title="make a release from published files",
        text=_TEXT,
        example="bayesdp import noisy.csv --exact margins.csv --law 'discrete-gaussian sigma=5' -o release.nc",
    )
    command.add_argument("table", metavar="NOISY", help="the noisy table, .csv or .nc")
    law = "law of the noise of the file before it, such as 'discrete-gaussian sigma=5'"
    further = "a further file of noisy margins, totals or cells, followed by its --law; may be repeated"
    # Both are noted in the order in which they are given: a law is that of the file before it.
    for option, metavar, text in (("--law", "LAW", law), ("--noisy", "FILE", further)):
        noted = partial(lambda option, given: (option, given), option)
        command.add_argument(option, action="append", type=noted, dest="noisy", metavar=metavar, help=text)
    noise = "the file noise.json that says what the columns of the table are, in place of other options"
    command.add_argument("--noise", metavar="JSON", help=noise)
    add_repeatable(command, "--exact", "CSV", "file of exact margins or totals")
    hidden = """a noisy cell or sum that was not published, as 'county=Alpha, education=Low', or 'blank' for all fields left empty in
        the noisy files"""
    add_repeatable(command, "--unmeasured", "CELL", hidden)
    done = """what was done to the noisy numbers after the noise was added, such as 'clipped at zero'; anything but 'none' is refused,
        with the reason"""
    command.add_argument("--postprocessing", default="none", metavar="WHAT", help=done)
    adding_up = """what to do with noisy sums that all add up exactly, which independent noise does not, and with two measurements of
        the same that differ by more than their laws explain: they are refused, or taken as they are with a warning"""
    command.add_argument("--adding-up", choices=("refuse", "warn"), default="refuse", help=adding_up)
    command.add_argument("--simulated", action="store_true", help="the noise came from a seeded generator: an example")
    add_table_options(command)
    add_output(command, "the release: release.nc, or release.csv with release.noise.json beside it")


def run(args: argparse.Namespace) -> int:
    """Do it."""
    import warnings

    from bayesdp.cli.errors import announce, say
    from bayesdp.cli.files import check_release_path, write_release
    from bayesdp.measurements.consistency import PostProcessedWarning, signs_of_post_processing
    from bayesdp.release import Release

    check_release_path(args.output, force=args.force)
    if args.noise is not None:
        _check_alone(args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostProcessedWarning)  # said below, in one line
        if args.noise is not None:
            release = Release.from_csv(args.table, noise=args.noise)
        else:
            table, measured, exact = _published_parts(args)
            release = Release.from_published(table, measured, exact, simulated=args.simulated, adding_up=args.adding_up)
    check = release.law_check
    signs = signs_of_post_processing(release.measurements, release.exact, check.groups), check.warning
    write_release(release, args.output, force=args.force)
    announce(args.output, f"{release!r}\nwritten to {args.output}")
    for told in filter(None, signs):
        say(f"bayesdp import: warning: {args.table}: {told}")
    return 0


_SAID_BY_NOISE = (
    "noisy", "exact", "unmeasured", "simulated", "dims", "value", "group", "ignore", "total", "postprocessing", "layout", "declare",
)  # fmt: skip
"""Options that say what ``noise.json`` says itself."""


def _check_alone(args: argparse.Namespace) -> None:
    """Refuse options beside --noise: two statements of one thing may contradict each other."""
    changed = [name for name in _SAID_BY_NOISE if getattr(args, name) not in (None, [], False, "none", "auto", "{}")]
    if changed:
        given = ", ".join("--law or --noisy" if name == "noisy" else f"--{name}" for name in changed)
        raise ValueError(f"--noise says what the file is, so leave out {given}; or correct {args.noise}")


def _noisy_files(table: str, noted: list[tuple[str, str]]) -> list[tuple[str, str | None]]:
    """The noisy files, the table first, each with the text of its one law; only the table may have none."""
    from bayesdp.cli.files import check_distinct

    found: list[tuple[str, list[str]]] = [(table, [])]
    for option, value in noted:
        if option == "--law":
            found[-1][1].append(value)
        else:
            found.append((value, []))
    for path, laws in found:
        if len(laws) > 1:
            both = " and ".join(map(repr, laws))
            raise ValueError(
                f"{path} has two laws, {both}: --law belongs to the file before it (NOISY --law ... --noisy FILE --law ...)"
            )
    for path, laws in found[1:]:
        if not laws:
            raise ValueError(f"{path} has no law: write --law after it, --noisy {path} --law '...'")
    check_distinct([path for path, laws in found if laws])
    return [(path, laws[0] if laws else None) for path, laws in found]


def _published_parts(args: argparse.Namespace) -> tuple[xr.DataArray, list[Measured], list[Exact]]:
    """The table whose labels the release has, and what the files publish of it."""
    from bayesdp.noise import parse_law
    from bayesdp.tables import read_margins, read_noisy_margins

    noisy = _noisy_files(args.table, args.noisy or [])
    laws = [None if text is None else parse_law(text) for _, text in noisy]
    options = table_options(args)
    columns = _columns([*(path for path, _ in noisy), *args.exact], options)

    def own(path: str) -> dict[str, Any]:
        """Of --value and --ignore what a file has."""
        names = columns[path]
        return {"value": args.value if args.value in names else None, "ignore": [n for n in args.ignore if n in names]}

    table, found = _table(args.table, options | {"ignore": own(args.table)["ignore"]})
    frame = found[0][0].frame
    answers: list[tuple[str, NoiseLaw | None, Query, Any]] = []
    for (path, _), law in zip(noisy, laws, strict=True):
        if answers and (Path(path).suffix.lower() == ".nc" or (args.dims and _is_wide(columns[path], frame))):
            _, found = _table(path, options | {"ignore": own(path)["ignore"]}, frame)
        elif answers:
            found = read_noisy_margins(path, frame, **own(path))
        if law is not None and not law.independent and len(found) > 1:
            raise ValueError(
                f"{path} holds {len(found)} margins, and the law {law.name!r} ties the noise of answers together: put each margin "
                "whose noise was drawn by itself into a file of its own; noise that was drawn for several margins jointly needs "
                "a stacked query, Measured(query + query, ...) in Python"
            )
        answers += [(path, law, *answer) for answer in found]
    measured = [
        _measured(*answer, hidden, args.postprocessing)
        for answer, hidden in zip(answers, _unmeasured(answers, args.unmeasured), strict=True)
    ]
    exact = [part for path in args.exact for part in read_margins(path, table, **own(path))]
    return table, [part for part in measured if part is not None], exact


def _columns(paths: list[str], options: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The columns of each file, read as declared where that makes more of them; what is ignored must be in one of them."""
    from bayesdp._validate import nearest
    from bayesdp.storage.csv_file import csv_header

    form = {key: value for key, value in options.items() if key in ("delimiter", "encoding", "skip_rows", "footer")}
    found = {path: max(csv_header(path), csv_header(path, **form), key=len) for path in paths}
    for name in options["ignore"]:
        if not any(name in columns for columns in found.values()):
            there = "; ".join(f"{path} has {nearest(name, columns)}" for path, columns in found.items() if columns)
            raise ValueError(
                f"--ignore {name}: no CSV file has a column of that name; {there or 'there is no CSV file'}"
            )
    return found


def _is_wide(columns: tuple[str, ...], frame: Frame) -> bool:
    """Whether a further file has the form of a wide table of two dimensions."""
    known = {*frame.dims, *(name for name, _, _ in frame.groups)}
    return len(frame.dims) == 2 and len(columns) > 2 and columns[0] == frame.dims[0] and known.isdisjoint(columns[1:])


def _table(
    path: str, options: dict[str, Any], frame: Frame | None = None
) -> tuple[xr.DataArray, list[tuple[Query, Any]]]:
    """A table, and its cells and declared totals as answers about it, or about the cells of a frame."""
    from bayesdp.queries import Identity, Margins, Totals
    from bayesdp.tables import read_table, read_table_totals

    table = read_table(path, **options)
    cells = Identity(table if frame is None else frame)
    answers: list[tuple[Query, Any]] = [(cells, table)]
    for _, values in read_table_totals(path, **options) if any(options["totals"].values()) else ():
        query = Margins(cells.frame, [str(dim) for dim in values.dims]) if values.dims else Totals(cells.frame)
        answers.append((query, values))
    try:
        return table, [(query, query.align(values, "the noisy table")) for query, values in answers]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _unmeasured(answers: list[tuple[str, NoiseLaw | None, Query, Any]], given: list[str]) -> list[list[str]]:
    """For each of the answers, the names of those that are stated to be not published: just those whose value is missing."""
    import numpy as np

    from bayesdp._validate import nearest

    names = [name for name in given if name != "blank"]
    for name in names:
        if not any(name in query.names for _, _, query, _ in answers):
            raise ValueError(
                f"--unmeasured {name!r} is no noisy answer; answers are {nearest(name, answers[0][2].names)}, and 'blank' stands for "
                "all empty fields"
            )
    found = []
    for path, _, query, values in answers:
        flat = np.asarray(values, dtype=np.float64).reshape(-1)
        empty = [query.names[i] for i in np.flatnonzero(np.isnan(flat)).tolist()]
        stated = [name for name in names if name in query.names]
        hidden = list(dict.fromkeys([*stated, *(empty if "blank" in given else [])]))
        unstated = [name for name in empty if name not in hidden]
        if unstated:
            more = f" and {len(unstated) - 1} more" if len(unstated) > 1 else ""
            raise ValueError(
                f"{path}: no number for {printable(unstated[0])}{more}. If nothing was published there, say so: --unmeasured "
                f"'{printable(unstated[0])}' for one, --unmeasured blank for all empty fields; otherwise fill it in"
            )
        found.append(hidden)
    return found


def _measured(
    path: str, law: NoiseLaw | None, query: Query, values: Any, unmeasured: list[str], postprocessing: str
) -> Measured | None:
    """One measurement; None for a table that has labels only."""
    from bayesdp.measurements import Measured

    everything = len(unmeasured) == query.rows
    if law is None and everything:
        return None
    if law is None:
        raise ValueError(f"{path} has no law: write --law '...' before any --noisy")
    if everything:
        raise ValueError(f"{path}: it holds no number, so it has no law; leave --law {str(law)!r} out")
    try:
        return Measured(query, values, law, unmeasured=unmeasured, postprocessing=postprocessing)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None

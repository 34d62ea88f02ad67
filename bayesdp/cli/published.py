"""Published files as the parts of a release: noisy tables and margins with the law of each, exact margins."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesdp._text import printable
from bayesdp.cli.arguments import declared_form, ignored_columns, table_options

if TYPE_CHECKING:
    import xarray as xr

    from bayesdp.frames import Frame
    from bayesdp.measurements import Exact, Measured
    from bayesdp.noise import NoiseLaw
    from bayesdp.queries import Query


class FileOrLaw(argparse.Action):
    """Note --noisy and --law in the order in which they are given: a law is that of the file before it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Append the option and its value."""
        noted = [*(getattr(namespace, self.dest, None) or []), (option_string or "", values)]
        setattr(namespace, self.dest, noted)


def _noisy_files(table: str, noted: list[tuple[str, str]]) -> list[tuple[str, str | None]]:
    """The noisy files, the table first, each with the text of its one law; only the table may have none."""
    found: list[tuple[str, list[str]]] = [(table, [])]
    for option, value in noted:
        if option == "--law":
            found[-1][1].append(value)
        else:
            found.append((value, []))
    for path, laws in found:
        if len(laws) > 1:
            both = " and ".join(repr(law) for law in laws)
            raise ValueError(
                f"{path} has two laws, {both}: --law belongs to the file before it (NOISY --law ... --noisy FILE --law ...)"
            )
    for path, laws in found[1:]:
        if not laws:
            raise ValueError(f"{path} has no law: write --law after it, --noisy {path} --law '...'")
    return [(path, laws[0] if laws else None) for path, laws in found]


def published_release_parts(args: argparse.Namespace) -> tuple[xr.DataArray, list[Measured], list[Exact]]:
    """Read all published files of ``bayesdp import``."""
    # `args`: with `table`, `noisy` (see `FileOrLaw`), `exact`, `unmeasured`, `postprocessing` and the options of tables. Returns
    # the table whose labels the release has, and its parts.
    from bayesdp.noise import parse_law
    from bayesdp.queries import Identity
    from bayesdp.tables import read_margins

    (first, text), *others = _noisy_files(args.table, args.noisy or [])
    laws = {path: parse_law(law) for path, law in ((first, text), *others) if law is not None}
    files = [first, *(path for path, _ in others), *args.exact]
    ignored = ignored_columns(args.ignore, files, declared_form(args))
    table, sums = _table(first, None, {**table_options(args), "ignore": ignored[first]})
    frame = Identity(table).frame
    answers: list[tuple[str, NoiseLaw | None, Query, Any]] = [
        (first, laws.get(first), query, values) for query, values in [(Identity(table), table), *sums]
    ]
    if text is not None:
        _check_one_margin(first, laws[first], len(answers))
    for path, _ in others:
        answers += [(path, laws[path], *found) for found in _noisy_answers(path, frame, args, ignored[path])]
        _check_one_margin(path, laws[path], sum(known == path for known, *_ in answers))
    stated = _unmeasured(answers, args.unmeasured)
    measured = [_measured(*own, hidden, args.postprocessing) for own, hidden in zip(answers, stated, strict=True)]
    exact = [
        part
        for path in args.exact
        for part in read_margins(path, table, value=_value_in(path, args.value), ignore=ignored[path])
    ]
    return table, [own for own in measured if own is not None], exact


def _table(path: str, frame: Frame | None, form: dict[str, Any]) -> tuple[xr.DataArray, list[tuple[Query, Any]]]:
    """A table and its declared totals, as answers about it or about the cells of a frame."""
    from bayesdp.queries import Margins, Totals
    from bayesdp.tables import read_table, read_table_totals

    table = read_table(path, **form)
    own = table if frame is None else frame
    sums = read_table_totals(path, **form) if any(form["totals"].values()) else []
    return table, [
        (Margins(own, list(map(str, values.dims))) if values.dims else Totals(own), values) for _, values in sums
    ]


def _value_in(path: str, value: str | None) -> str | None:
    """The column of values that --value names, in a file that has it."""
    from bayesdp.storage.csv_file import csv_header

    return value if value in csv_header(path) else None


def _noisy_answers(path: str, frame: Frame, args: argparse.Namespace, ignore: list[str]) -> list[tuple[Query, Any]]:
    """The queries and noisy answers of a further file: a table of the form of the first, or margins."""
    from bayesdp.queries import Identity
    from bayesdp.storage.csv_file import csv_header
    from bayesdp.tables import read_noisy_margins

    known = {*frame.dims, *(name for name, _, _ in frame.groups)}
    header = csv_header(path)
    wide = len(frame.dims) == 2 and len(header) > 2 and header[0] == frame.dims[0] and not known & set(header[1:])
    if Path(path).suffix.lower() == ".nc" or (wide and args.dims is not None):
        table, sums = _table(path, frame, {**table_options(args), "ignore": ignore})
        try:
            return [(query, query.align(own, "the noisy table")) for query, own in [(Identity(frame), table), *sums]]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return read_noisy_margins(path, frame, value=_value_in(path, args.value), ignore=ignore)


def _check_one_margin(path: str, law: NoiseLaw, margins: int) -> None:
    """Noise that ties answers together was drawn for some of them jointly: a file must say for which."""
    if margins > 1 and not law.independent:
        raise ValueError(
            f"{path} holds {margins} margins, and the law {law.name!r} ties the noise of answers together: put each margin "
            "whose noise was drawn by itself into a file of its own; noise that was drawn for several margins jointly needs "
            "a stacked query, Measured(query + query, ...) in Python"
        )


def _unmeasured(answers: list[tuple[str, NoiseLaw | None, Query, Any]], given: list[str]) -> list[list[str]]:
    """For each of the answers, the names of those that are stated to be not published: just those whose value is missing."""
    import numpy as np

    from bayesdp._validate import nearest

    blank = "blank" in given
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
        empty = [query.names[int(i)] for i in np.flatnonzero(np.isnan(flat))]
        hidden = list(dict.fromkeys([*(name for name in names if name in query.names), *(empty if blank else [])]))
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

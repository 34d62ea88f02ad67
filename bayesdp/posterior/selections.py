"""Sums of counts that are named by their labels, such as ``sex=women*age=0-4,5-9``: what derived quantities are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Ints, Mask
from bayesdp._text import nearest, printable, shown
from bayesdp.frames import Frame, Label
from bayesdp.measurements.consistency import determined_answers, implied_answers
from bayesdp.posterior.view import Posterior, SummarisedPosterior
from bayesdp.queries import LinearQuery, Query, SumPart, combined_answers
from bayesdp.queries.parts import kept_names

_QUOTED = r'"(?:[^"]|"")*"'
OPERATOR = r"\s(?:>=|<=|[-+/<>=])\s"
"""What stands between sums, with blanks around it."""

QUOTING = "names and labels that hold , * = or an operator between blanks are put into double quotes"


def split(text: str, separator: str) -> tuple[list[str], list[str]]:
    """The pieces of a text between separators (a regular expression), and these, but for what is in double quotes."""
    pieces, found = [""], []
    for quoted_text, between, other in re.findall(rf"({_QUOTED})|({separator})|(.)", text, re.DOTALL):
        if between:
            pieces.append("")
            found.append(between.strip())
        else:
            pieces[-1] += quoted_text or other
    return pieces, found


def names_of(text: str, separator: str = r"\*") -> tuple[str, ...]:
    """The names or labels in a text, those in double quotes as they are in them."""
    names = [name.strip() for name in split(text, separator)[0]]
    for name in names:
        if not name or ('"' in name and not re.fullmatch(_QUOTED, name)):
            raise ValueError(f"a name or a label is missing, or a quote misplaced, in {text!r}; {QUOTING}")
    return tuple(name[1:-1].replace('""', '"') if name[0] == '"' else name for name in names)


def quoted(value: Any) -> str:
    """A name or a label as `names_of` reads it again."""
    text = str(value)
    plain = text and text == text.strip() and not re.search(rf'[,*="]|{OPERATOR}', text)
    return text if plain else '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True)
class Selection:
    """The cells that have, of each named dimension or group, one of the labels that are listed; all cells where none is named.

    Examples
    --------
    >>> frame = Frame.of({"sex": ["women", "men"], "age": ["0-4", "5-9", "10+"]})
    >>> Selection.of("sex=women * age=0-4,5-9").mask(frame).tolist()
    [True, True, False, False, False, False]
    """

    named: tuple[tuple[str, tuple[Label, ...]], ...] = ()

    @classmethod
    def of(cls, given: Any) -> Selection:
        """Read a text, or a mapping of names to a label or a list of labels; None, an empty mapping and ``total`` are all cells."""
        if not isinstance(given, str | Mapping | None):
            raise TypeError(
                f"cells must be a text like 'sex=women' or a mapping of dimensions to labels, got {given!r}"
            )
        if isinstance(given, str):
            pieces = [] if given.strip() == "total" else [split(piece, "=")[0] for piece in split(given, r"\*")[0]]
            if any(len(piece) == 1 for piece in pieces):
                form = "cells are written as 'DIM=LABEL', 'DIM=LABEL,LABEL', 'DIM=LABEL*DIM=LABEL' or 'total'"
                raise ValueError(f"{form}, got {given!r}; {QUOTING}")
            named: list[tuple[str, tuple[Any, ...]]] = [
                (names_of(name)[0], names_of("=".join(rest), ",")) for name, *rest in pieces
            ]
        else:
            one = str | int | float | np.generic
            named = [(name, (own,) if isinstance(own, one) else tuple(own)) for name, own in (given or {}).items()]
        if len(dict(named)) < len(named):
            raise ValueError(f"{given!r} names a dimension twice; several labels of one are written as DIM=LABEL,LABEL")
        return cls(tuple(named))

    def __str__(self) -> str:
        return "*".join(f"{quoted(name)}={','.join(map(quoted, labels))}" for name, labels in self.named) or "total"

    def mask(self, frame: Frame) -> Mask:
        """Which cells these are, shape ``(cells,)``; ValueError if a name or a label is not known, or there is no such cell."""
        found = np.ones(frame.shape, dtype=np.bool_)
        for name, labels in self.named:
            dim, known = (name, frame.labels_of(name)) if name in frame.dims else frame.group(name)
            places = [_label(label, name, known) for label in labels]
            if len(set(places)) < len(places) or not places:
                raise ValueError(f"labels of {name!r} must be named, each once, got {shown(labels)}")
            chosen = np.array([label in places for label in known])
            found &= chosen.reshape([-1 if other == dim else 1 for other in frame.dims])
        if not found.any():
            raise ValueError(f"no cell has all the labels of {self}")
        return found.reshape(-1)


def _label(given: Any, name: str, known: Iterable[Label]) -> Label:
    """The label that is meant: itself, or the only one that is written like a text."""
    listed = list(dict.fromkeys(known))
    true = isinstance(given, bool | np.bool_)  # which equals 1
    written = [label for label in listed if (str(label) if isinstance(given, str) else label) == given and not true]
    if len(written) > 1:
        raise ValueError(f"{name!r} has several labels that are written as {given!r}: {shown(written)}")
    if not written:
        raise ValueError(f"{name!r} has no label {given!r}; it has {nearest(given, listed)} ({QUOTING})")
    return written[0]


@dataclass(frozen=True)
class Sums:
    """Sums of selected cells that are added and taken away: ``county=Cook + county=Lake - county=Adams``."""

    terms: tuple[tuple[int, Selection], ...]

    @classmethod
    def of(cls, given: Any) -> Sums:
        """Read a text, or what `Selection.of` does."""
        pieces, signs = split(given, r"\s[-+]\s") if isinstance(given, str) else ([given], [])
        weights = [1, *(-1 if sign == "-" else 1 for sign in signs)]
        return cls(tuple((weight, Selection.of(piece)) for weight, piece in zip(weights, pieces, strict=True)))

    def __str__(self) -> str:
        return "".join(f" {'+-'[weight < 0]} {own}" for weight, own in self.terms).removeprefix(" + ")


class Rows:
    """Sums of a table by dimensions or groups: one row for each of their labels that has a cell among those of some sums."""

    def __init__(self, table: Posterior, by: Iterable[str], sums: Sums) -> None:
        self.table, self.frame = table, table.joint.frame
        self.part = SumPart(self.frame, kept_names(by, "by"))
        self.places: Ints = np.flatnonzero(self._cells(sums))
        every = list(product(*self.part.answer_labels))
        self.labels = {dim: [every[i][k] for i in self.places] for k, dim in enumerate(self.part.keep)}

    def _cells(self, sums: Sums) -> Ints:
        """How many cells of each row of the margin are in some sums."""
        selected = np.any([selection.mask(self.frame) for _, selection in sums.terms], axis=0)
        return np.bincount(self.part.row_of_cell[selected], minlength=self.part.rows)

    def drawn(self, sums: Sums) -> tuple[npt.NDArray[Any], Mask, Mask]:
        """Draws of the sums, shape ``(chains, draws, rows)``, and which are exact, and which have one possible value."""
        empty = self.places[self._cells(sums)[self.places] == 0]
        if empty.size:
            name = printable(self.part.name(int(empty[0])))
            raise ValueError(f"{sums} has no cells with {name}, and a denominator needs some")
        # Term by term: of streamed posteriors there are draws of sums, and not of differences.
        terms = [(weight, self._query(selection), selection) for weight, selection in sums.terms]
        chains = np.sum([weight * self._chains(query, own) for weight, query, own in terms], axis=0)
        matrices = [weight * query.matrix for weight, query, _ in terms]
        query = terms[0][1] if len(terms) == 1 else self._linear(sum(matrices))
        stated = self.table.joint.exact
        exact = implied_answers(query, stated)
        for part in (part for own in stated if own.sign == "=" for part in own.query.parts):
            exact |= combined_answers(query.matrix, part)[1] if isinstance(part, SumPart) else False
        determined = exact | determined_answers(query, stated, self.table.known)
        return self.table.flattened(chains).reshape(chains.shape), exact, determined

    def _query(self, selection: Selection) -> Query:
        """The sums of the selected cells, one a row."""
        cells = np.flatnonzero(selection.mask(self.frame))
        if self.table.release.about == "statistics" and len(np.unique(self.part.row_of_cell[cells])) < len(cells):
            raise ValueError(f"the release is of statistics, which do not add up, and {selection} is several of them")
        if len(cells) == self.frame.size and len(self.places) == self.part.rows:
            return Query(self.frame, (self.part,))
        entries = np.ones(len(cells), dtype=np.int64), (self.part.row_of_cell[cells], cells)
        return self._linear(sp.csr_array(entries, shape=(self.part.rows, self.frame.size))[self.places])

    def _linear(self, matrix: Any) -> Query:
        return LinearQuery(self.frame, matrix, [f"{i}: {self.part.name(int(i))}" for i in self.places])

    def _chains(self, query: Query, selection: Selection) -> npt.NDArray[Any]:
        """Draws of the sums of one selection; where they were not kept, the error says what had to be recorded."""
        try:
            return self.table.chains_of(query)
        except ValueError:
            if not isinstance(self.table, SummarisedPosterior):
                raise
        names = list(dict.fromkeys([*self.part.keep, *(name for name, _ in selection.named)]))
        dims = [name if name in self.frame.dims else self.frame.group(name)[0] for name in names]
        names = names if len(set(dims)) == len(dims) else list(dict.fromkeys(dims))
        wanted = f"Margins(table, {names})" if names else "Totals(table)"
        by = f" by {', '.join(self.part.keep)}" if self.part.keep else ""
        raise ValueError(
            f"no draws of {selection}{by} were kept: bdp.fit_hierarchy keeps those of the sums in `record`, here "
            f"{shown(self.table.recorded) or 'none'}, and of what these add up to. Fit again with record={{'sums': bdp.{wanted}}}"
        )

"""Totals among the labels of a table: they must be declared, and are measurements of their own then."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from bayesdp._arrays import Floats
from bayesdp._validate import MAX_COUNT, instance, name_list, nearest, shown

type Declared = Mapping[str, str | Sequence[str]]
type Show = Callable[[Iterable[Any]], str]

FALSE_REFUSALS = 1e-6
"""Probability, at most, that a table is refused because one of its categories is near to the sum of the others."""

_FEWEST = 30
"""Entries of fewer records are not compared: laws of small published counts may leave few numbers that they can be."""

_WORDS = frozenset((
    "total totals tot totale totali totaux totales totais totaal totalt subtotal subtotals insgesamt zusammen gesamt gesamtsumme "
    "summe summa suma somme soma sum overall yhteensä kokku ogółem razem celkem spolu összesen skupaj ukupno kopā σύνολο toplam "
    "итого всего усього разом общо вкупно укупно jumlah المجموع الإجمالي إجمالي סהכ कुल รวม 合計 総数 総計 合计 总计 总数 總計 總數 "
    "합계 총계 총수 계"
).split())  # fmt: skip
"""A label that begins or ends with one of these words looks like a total."""

_PHRASES = frozenset({
    "all", "all ages", "all persons", "all people", "all categories", "all sexes", "both sexes", "ensemble", "i alt", "iš viso",
    "tổng số", "סך הכל", "_t", "t_t", "jami", "gjithsej",
})  # fmt: skip
"""So does one of these."""


def looks_like_total(label: Any) -> bool:
    """Whether a label says, in one of forty languages, that it stands for a sum.

    Examples
    --------
    >>> [looks_like_total(label) for label in ("Grand total", "Insgesamt", "合計", "Total people", "Sub-total", "All other")]
    [True, True, True, True, True, False]
    """
    words = re.split(r"[\s,:;.()\[\]/|*]+", re.sub("[-\"״']", "", str(label).casefold()).strip(" ,:;.()[]/|*"))
    return " ".join(words) in _PHRASES or words[0] in _WORDS or words[-1] in _WORDS


def labels_of_sums(values: npt.ArrayLike) -> dict[int, int]:
    """Axes with the place of a label that is nearer to the sum of all others of its axis than chance explains."""
    # Of a category, records fall independently into it or into the others: of n records of an entry, whatever the chances there, it
    # has as many as the others to within d with probability at most P(abs(2 B - n) <= d), B binomial of n and one half. Noise
    # of its own makes that no larger; numbers that are all multiples of a base are taken as off by the base each. Fisher's
    # statistic of these probabilities, over all entries without NaN, is compared with `FALSE_REFUSALS` by the number of labels.
    # Nothing is said of a label that is as near to the largest other one, as one of two always is.
    table, found = np.asarray(values, dtype=np.float64), {}
    for axis, size in enumerate(table.shape):
        rows = np.moveaxis(table, axis, 0).reshape(size, -1)
        rows = rows[:, (np.abs(rows) < MAX_COUNT).all(axis=0)]
        if size < 3 or not rows.size:
            continue
        base = int(np.gcd.reduce(rows.astype(np.int64), axis=None)) if np.all(rows == np.rint(rows)) else 0
        slack = (size + 1) * base if base > 1 else 0
        label = int(np.argmin(np.abs(2 * rows - rows.sum(axis=0)).sum(axis=1)))
        others = np.delete(rows, label, axis=0)
        level = FALSE_REFUSALS / sum(table.shape)
        twin = others[np.argmax(others.sum(axis=1))]
        if _chance(rows[label], others.sum(axis=0), slack) < level <= _chance(rows[label], twin, slack):
            found[axis] = label
    return found


def _chance(one: Floats, other: Floats, slack: int) -> float:
    """A bound on the probability that independent records make the sums so near to each other; see `labels_of_sums`."""
    n = np.floor(one + other) - slack
    off, n = np.abs(one - other)[n >= _FEWEST] + slack, n[n >= _FEWEST]
    within = stats.binom.cdf(np.floor((n + off) / 2), n, 0.5) - stats.binom.cdf(np.ceil((n - off) / 2) - 1, n, 0.5)
    within = np.maximum(within, stats.binom.pmf(np.floor(n / 2), n, 0.5))  # fractions may have no integer within reach
    return float(stats.chi2.sf(-2 * np.log(within).sum(), 2 * len(n))) if len(n) else 1.0


def declared_totals(
    totals: Declared, labels_of: Mapping[str, Sequence[Any]], where: str, show: Show = shown, remedy: str = ""
) -> dict[str, tuple[Any, ...]]:
    """For each dimension its labels that are declared to be totals; ValueError if one is not there, or others look like some."""
    instance(totals, Mapping, "totals must be a mapping, such as {'area': 'Total'}", quoted=True)
    for dim in totals:
        if dim not in labels_of:
            raise ValueError(f"{where}: totals names {dim!r}, and dimensions are {nearest(dim, labels_of, show)}")
    found, unsaid = {}, {}
    for dim, labels in labels_of.items():
        said = totals.get(dim)
        listed = set(
            () if said is None else (said,) if isinstance(said, str) else name_list(said, f"totals of {dim!r}")
        )
        known = set(map(str, labels))
        for label in listed:
            if label not in known:
                raise ValueError(
                    f"{where}: totals says that {label!r} is a label of {dim!r}, which has {nearest(label, labels, show)}"
                )
        found[dim] = tuple(label for label in labels if str(label) in listed)
        likely = [label for label in labels if str(label) not in listed and looks_like_total(label)]
        if likely and said is None:
            unsaid[dim] = likely[0]
        if likely and listed:
            raise ValueError(
                f"{where}: {show(likely)} of {show([dim])} look like sums, too. If of some labels only, take these lines out of the "
                "file; a category of that name must be renamed"
            )
        if len(found[dim]) == len(labels):
            raise ValueError(f"{where}: {show([dim])} has no label besides its totals")
    if unsaid:
        raise ValueError(f"{where}: {_declare(unsaid, show, 'looks like a sum over {}', remedy)}")
    return found


def check_no_sum(
    values: npt.ArrayLike,
    labels_of: Mapping[str, Sequence[Any]],
    totals: Declared,
    where: str,
    show: Show = shown,
    remedy: str = "",
) -> None:
    """Refuse a label that is a sum by `labels_of_sums`, unless `totals` is about its dimension."""
    for axis, place in labels_of_sums(values).items():
        dim, labels = list(labels_of.items())[axis]
        if dim not in totals:
            why = f"is as large as all others of {{}} together, nearer than chance explains (below {FALSE_REFUSALS:g})"
            raise ValueError(f"{where}: {_declare({dim: labels[place]}, show, why, remedy)}")


def declaration(labels: Mapping[str, str]) -> tuple[str, str]:
    """How totals are declared, in Python and on the command line: dimensions with their labels, as messages show them."""
    said = ", ".join(f"'{dim}': {label}" for dim, label in labels.items())
    options = (quote(f"{dim}={label.strip("'")}") for dim, label in labels.items())
    return f"totals={{{said}}}", " ".join(f"--total {option}" for option in options)


def _declare(labels: Mapping[str, Any], show: Show, why: str, remedy: str) -> str:
    """What to do about labels that are sums, as it seems: to declare them, where `remedy` says nothing else."""
    texts = {show([dim]).strip("'"): show([label]) for dim, label in labels.items()}
    seen = ", ".join(f"{bare}={texts[bare]} {why.format(show([dim]))}" for bare, dim in zip(texts, labels, strict=True))
    it, one = ("it", "it") if len(texts) == 1 else ("them", "one")
    (said, options), first = declaration(texts), next(iter(texts))
    return (
        f"{seen}; {remedy or f'declare {it}: {said} ({options})'}, or, if {one} is a category like the others, "
        f"totals={{'{first}': []}} (--total {first}=)"
    )

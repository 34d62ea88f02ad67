"""What a posterior was conditioned on, read from its DataTree: the releases of each table, and what else was observed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.composition import is_streamed
from bayesdp.release import Exact, Measured, Release

_LINE = re.compile(r"\s*(?P<name>\S.*?) (?P<relation>[~=]) (?P<law>[A-Za-z_]\w*\(.*)")
"""A line of ``model.str_repr()``."""


@dataclass(frozen=True)
class Further:
    """What is in the model besides the releases of the file.

    Parameters
    ----------
    likelihoods : tuple of str
        Observed variables that belong to no release, by name, in the order of the model.
    replaced : tuple of str
        Observed variables with published numbers that no release of the file has: they were replaced after `observe`.
    potentials : tuple of str
        Potentials by name, without those that a table of `ContinuousCounts` has of its own.
    """

    likelihoods: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    potentials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Described:
    """The attribute ``prior`` of a posterior, taken apart.

    Parameters
    ----------
    text : str
        The prior in words and formulas; empty where there is none.
    model : str
        The model as PyMC prints it; empty where there is none.
    """

    text: str
    model: str

    @property
    def others(self) -> list[str]:
        """Lines of the model that name no variable with a law: what tables of `ContinuousCounts` say of their base."""
        return [line.strip() for line in self.model.splitlines() if line.strip() and _LINE.fullmatch(line) is None]

    def lines(self, relation: str) -> list[tuple[str, str]]:
        """Variables and their laws, of the lines with that relation, ``"~"`` or ``"="``."""
        found = (_LINE.fullmatch(line) for line in self.model.splitlines())
        return [(own["name"], own["law"]) for own in found if own and own["relation"] == relation]


def names_of_measurements(tree: xr.DataTree, releases: Sequence[Sequence[Release]]) -> list[list[str | None]]:
    """The observed variable of each noisy measurement, for the releases of each table; None where there is none."""
    return [
        [name for own, name in named if isinstance(own, Measured)]
        for named in _matched(tree, [[part for own in table for part in _parts(own)] for table in releases])
    ]


def further(tree: xr.DataTree, releases: Sequence[Sequence[Release]]) -> Further:
    """What is in the model besides the releases of each table."""
    observed = _observed(tree)
    matched = _matched(tree, [[part for own in table for part in _parts(own)] for table in releases])
    taken = {name for table in matched for _, name in table}
    published = set(tree["constant_data"].data_vars) if "constant_data" in tree.children else set()
    laws = dict(described_model(tree).lines("~"))
    # That answers about the same records have one number is part of the releases' likelihood.
    rest = [n for n in observed if n not in taken and not laws.get(n, "").startswith("SameRecords(")]
    # Scalars are not among the constants of PyMC's result; the law of an exact part has a name of its own.
    replaced = [n for n in rest if f"{n}_published" in published or laws.get(n, "").startswith("ExactAnswers(")]
    own_densities = {
        f"{group.attrs.get('variable', '')}_density"
        for name, group in tree.children.items()
        if name.startswith("relaxation")
    }
    potentials = [n for n, law in laws.items() if law.startswith("Potential(") and n not in own_densities]
    return Further(tuple(n for n in rest if n not in replaced), tuple(replaced), tuple(potentials))


def described_model(tree: xr.DataTree) -> Described:
    """The attribute ``prior``: `bayesdp fit` writes words and formulas first, and the model as PyMC prints it after them."""
    text = str(tree.attrs.get("prior", "")).strip("\n")
    if is_streamed(tree):  # without a model of PyMC
        return Described(text.strip(), "")
    words, separator, last = text.rpartition("\n\n")
    if not separator:
        words, last = "", text
    first = last.splitlines()[0] if last.strip() else ""
    if _LINE.fullmatch(first) is None:
        return Described(text.strip(), "")
    return Described(words.strip(), last)


def _observed(tree: xr.DataTree) -> dict[str, npt.NDArray[Any]]:
    if "observed_data" not in tree.children:
        return {}
    own = tree["observed_data"].to_dataset()
    return {str(name): np.asarray(values.values) for name, values in own.data_vars.items()}


def _parts(release: Release) -> list[Measured | Exact]:
    """In the order in which `bayesdp.observe` adds them."""
    return [*release.measurements, *release.exact]


def _matched(
    tree: xr.DataTree, tables: Sequence[Sequence[Measured | Exact]]
) -> list[list[tuple[Measured | Exact, str | None]]]:
    """The observed variable that holds each part: of the name that `observe` gives, with the numbers of the part."""
    observed = _observed(tree)
    if not observed:
        return [list(_named(parts)) for parts in tables]
    taken: set[str] = set()
    found = []
    for parts in tables:
        own: list[tuple[Measured | Exact, str | None]] = []
        for part in parts:
            numbers = _numbers(part)
            names = [n for n in _candidates(observed, _base(part)) if n not in taken and _same(observed[n], numbers)]
            name = names[0] if names else None
            taken |= {name} if name is not None else set()
            own.append((part, name))
        found.append(own)
    return found


def _base(part: Measured | Exact) -> str:
    return (part.name or "noisy") if isinstance(part, Measured) else "exact"


def _numbers(part: Measured | Exact) -> npt.NDArray[Any]:
    values = np.asarray(part.values).reshape(-1)
    return values[~part.unmeasured.reshape(-1)] if isinstance(part, Measured) else values


def _same(observed: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> bool:
    return observed.dtype.kind in "iuf" and np.array_equal(observed.reshape(-1), numbers)


def _candidates(observed: dict[str, npt.NDArray[Any]], base: str) -> list[str]:
    """Names that `observe` may have given, in the order of their numbers."""
    numbered = {name: re.fullmatch(rf"{re.escape(base)}(?:_(\d+))?", name) for name in observed}
    return sorted((n for n, own in numbered.items() if own), key=lambda n: int(numbered[n][1] or 1))  # type: ignore[index]


def _named(parts: Sequence[Measured | Exact]) -> Iterator[tuple[Measured | Exact, str | None]]:
    """The names that `observe` gives in a model that has nothing else: for trees without observed data."""
    taken: set[str] = set()
    for part in parts:
        base = _base(part)
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.add(name)
        yield part, name

"""Perturbed counts that add up: the chance of it by their laws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp._text import printable
from bayesdp.consistency._general import ExactPart
from bayesdp.consistency._sums import meet, row_map
from bayesdp.measurements import Measured
from bayesdp.noise import PerturbedLaw, UnknownPerturbation
from bayesdp.queries import SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

EVERYTHING, _SOMETHING = 1e-3, 1e-6
"""Largest chance that is reported where all sums of the finest published numbers agree, and where some sets of them do."""

_PERIOD = 4096
"""Differences are added up modulo this: what is farther out is counted too, so that no chance comes out smaller."""

_DRAWS = 50_000


class _Counts(NamedTuple):
    """Sums (exact if law is None): at d, `mass` has p(y | y + d) by kind of y, and `laws` the chance of y + d given y."""

    part: SumPart
    values: Ints
    known: Mask
    law: Any
    mass: Floats
    kind: Ints
    laws: Floats
    law_of: Ints


class _Total(NamedTuple):
    """Sums of finer counts: into which each of these goes, and which sums say something that is not certain."""

    counts: _Counts
    target: Ints
    agree: bool
    open: Mask

    def weights(self, off: Ints) -> Floats:
        """The probability of each sum given differences of the counts that it adds up: (draws, sums) from (draws, counts)."""
        at = np.zeros((len(self.open), len(off)), dtype=np.int64)
        np.add.at(at, self.target, off.T)
        return np.where(self.open, self.counts.mass[self.counts.kind[:, None], at % _PERIOD].T, 1.0)


def perturbed_adding_up(measurements: Iterable[Measured], exact: Iterable[ExactPart]) -> list[tuple[float, str]]:
    """Which perturbed counts add up to others, or to exact ones, where the chance of that is too small; and the chance.

    The chance is that of the published sums given the finer numbers y, whose true counts x have the probabilities p(y | x): all x
    equally likely before, but a published 0 a true 0 where it can be one (multiples of a base add up with certainty, and so do
    zeros). Sums of one set are independent: an exact convolution. Those of several sets share the true counts: the chance of the least
    likely set times that of the others given it, simulated, four standard errors above. By cell keys a sum whose other parts are
    published as 0 has the people of the one that is not, and its number: it counts once. Where all that the finest numbers determine
    agrees, a chance below `EVERYTHING` over the number of finest sets is reported, else below `_SOMETHING` over that of choices.
    Nothing is of a law that is not known: it may hardly perturb.
    """
    sums = [(part, values) for part, values in exact if isinstance(part, SumPart)]
    sets = [_counts(part, values, np.ones(part.rows, dtype=np.bool_), None) for part, values in sums]
    for measured in measurements:
        start, law, values = 0, measured.law, measured.values.reshape(-1)
        unknown = not isinstance(law, PerturbedLaw) or isinstance(law, UnknownPerturbation)
        known = ~np.any([measured.unmeasured, *law.withheld(measured.values).values()], axis=0).reshape(-1)
        for part in () if unknown else measured.query.parts:
            own = slice(start, start := start + part.rows)
            if isinstance(part, SumPart):
                sets.append(_counts(part, values[own], known[own], law))
    totals = [_totals(sets, place) for place in range(len(sets))]
    coarse = {id(total.counts) for own in totals for total in own}
    finest = [bool(own) and id(base) not in coarse for base, own in zip(sets, totals, strict=True)]
    found = []
    for base, own_totals, first in zip(sets, totals, finest, strict=True):
        agreeing = [total for total in own_totals if total.agree]
        everything = first and len(agreeing) == len(own_totals)
        level = EVERYTHING / sum(finest) if everything else _SOMETHING / (len(sets) * 2.0 ** len(own_totals))
        if agreeing and (chance := _chance(base, agreeing, level)) < level:
            words = [
                f"{'exact' if own.law is None else 'perturbed'} answers by {printable(' × '.join(own.part.keep)) or 'nothing'}"
                for own in (base, *(total.counts for total in agreeing))
            ]
            found.append((chance, f"{words[0]} add up exactly to {', '.join(words[1:])}"))
    return found


def _counts(part: SumPart, values: npt.NDArray[Any], known: Mask, law: Any) -> _Counts:
    whole = np.where(known, values, 0).astype(np.int64)
    different, which = np.unique(whole, return_inverse=True)
    narrow, off = np.ones((len(different), 1)), np.zeros(1, dtype=np.int64)
    if law is not None:
        off = -np.arange(law.transitions.lowest, law.transitions.highest + 1)
        narrow = np.exp(law.log_each(different[:, None], different[:, None] + off))
    narrow, kind = np.unique(narrow, axis=0, return_inverse=True)
    mass, kind = np.zeros((len(narrow), _PERIOD)), kind.reshape(-1)[which]
    np.add.at(mass.T, off % _PERIOD, narrow.T)
    laws = np.concatenate([mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300), np.eye(1, _PERIOD)])
    law_of = np.where((whole == 0) & (mass[kind, 0] > 0.0), len(mass), kind)
    return _Counts(part, whole, known, law, mass, kind, laws, law_of)


def _totals(sets: Sequence[_Counts], place: int) -> list[_Total]:
    """The other sets that are sums of one, where either is perturbed."""
    base, found, seen = sets[place], list[_Total](), set[bytes]()
    for other, total in enumerate(sets):
        common = meet(base.part, total.part)
        again = base.part.keep == total.part.keep and other < place  # published twice: compared once
        if other == place or again or common is None or common.keep != total.part.keep or base.law is total.law is None:
            continue
        target = row_map(base.part, total.part)
        sums, clear = np.zeros_like(total.values), total.known.copy()
        np.add.at(sums, target, base.values)
        np.logical_and.at(clear, target, base.known)
        if not clear.any():
            continue
        agree, uncertain = bool(np.all((sums == total.values)[clear])), clear.copy()
        if agree and base.law is not None and total.law is not None and base.law.same_cell_same_value:
            order = np.argsort(np.where(base.values > 0, target, len(clear)), kind="stable")
            ends = np.cumsum(np.bincount(target[base.values > 0], minlength=len(clear)))
            for group, own in enumerate(np.split(order, ends)[:-1]):
                uncertain[group] &= len(own) > 1 and own.tobytes() not in seen
                seen.add(own.tobytes())
        found.append(_Total(total, target, agree, uncertain))
    return found


def _chance(base: _Counts, totals: list[_Total], level: float) -> float:
    """An upper bound on the chance that all these agree: of the least likely set alone, where that is below the level."""
    alone = [_alone(base, total) for total in totals]
    chance = min(alone)
    if chance < level or np.prod(alone) >= level:
        return chance
    rng, cells = np.random.default_rng(0), len(base.values)
    off = np.empty((1 + min(_DRAWS, 20_000_000 // cells), cells), dtype=np.int64)
    for which in np.unique(base.law_of):
        own = base.law_of == which
        off[:, own] = rng.choice(_PERIOD, size=(len(off), own.sum()), p=base.laws[which])
    # Given that the least likely set agrees, sum by sum: they have no part in common.
    first = totals.pop(alone.index(chance))
    accepted = rng.random((len(off), len(first.open))) < first.weights(off)
    for group in np.flatnonzero(first.open):
        own, draws = first.target == group, np.flatnonzero(accepted[:, group])
        if not draws.size:
            return chance
        off[:, own] = off[rng.choice(draws, len(off))][:, own]
    others = np.prod([total.weights(off).prod(axis=1) for total in totals], axis=0)
    return chance * min(float(others.mean() + 4.0 * others.std() / np.sqrt(len(off))) + 10.0 / len(off), 1.0)


def _alone(base: _Counts, total: _Total) -> float:
    """The chance that all sums of one set agree."""
    waves, many = np.fft.rfft(base.laws), np.zeros((len(total.open), len(base.laws)), dtype=np.int64)
    np.add.at(many, (total.target, base.law_of), 1)
    chance = 1.0
    for group in np.flatnonzero(total.open):
        off = np.fft.irfft(np.prod(waves ** many[group][:, None], axis=0), _PERIOD)
        chance *= float(np.clip(total.counts.mass[total.counts.kind[group]] @ off, 0.0, 1.0))
        if chance < 1e-30:
            break
    return chance

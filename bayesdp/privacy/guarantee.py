"""The statement of what a mechanism protects, for whom, and how much, also read from files; and what a loss becomes over steps."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from bayesdp import _validate
from bayesdp._text import printable
from bayesdp.privacy import caveats
from bayesdp.privacy.caveats import Sentence
from bayesdp.privacy.losses import LOSS_KINDS, Loss, LossAt, stated_loss
from bayesdp.privacy.words import (
    EXACT_SAMPLER,
    UNITS,
    Neighbours,
    OnePerson,
    PairLoss,
    SamplerStatement,
    Statement,
    described_from,
    exactly,
    loss_words,
    relation_from,
)

GROWTH: Mapping[str, str] = {
    "pure": (
        "Epsilon grows at most in proportion to the distance: k steps, each with a loss of at most epsilon, cost at most k "
        "times epsilon."
    ),
    "zcdp": (
        "Rho grows with the square of the distance: k steps, each with a loss of at most rho, cost at most k squared times rho."
    ),
    "gdp": (
        "Mu grows at most in proportion to the distance: k steps, each with a loss of at most mu, cost at most k times mu."
    ),
    "approximate": (
        "Epsilon and delta do not grow in proportion to the distance: k steps, each with a loss of at most epsilon and delta, "
        "cost at most k times epsilon together with delta times (exp(k epsilon) - 1) / (exp(epsilon) - 1)."
    ),
}
"""How the loss grows with the distance of two tables, for each kind of guarantee: `group_loss` in words."""


def group_loss(loss: Mapping[str, float], steps: int) -> dict[str, float]:
    """The loss for two tables that are `steps` steps apart, each step with the given loss at most.

    Parameters
    ----------
    loss : mapping
        Names among ``epsilon``, ``delta``, ``rho``, ``mu``; delta only with epsilon.
    steps : int
        k, at least 1.

    Returns
    -------
    dict
        With the same names, by `group` of the losses in `bayesdp.privacy.losses`; a delta of 1 says nothing.

    Examples
    --------
    >>> group_loss({"rho": 0.5}, 2)
    {'rho': 2.0}
    >>> group_loss({"epsilon": 200.0, "delta": 1e-6}, 6)
    {'epsilon': 1200.0, 'delta': 1.0}
    """
    return dict(stated_loss(loss).group(_validate.positive_integer(steps, "steps")))


_CAVEATS = [kind for kind in vars(caveats).values() if isinstance(kind, type) and Statement in kind.__bases__]


def row_from(description: Any) -> PairLoss:
    """Read a row. What it is about counts, and not its words; from words alone nothing follows."""
    row = exactly(
        {"about": None, **description} if isinstance(description, Mapping) else description,
        ["relation", "size", "norm", "loss", "about"],
        "a row of a guarantee",
    )
    about, words = row.pop("about"), row.pop("relation")
    return PairLoss(words if about is None else relation_from(about), **row)


_PARAMETERS = {"pure": "epsilon", "zcdp": "rho", "approximate": "epsilon, delta", "gdp": "mu"}

KINDS: Mapping[str, str] = {kind: f"{LOSS_KINDS[kind]} ({_PARAMETERS[kind]})" for kind in _PARAMETERS}
"""Kinds of guarantee and what they are called."""

_SIMULATED = (
    "SIMULATED: the noise came from a generator whose seed may be known. Whoever knows the seed can subtract "
    "the noise. This is no protection; publish only what was released without rng."
)
_WIDTH = 100


@dataclass(frozen=True)
class Guarantee:
    """What a mechanism protects: for which pairs of tables, at what loss, and with what reservations.

    Attributes
    ----------
    kind : {"pure", "zcdp", "approximate", "gdp"}
        Definition of privacy.
    parameters : LossAt
        The loss, and the size of the difference that it is for, ``sensitivity``, in the norm `unit` (1 unless it is among
        them): ``epsilon``; ``rho``; ``epsilon`` and ``delta``; ``mu``. A mapping of these is taken as one. At k steps of that
        size see `bayesdp.privacy.group_loss`.
    unit : {"l1", "l2", "linf", "K", "Mahalanobis"}
        Norm in which the difference of two tables is measured, in counts, see `bayesdp.privacy.words.UNITS`.
    pairs : tuple of PairLoss
        One row for each kind of neighbouring tables that share the invariants: size of the difference, loss.
    determined_cells : tuple of str
        Labels of the cells that the invariants and ``x >= 0`` determine. They are not protected.
    determined_complete : bool, optional
        Whether these are all; None where that was not recorded, as in files of earlier versions. Before a release, when
        the answers of the invariants are not known yet, no cell is listed and nothing is recorded.
    sampler : SamplerStatement
        `EXACT_SAMPLER`, or a chain. While convergence is not certified, every printed loss says so.
    simulated : bool
        The noise was drawn from a generator handed in by the user.
    caveats : tuple of str
        Sentences, each a value of `bayesdp.privacy.caveats`; a plain one is taken as a `Sentence`.
    person : str
        What it means for one person's record alone, in plain sentences: an `OnePerson`, or as it stands in files of older versions;
        "" where nothing is said.

    Examples
    --------
    >>> from bayesdp.privacy import pure_pairs
    >>> print(Guarantee("pure", {"epsilon": 0.25}, "l1", pure_pairs(0.25, "l1", ["2x2 move"])))
    Privacy guarantee: pure differential privacy (epsilon)
      Only tables with the same invariants are protected against being told apart.
      Loss for particular pairs:
        - two records exchange a category within a 2x2 subtable, all its margins kept (2x2 move); l1
          distance 4: epsilon = 1
      Loss at l1 distance 1 between two tables: epsilon = 0.25
      Epsilon grows at most in proportion to the distance: k steps, each with a loss of at most epsilon,
        cost at most k times epsilon.
      Noise: drawn exactly from its law
    """

    kind: str
    parameters: LossAt
    unit: str
    pairs: tuple[PairLoss, ...] = ()
    determined_cells: tuple[str, ...] = ()
    sampler: SamplerStatement = EXACT_SAMPLER
    simulated: bool = False
    caveats: tuple[Statement, ...] = ()
    person: str = ""
    determined_complete: bool | None = None

    def __post_init__(self) -> None:
        _validate.choice(self.kind, tuple(KINDS), "kind")
        parameters = LossAt.of(self.parameters, "parameters")
        if parameters.loss.stated(self.kind) is None:
            alone = " without delta" if self.kind == "pure" else ""
            raise ValueError(f"parameters of a {self.kind!r} guarantee must include {_PARAMETERS[self.kind]}{alone}")
        object.__setattr__(self, "parameters", parameters)
        _validate.choice(self.unit, UNITS, "unit")
        for name, expected in (("pairs", PairLoss), ("determined_cells", str), ("caveats", str)):
            items = getattr(self, name)
            if isinstance(items, str) or not all(isinstance(item, expected) for item in items):
                raise TypeError(f"{name} must be a sequence of {expected.__name__}, got {items!r}")
            object.__setattr__(self, name, tuple(items))
        said: Any = self.caveats
        object.__setattr__(self, "caveats", tuple(i if isinstance(i, Statement) else Sentence(i) for i in said))
        object.__setattr__(self, "sampler", SamplerStatement.of(self.sampler))
        _validate.boolean(self.simulated, "simulated")
        _validate.instance(self.person, str, "person must be a sentence", quoted=True)
        if self.determined_complete is not None:
            _validate.boolean(self.determined_complete, "determined_complete")

    @property
    def loss(self) -> Loss:
        """The loss that `parameters` state in the definition `kind`."""
        found = self.parameters.loss.stated(self.kind)
        assert found is not None  # checked when the guarantee was made
        return found

    @property
    def certified(self) -> bool:
        """Whether the noise has the stated law, so that the losses stand as they are."""
        return self.sampler.exact

    def to_dict(self) -> dict[str, Any]:
        """Describe the guarantee by plain strings, numbers, lists and dictionaries (JSON)."""
        caveats = [None if isinstance(caveat, Sentence) else caveat.describe() for caveat in self.caveats]
        about: dict[str, Any] = {"caveats": caveats} if any(caveats) else {}
        if not self.certified:
            about["sampler"] = self.sampler.describe()
        if isinstance(self.person, OnePerson):
            about["record"] = self.person.describe()
        optional = {"person": str(self.person), "determined_complete": self.determined_complete, "about": about}
        return {
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "unit": self.unit,
            "pairs": [row.to_dict() for row in self.pairs],
            "determined_cells": list(self.determined_cells),
            "sampler": str(self.sampler),
            "simulated": self.simulated,
            "caveats": [str(caveat) for caveat in self.caveats],
            **{key: value for key, value in optional.items() if value not in ("", None, {})},
        }

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote.

        Parameters
        ----------
        description : mapping
            Keys as in `to_dict`, all of them and no others; ``person``, ``determined_complete`` and ``about``, which earlier versions
            did not write, may be missing. Under ``about`` is what sentences are made from: that counts, and not the words.
        """
        given: Any = description
        if isinstance(given, Mapping):
            given = {"person": "", "determined_complete": None, "about": {}, **given}
        entries = exactly(given, [*(item.name for item in fields(cls)), "about"], "a guarantee")
        about, words, rows = entries.pop("about"), entries["caveats"], entries["pairs"]
        if not isinstance(about, Mapping) or not set(about) <= {"caveats", "record", "sampler"}:
            raise ValueError(f"about of a guarantee may have the keys 'caveats', 'record' and 'sampler', got {about!r}")
        _validate.instance(rows, (list, tuple), "pairs of a guarantee must be a list", quoted=True)
        entries["pairs"] = tuple(map(row_from, rows))
        if "record" in about:
            what = "what is said of one person's record"
            entries["person"] = described_from(about["record"], (OnePerson,), what)
        if "sampler" in about:
            sampler = described_from(about["sampler"], (SamplerStatement,), "the sampler of a guarantee")
            if entries["sampler"] != sampler:
                raise ValueError(
                    f"sampler of a guarantee is {entries['sampler']!r}, but its 'about' says {sampler!r}: they must agree"
                )
            entries["sampler"] = sampler
        if "caveats" in about and isinstance(words, (list, tuple)):
            stated = about["caveats"]
            if not isinstance(stated, (list, tuple)) or len(words) != len(stated):
                raise ValueError("about of a guarantee must have an entry for each of its caveats")
            entries["caveats"] = tuple(
                text if told is None else described_from(told, _CAVEATS, "a caveat")
                for text, told in zip(words, stated, strict=True)
            )
        return cls(**entries)

    def shown_loss(self, loss: Mapping[str, float]) -> str:
        """Write a loss; while the sampler is not certified, never without saying so."""
        return loss_words(LossAt.of(loss, "loss").loss, self.sampler)

    def _headline(self) -> list[str]:
        """The loss that `parameters` state, unless a row says the same, and how it grows with the distance."""
        size, stated = self.parameters.size, self.parameters.loss

        def says_it(row: PairLoss) -> bool:
            alike = math.isclose(row.size, size, rel_tol=1e-9) and row.norm == self.unit
            return alike and all(math.isclose(row.loss.get(name, -1.0), v, rel_tol=1e-9) for name, v in stated.items())

        if any(map(says_it, self.pairs)):
            return [GROWTH[self.kind]]
        start = f"Loss at {self.unit} distance {size:.6g} between two tables: "
        return [start + self.shown_loss(stated), GROWTH[self.kind]]

    def _determined(self) -> str:
        """The sentence in front of the cells that the invariants determine; "" without such cells, if that is known."""
        found = len(self.determined_cells)
        if self.determined_complete is False and found:
            least = f"at least {found} {'cell' if found == 1 else 'cells'}"
            return f"Not protected: the invariants determine {least}; whether others too could not be worked out:"
        if not found:
            unknown = (
                "Whether the invariants determine single cells, which are not protected then, could not be worked out."
            )
            return unknown if self.determined_complete is False else ""
        recorded = "" if self.determined_complete else "; whether these are all was not recorded"
        return f"Not protected: the invariants determine these cells ({found}{recorded}):"

    def statements(self) -> list[tuple[str, list[str]]]:
        """Give the guarantee as sentences with the items they list, for text and HTML alike, as they may be shown."""
        lines, heading = self._protected(), self._determined()
        if heading:
            lines.append((heading, list(self.determined_cells)))
        lines.append((f"Noise: {self._noise()}", []))
        if self.simulated:
            lines.append((_SIMULATED, []))
        lines.extend((sentence, []) for sentence in self.caveats)
        return [(printable(sentence), [printable(item) for item in items]) for sentence, items in lines]

    def _protected(self) -> list[tuple[str, list[str]]]:
        """Sentences on who is protected, and at what loss."""
        lines: list[tuple[str, list[str]]] = [(self.person, [])] if self.person else []
        lines.append(("Only tables with the same invariants are protected against being told apart.", []))
        if self.pairs:
            # First what is protected: neighbouring tables may be told apart by the invariants.
            ordered = sorted(self.pairs, key=lambda row: isinstance(row.about, Neighbours))
            lines.append(("Loss for particular pairs:", self._rows(ordered)))
        return [*lines, *((sentence, []) for sentence in self._headline())]

    def _rows(self, pairs: Iterable[PairLoss]) -> list[str]:
        return [f"{p.relation}; {p.norm} distance {p.size:.6g}: {self.shown_loss(p.loss)}" for p in pairs]

    def _noise(self) -> str:
        """How the noise was drawn."""
        return "drawn exactly from its law" if self.certified else str(self.sampler)

    def __str__(self) -> str:
        text = [f"Privacy guarantee: {KINDS[self.kind]}"]
        for sentence, items in self.statements():
            text.append(textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="    "))
            text.extend(
                textwrap.fill(item, _WIDTH, initial_indent="    - ", subsequent_indent="      ") for item in items
            )
        return "\n".join(text)

    def _repr_html_(self) -> str:
        """HTML for notebooks and reports; every label is escaped."""
        parts = [f"<p><strong>Privacy guarantee: {html.escape(KINDS[self.kind])}</strong></p><ul>"]
        for sentence, items in self.statements():
            listed = "".join(f"<li>{html.escape(item)}</li>" for item in items)
            parts.append(f"<li>{html.escape(sentence)}{f'<ul>{listed}</ul>' if listed else ''}</li>")
        return "".join(parts) + "</ul>"


@dataclass(frozen=True)
class StatisticGuarantee(Guarantee):
    """A `Guarantee` about neighbouring data sets; its first pair says what neighbours are."""

    def _protected(self) -> list[tuple[str, list[str]]]:
        size = self.parameters.size
        shown = self.shown_loss(self.parameters.loss)
        return [
            *((sentence, []) for sentence in (_one_person(self.pairs, shown),) if sentence),
            ("Neighbouring data sets are protected against being told apart.", []),
            (f"Loss for neighbours, whose statistics are up to {size:.6g} apart in {self.unit} norm: {shown}", []),
            *((("Loss for particular pairs:", self._rows(self.pairs)),) if self.pairs else ()),
        ]


def _one_person(pairs: tuple[PairLoss, ...], shown: str) -> str:
    """What the guarantee means for one person, by the relation of neighbours that the first row names; "" if it is another."""
    about = pairs[0].about if pairs else None
    if not isinstance(about, Neighbours):
        return ""
    if about.change == "add-remove":
        return f"Adding or removing one person's record costs at most {shown}."
    return (
        f"Changing one person's record costs at most {shown}. Nothing is stated about adding or removing one: the number of "
        "records is public."
    )

"""Distributed privatization: agents with a common seed each add the noise of their own cells.

The noise of a release keeps the invariants only if the cells fit together. Agents that hold one cell each can still add it
without telling anybody their count: each simulates the noise of the *whole* table from a common secret seed, and adds its
own entry. The noisy values that they publish are, bit for bit, those of a central release with that generator.

The seed is the secret of all agents together: see the guarantee of the assembled release.

What an agent publishes of a distributed release, and whether the pieces of all agents fit together.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from typing import Any, Never

import numpy as np
import numpy.typing as npt

import bayesdp
from bayesdp import _validate
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.mechanisms._shared import add_noise
from bayesdp.mechanisms.base import AdditiveMechanism, Mechanism
from bayesdp.mechanisms.subspace.base import SubspaceMechanism
from bayesdp.privacy.caveats import Fixed
from bayesdp.queries import Query
from bayesdp.release import Exact, Measured, Release

__all__ = ["Agent", "Piece", "assemble"]

_DRAWING = ("numpy", "scipy", "numba")
"""Packages whose other versions may draw other noise from the same seed."""

_ALIKE = {
    "mechanism": "another mechanism, or another order of the labels",
    "round_number": "another round",
    "versions": "other versions of the packages that draw the noise, which may draw other noise from the same seed",
    "check": "other noise: another seed, or hardware that computes otherwise",
}
"""In what the pieces of one release must be alike, and what to tell if they are not."""


@dataclass(frozen=True)
class Piece:
    """What one agent publishes: noisy values of its own cells, and what is needed to see that all agents drew the same noise.

    Plain data, for whatever way it is sent: ``Piece.from_dict(piece.to_dict())``.

    Attributes
    ----------
    cells : tuple of str
        Names of the cells.
    values : tuple of int or float
        Their noisy values.
    round_number : int
        Which release of the agents this belongs to.
    mechanism : str
        SHA-256 digest of the mechanism's description and of the labels.
    versions : str
        Versions of the packages that drew the noise.
    check : str
        SHA-256 code of the whole noise, keyed by the common seed (HMAC). Two agents have the same one just when they
        drew the same noise with the same seed; without the seed it tells nothing.
    """

    cells: tuple[str, ...]
    values: tuple[int | float, ...]
    round_number: int
    mechanism: str
    versions: str
    check: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", tuple(self.cells))
        object.__setattr__(self, "values", tuple(self.values))
        texts: list[Any] = [*self.cells, self.mechanism, self.versions, self.check]
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"cells, mechanism, versions and check of a piece must be strings, got {text!r}")
        _validate.nonnegative_integer(self.round_number, "round_number")
        if len(self.cells) != len(self.values) or not self.cells:
            raise ValueError(f"a piece needs one value a cell, got {len(self.values)} for {len(self.cells)} cells")
        for cell, value in zip(self.cells, self.values, strict=True):
            if type(value) not in (int, float):
                raise TypeError(f"the value of {cell} must be an int or a float, got {value!r}")
        _validate.finite_array(np.array(self.values), "values of a piece", self.cells.__getitem__)

    def to_dict(self) -> dict[str, Any]:
        """The piece as plain data (JSON keeps every bit of it)."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**found, "cells": list(self.cells), "values": list(self.values)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Piece:
        """Read what `to_dict` wrote.

        Raises
        ------
        TypeError, ValueError
            If a key is missing or unknown, or a value is not valid.
        """
        names = [item.name for item in fields(cls)]
        if set(description) != set(names):
            raise ValueError(f"a piece has the keys {', '.join(names)}; got {_validate.shown(sorted(description))}")
        return cls(**description)


def own_versions() -> str:
    """The versions that the noise may depend on, as a piece states them."""
    return ", ".join([f"bayesdp {bayesdp.__version__}", *(f"{name} {version(name)}" for name in _DRAWING)])


def mechanism_digest(mechanism: Mechanism) -> str:
    """A digest of the description of a mechanism and of the cells, in order."""
    described = [mechanism.describe(), list(mechanism.frame.dims), [list(own) for own in mechanism.frame.labels]]
    return hashlib.sha256(json.dumps(described, sort_keys=True, allow_nan=False).encode()).hexdigest()


def noise_check(seed: int, round_number: int, digest: str, noise: npt.NDArray[Any]) -> str:
    """A code of the noise that only holders of the seed can make or try out."""
    key = seed.to_bytes((seed.bit_length() + 7) // 8, "little")
    # Little-endian bytes and the kind of number, whatever the machine.
    numbers = noise.astype(noise.dtype.newbyteorder("<"), order="C")
    signed = f"bayesdp distributed noise\n{round_number}\n{digest}\n{numbers.dtype.str}\n".encode()
    return hmac.new(key, signed + numbers.tobytes(), hashlib.sha256).hexdigest()


def check_alike(pieces: list[Piece], mechanism: Mechanism) -> None:
    """Check that the pieces are of this mechanism, and that all agents drew the same noise."""
    expected = {"mechanism": mechanism_digest(mechanism)}
    for name, difference in _ALIKE.items():
        own = expected.get(name) or Counter(getattr(piece, name) for piece in pieces).most_common(1)[0][0]
        odd = [piece for piece in pieces if getattr(piece, name) != own]
        if odd:
            cells = _validate.shown(cell for piece in odd for cell in piece.cells)
            shown = f" ({getattr(odd[0], name)!r}, not {own!r})" if name in ("round_number", "versions") else ""
            raise ValueError(f"pieces do not fit together: those of {cells} were made with {difference}{shown}")


def values_by_cell(pieces: Iterable[Piece], frame: Frame) -> npt.NDArray[Any]:
    """The noisy values of all cells, in the order of the frame, if there is exactly one for each."""
    where = {name: position for position, name in enumerate(frame.cell_names())}
    if len(where) < frame.size:
        raise ValueError("labels of the table must have different names as text, such as not both 1 and '1'")
    listed = [(cell, value) for piece in pieces for cell, value in zip(piece.cells, piece.values, strict=True)]
    counts = Counter(cell for cell, _ in listed)
    for told, names in (
        ("are of cells that the table does not have", [cell for cell in counts if cell not in where]),
        ("hold cells more than once", [cell for cell, times in counts.items() if times > 1]),
        ("lack cells", [cell for cell in where if cell not in counts]),
    ):
        if names:
            raise ValueError(f"pieces {told}: {_validate.shown(names)}")
    values = np.empty(frame.size, dtype=np.result_type(*{type(value) for _, value in listed}))
    for cell, value in listed:
        values[where[cell]] = value
    return values.reshape(frame.shape)


_SEED_BITS = 96


class Agent:
    """Holder of one cell, or of a block of cells, who adds the noise of these cells and no other.

    An agent is made from public things (a mechanism's description, labels, its own cells) and from the seed that all
    agents have in common. It never sees the count of another agent, and keeps none of its own. It cannot be pickled or copied
    (TypeError): a file with the seed in it would protect nothing, and a copy would not know which rounds were used.

    Parameters
    ----------
    description : mapping
        ``mechanism.describe()``, of a mechanism whose noise is on the cells of the table.
    frame : object
        Labels of the table, in the same order for all agents: DataArray, mapping, Frame.
    seed : int
        Common secret of at least 96 bits: ``secrets.randbits(128)``, made once and handed to all agents over a safe channel.
        The values of a smaller seed could be tried one by one.
    cells : str, tuple, or list of these
        What this agent holds: names of cells (``"county=Alpha, education=Low"``) or label tuples (``("Alpha", "Low")``),
        a single one or a list.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, a cell is not in the table or is listed twice, or the noise of the mechanism is on
        other answers than the cells, so that agents who know their own cells only could not add it.

    See Also
    --------
    assemble : the release, from the pieces of all agents.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Section 4.

    Examples
    --------
    >>> from bayesdp.mechanisms import LatticeLaplace
    >>> from bayesdp.queries import Totals
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> mechanism = LatticeLaplace(Totals(counties), epsilon=0.5)
    >>> seed = 0x9D1BB5ADB35C3B1A9A6A2B7F0C2F5E11
    >>> agents = [Agent(mechanism.describe(), counties, seed, county) for county in counties["county"]]
    >>> pieces = [agent.privatize(count, 0) for agent, count in zip(agents, [20, 10, 5], strict=True)]
    >>> release = assemble(mechanism, pieces)
    >>> release.exact
    (<Exact: grand total = 35>,)
    >>> central = mechanism.release([20, 10, 5], rng=np.random.default_rng([seed, 0]))
    >>> bool((central.values == release.values).all())
    True
    """

    def __init__(self, description: Mapping[str, Any], frame: Any, seed: int, cells: Any) -> None:
        own = Frame.of(frame)
        self.mechanism = _adding_to_cells(Mechanism.from_description(description, own))
        given: Any = seed
        if isinstance(given, bool) or not isinstance(given, int):
            raise TypeError(f"seed must be an integer, got {type(given).__name__}")  # never the value: it is a secret
        if given < 0 or given.bit_length() < _SEED_BITS:
            raise ValueError(
                f"seed must be a positive integer of at least {_SEED_BITS} bits, because smaller ones can be found by trying; "
                "make one with secrets.randbits(128)"
            )
        self._seed = given
        listed = list(cells) if isinstance(cells, list) else [cells]
        self._positions = [_position(own, cell) for cell in listed]
        if not listed or len(set(self._positions)) < len(listed):
            raise ValueError(f"cells must name one or more different cells, got {_validate.shown(listed)}")
        self._used: set[int] = set()

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells that this agent holds."""
        return tuple(self.mechanism.frame.exact_cell_name(position) for position in self._positions)

    def privatize(self, counts: Any, round_number: int) -> Piece:
        """Add the noise of this agent's cells to their counts.

        Parameters
        ----------
        counts : int or array_like of int
            The count of the cell; for a block, one count a cell in the order of `cells`.
        round_number : int
            Number of the release, 0 or greater, the same for all agents, and never used again with this seed: from two
            releases with the same noise everybody sees by how much each count changed. An agent refuses a number that it
            has used itself; across processes and restarts you have to see to it.

        Returns
        -------
        Piece
            To be published; send the same piece again if it gets lost.

        Raises
        ------
        TypeError, ValueError
            If a count or the number of the round is not valid, or the round was used before.
        """
        number = _validate.nonnegative_integer(round_number, "round_number")
        if number in self._used:
            raise ValueError(
                f"round_number {number} was used before: the same noise on other counts would show by how much they changed; "
                "take a new number, or send the same piece again"
            )
        own = _validate.integer_array(
            np.atleast_1d(np.asarray(counts)),
            "counts",
            lambda i: self.cells[i] if i < len(self.cells) else str(i),
            minimum=0,
            confidential=True,
        )
        if own.shape != (len(self.cells),):
            raise ValueError(
                f"counts must be one count for each of {_validate.shown(self.cells)}, got shape {own.shape}"
            )
        noise = self.mechanism.noise(np.random.default_rng([self._seed, number]), 1)[0]
        digest = mechanism_digest(self.mechanism)
        names = self.cells
        noisy = add_noise(own, noise.reshape(-1)[self._positions], self.mechanism._noise_step, names.__getitem__)
        self._used.add(number)
        return Piece(
            self.cells,
            tuple(noisy.tolist()),
            number,
            digest,
            own_versions(),
            noise_check(self._seed, number, digest, noise),
        )

    def __reduce_ex__(self, protocol: Any) -> Never:
        # All of pickle, cloudpickle, copy.copy and copy.deepcopy come here, and Dask and multiprocessing with them.
        raise TypeError(
            "an Agent cannot be pickled or copied: it holds the common seed, and whoever has that can subtract the noise of every "
            "release; a copy would also not know which rounds were used. Make the agent where it runs, from the description, "
            "the labels, the seed and its cells"
        )

    def __repr__(self) -> str:
        return f"<Agent of {_validate.shown(self.cells)} for {self.mechanism.name}>"


def assemble(mechanism: Mechanism, pieces: Iterable[Piece]) -> Release:
    """Put the pieces of all agents together to a release.

    The noise changes no invariant, so that the exact parts follow from the noisy values. They are computed in exact
    arithmetic; that they come out as whole numbers shows once more that the noise of all the pieces fits together.

    Parameters
    ----------
    mechanism : Mechanism
        Of the description that the agents have.
    pieces : iterable of Piece
        Of all agents, in any order.

    Returns
    -------
    Release
        With the values of ``mechanism.release(table, rng=np.random.default_rng([seed, round_number]))``. It is not marked as
        simulated, because the seed is a secret; the guarantee states against whom it does not protect.

    Raises
    ------
    TypeError
        If something is not a Piece.
    ValueError
        If cells are missing, unknown or there twice, pieces are of another mechanism, round, version or seed, or were
        changed so that an exact answer is no count. The message names the cells.
    """
    _adding_to_cells(mechanism)
    listed = list(pieces)
    for piece in listed:
        if not isinstance(piece, Piece):
            raise TypeError(f"pieces must hold what Agent.privatize returns, got {type(piece).__name__}")
    if not listed:
        raise ValueError("pieces must hold at least one piece, got none")
    check_alike(listed, mechanism)
    frame = mechanism.frame
    noisy = values_by_cell(listed, frame)
    # The unit of the noise, which values too large for float64 are measured against.
    grid = mechanism.grid if isinstance(mechanism, SubspaceMechanism) else 1.0
    parts = [Query(frame, (part,)) for part in mechanism.invariants.query.parts]
    exact = tuple(Exact(query, _exact_answers(query, noisy, grid)) for query in parts)
    fiber = Fiber.of(exact, frame)
    # Without the sentence on the system's entropy: the noise is not from there.
    stated = mechanism._for_one_person(mechanism._guarantee("auto"))
    guarantee = replace(
        stated,
        caveats=(*stated.caveats, Fixed("seed of the agents")),
        determined_cells=fiber.determined_names(),
        determined_complete=fiber.determined_is_complete,
    )
    return Release(
        frame,
        (Measured(mechanism.released_query, noisy, mechanism.law, mechanism.invariants),),
        exact,
        mechanism=mechanism.describe(),
        guarantee=guarantee,
        simulated=False,
    )


def _adding_to_cells(mechanism: Any) -> AdditiveMechanism:
    """The mechanism, if it adds noise to the cells and to nothing else."""
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a mechanism of this package, got {type(mechanism).__name__}")
    if not isinstance(mechanism, AdditiveMechanism):
        raise ValueError(
            f"agents add the noise of their own cells, but the mechanism {mechanism.name!r} adds none that is independent of the "
            "counts; take one without bounds"
        )
    if not mechanism.released_query.is_identity:
        raise ValueError(
            f"agents hold single cells, so the noise must be on the cells; the mechanism {mechanism.name!r} adds it to other "
            f"answers: {_validate.shown(mechanism.released_query.names, 3)}"
        )
    return mechanism


def _position(frame: Frame, cell: Any) -> int:
    """Where a cell stands, given its name or its labels."""
    labels = cell if isinstance(cell, tuple) else (cell,)
    if len(labels) == len(frame.dims):
        places = [own.index(label) for own, label in zip(frame.labels, labels, strict=True) if label in own]
        if len(places) == len(labels):
            return int(np.ravel_multi_index(places, frame.shape))
    names = frame.cell_names()
    if cell not in names:
        raise ValueError(f"cells names {cell!r}, which is no cell of the table; cells are {_validate.shown(names)}")
    return names.index(cell)


def _exact_answers(query: Query, noisy: npt.NDArray[Any], grid: float) -> npt.NDArray[np.int64]:
    """The answers of a query in exact arithmetic; an error where one is not a whole number."""
    # Counts and noise are multiples of the grid, and so are their sums, unless a sum is so large that float64 has no number for it:
    # then it was rounded, by half a unit in its last place at most.
    values = noisy.reshape(-1).tolist()
    ratios = [value.as_integer_ratio() for value in values]
    unit = max(below for _, below in ratios)  # denominators are powers of two
    units = [above * (unit // below) for above, below in ratios]
    rounded = [math.ulp(value) / 2 if math.ulp(value) > grid else 0.0 for value in values]
    totals, slack = [0] * query.rows, [0.0] * query.rows
    entries = query.matrix.tocoo()
    for row, cell, entry in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
        totals[row] += entry * units[cell]
        slack[row] += abs(entry) * rounded[cell]
    answers = [(2 * total + unit) // (2 * unit) for total in totals]  # the nearest whole numbers
    for row, (total, answer) in enumerate(zip(totals, answers, strict=True)):
        if slack[row] >= 0.25:
            raise ValueError(
                f"the noisy values of {query.answer_name(row)} are too large for an exact sum; counts must be smaller"
            )
        if abs(total - answer * unit) > slack[row] * unit:
            raise ValueError(
                f"pieces do not fit together: {query.answer_name(row)} comes out as {total / unit!r}, no whole number; "
                "some agent used another seed, version or round, or a value was changed"
            )
    return np.array(answers, dtype=np.int64).reshape(query.shape)

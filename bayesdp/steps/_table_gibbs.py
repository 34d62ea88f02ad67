"""The common part of the step methods that move tables of whole numbers by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from pymc.initial_point import PointType
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import dataclass_state

from bayesdp.steps._stop import stop_request

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

LEAST_MOVES = 100
"""Fewest exact moves of a draw, where nothing but the kernel's terms depends on the table: fewer cost more overhead than work."""


class KernelTable(Protocol):
    """One variable, and the kernel that moves it."""

    name: str

    @property
    def generator(self) -> npt.NDArray[np.uint64]:
        """State of the kernel's generator, in place."""

    @property
    def value(self) -> Ints:
        """The table as it stands, a copy."""

    @property
    def sums(self) -> Floats:
        """Sums that the kernel updates by differences; adding them up anew would differ in the last digits."""

    @sums.setter
    def sums(self, kept: Floats) -> None:
        """Sums to be restored at the next step, if table and noise are those that they were computed from."""

    def begin(self, point: PointType, rng: np.random.Generator) -> None:
        """Start a chain at a table that the model allows."""

    def step(self, point: PointType, sweeps: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Move; return the table, the share of moves that changed it, and the share of proposals accepted."""

    def learn(self) -> None:
        """Note the table, while tuning."""

    def settle(self) -> None:
        """End the tuning."""


@dataclass_state
class TableGibbsState(StepMethodState):
    """What changes while sampling: whether the chain has begun, the generators of the kernels, and their running sums."""

    fresh: bool
    generators: list[npt.NDArray[np.uint64]]
    sums: list[Floats]
    sweeps: int = field(metadata={"frozen": True})


class TableGibbs(BlockedStep):
    """Moves every table in turn; its first two statistics, in the order of their names, are means over the tables."""

    # They are the share of moves that changed a table, and the share of proposals that were accepted.
    # A chain begins at its first step, when the other variables have their values; `generators` belongs to the sampling state,
    # which PyMC resets between chains.

    default_blocked = True
    _state_class = TableGibbsState

    rng: np.random.Generator
    sweeps: int
    fresh: bool
    tuning = False
    tables: Sequence[KernelTable]

    @property
    def generators(self) -> list[npt.NDArray[np.uint64]]:
        """States of the generators of the kernels."""
        return [table.generator.copy() for table in self.tables]

    @generators.setter
    def generators(self, states: list[npt.NDArray[np.uint64]]) -> None:
        for table, state in zip(self.tables, states, strict=True):
            table.generator[:] = state

    @property
    def sums(self) -> list[Floats]:
        """Running sums of the kernels."""
        return [table.sums for table in self.tables]

    @sums.setter
    def sums(self, kept: list[Floats]) -> None:
        for table, sums in zip(self.tables, kept, strict=True):
            table.sums = sums

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Take the generator of a chain; its first step moves the table to a feasible start.

        Raises
        ------
        KeyboardInterrupt
            If `bayesdp.sample` was asked to stop: a chain that has not begun does not begin.
        """
        stop_request.obey()
        super().setup_chain(rng, tune, draws)
        self.fresh, self.tuning = True, tune > 0

    def stop_tuning(self) -> None:
        """End the tuning: from now on the moves do not depend on tables that were drawn."""
        super().stop_tuning()
        self.tuning = False
        for table in self.tables:
            table.settle()

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Move every table; the point that is passed in is left as it is."""
        new, tables = point.copy(), self.tables
        if self.fresh:
            for table in tables:
                table.begin(new, self.rng)
                new[table.name] = table.value
            self.fresh = False
        shares = np.zeros(2)
        for table in tables:
            new[table.name], *found = table.step(new, self.sweeps, self.rng)
            shares += np.array(found) / len(tables)
            if self.tuning:
                table.learn()
        names = list(self.stats_dtypes_shapes)[: len(shares)]
        return new, [dict(zip(names, shares.tolist(), strict=True))]

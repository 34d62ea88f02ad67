"""What the check for missed modes found, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesdp._text import printable

ENOUGH = 40
"""Effective draws of a chain for the mean of a cell, from which on the check can tell modes that are a few deviations apart."""


@dataclass(frozen=True)
class Disagreement:
    """A group of tied cells of which chains tell different things.

    Attributes
    ----------
    leaf : str
        Label of the leaf.
    cells : tuple of str
        Labels of its cells in the group.
    means : tuple of tuples of float
        Mean of each cell, chain by chain.
    apart : float
        Largest difference between two chains' means of a cell.
    errors : float
        The largest such difference in units of its Monte Carlo standard error; infinite where two chains do not move at all.
    """

    leaf: str
    cells: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    apart: float
    errors: float

    def __str__(self) -> str:
        # The cell that differs most, in the chains that differ most.
        worst = max(range(len(self.cells)), key=lambda i: max(self.means[i]) - min(self.means[i]))
        low, high = min(self.means[worst]), max(self.means[worst])
        return (
            f"{printable(self.leaf)}, {printable(self.cells[worst])}: mean {low:.3g} in one chain and {high:.3g} in another, "
            f"{self.errors:.1f} standard errors apart"
        )


@dataclass(frozen=True)
class MissedModes:
    """What the check found.

    Attributes
    ----------
    chains : int
    tested : int
        Groups in which chains began apart and of which something can be said.
    alike : int
        Groups in which all chains began with the same counts, so that this check says nothing: their sum was 0, as a rule, or they are
        a single cell that was 0 in none.
    short : int
        Groups in which chains began apart and do not disagree, but have fewer than `ENOUGH` effective draws for the mean of a cell.
    disagreeing : int
    groups : tuple of Disagreement
        The worst of them, at most a hundred.
    rate : float
        Share of runs in which chains that agree are said to disagree somewhere, at most: as far as their effective sample sizes are
        right. Those of chains that were not run for long compared with how long they stay in a place are too large.
    several : bool
        Whether the posterior may have several modes (`bayesdp.hierarchies.modes.several_modes`).
    """

    chains: int
    tested: int
    alike: int
    short: int
    disagreeing: int
    groups: tuple[Disagreement, ...]
    rate: float
    several: bool = True

    @property
    def verdict(self) -> str:
        """``"agree"``, ``"none found"``, ``"disagree"``, or ``"not judged"``.

        Chains agree where there cannot be several modes, and all groups were compared from different starts. Elsewhere a mode that no
        chain began near may be missed, and what can be said is that none was found.
        """
        if self.disagreeing:
            return "disagree"
        if self.chains < 2 or self.short or not self.tested:
            return "not judged"
        return "none found" if self.several or self.alike else "agree"

    @property
    def message(self) -> str:
        """The result in words."""
        if self.chains < 2:
            return "The check for missed modes needs two chains or more."
        if self.disagreeing:
            some = "; ".join(str(group) for group in self.groups[:3])
            more = self.disagreeing - min(len(self.groups), 3)
            rest = f"; and {more} more" if more else ""
            return (
                f"Chains disagree in {self.disagreeing:,} group{'s' * (self.disagreeing > 1)} of tied cells: {some}{rest}. "
                "At least one of the chains has missed a mode, or has not been run for long enough. (Of chains that agree this is "
                f"said in {self.rate:.2%} of runs at most, if their effective sample sizes are right; where chains stayed in one "
                "place for much of the run those are too large, and it is said more often.)"
            )
        if not self.tested and not self.short:
            return "The check for missed modes says nothing: in no group of tied cells did chains begin with different counts."
        told = [
            f"{self.chains} chains began at random tables far apart, with other counts in {self.tested + self.short:,} groups of tied "
            "cells, and no group was found in which they disagree"
        ]
        if self.short:
            told.append(
                f"in {self.short:,} of them there are fewer than {ENOUGH} effective draws a chain, too few to tell"
            )
        if self.alike:
            told.append(f"in {self.alike:,} others they began with the same counts, which says nothing")
        result = {
            "agree": "chains agree, and the posterior has a single mode",
            "none found": "none found, which does not exclude any",
        }.get(self.verdict, "not judged")
        return f"Check for missed modes: {result}; {'; '.join(told)}."

    @property
    def attributes(self) -> dict[str, Any]:
        """For the attributes of a result."""
        return {
            "missed_modes": self.verdict,
            "missed_modes_message": self.message,
            "missed_modes_tested": self.tested,
            "missed_modes_alike": self.alike,
            "missed_modes_short": self.short,
            "missed_modes_disagreeing": self.disagreeing,
            "missed_modes_rate": self.rate,
        }

"""The step method of confidential counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.initial_point import PointType
from pymc.step_methods.compound import Competence
from pymc.util import get_random_generator

from bayesdp._validate import positive_integer
from bayesdp.distributions.confidential_counts import ConfidentialCountsRV
from bayesdp.steps._assigned import chosen_values
from bayesdp.steps._table_gibbs import TableGibbs
from bayesdp.steps.count_chains import LineChain
from bayesdp.steps.slow_forms import warn_slow_rates
from bayesdp.steps.table import CountTable

ENDS = "fiber_ends_"
"""Beginning of the name of the statistic by which a hierarchy tells where its chains began; `annotate` reads it, and takes it out."""


class FiberGibbs(TableGibbs):
    """Moves confidential counts inside their fiber; PyMC assigns it to every `ConfidentialCounts` by itself.

    Each move draws a random direction that changes no exact answer, and takes a step along it from the exact conditional
    law of the prior and the noise. Whatever else in the model depends on the counts (a second likelihood, a Potential, a
    base without fast steps) is then accounted for by accepting or rejecting on its compiled log-density. Options go
    through ``pm.sample(fiber_gibbs={"sweeps": 4})``.

    Parameters
    ----------
    vars : list of variables
        The counts; all of the model if left out. Several tables in one model share one step.
    sweeps : int
        Moves a draw, in units of the degrees of freedom of the table (at least 100 moves where all are exact). Where the counts
        are a hierarchy (`bayesdp.hierarchies.structure`; tables of 100 cells or more with normal noise, on which nothing else in
        the model depends), whole sweeps, in which every free cell takes part; what cells are moved against is chosen while
        tuning.
    model, initial_point, compile_kwargs, blocked, rng
        Supplied by PyMC.

    Attributes
    ----------
    connectivity : dict
        For each variable, what is known of its moves: ``proved`` says whether they connect every fiber of these
        invariants (a Markov basis); where they do not, random sums of moves reach every table with positive probability.
    shares : dict
        For each variable, what its directions keep, by the dimensions of the sums (``"exact answers"``: nothing else), and the
        share of them that do, as learnt while tuning; empty for a hierarchy.

    Raises
    ------
    ValueError
        If a fiber is empty or a posterior improper.

    Warns
    -----
    UserWarning
        Where counts have a gamma rate for each cell that could be integrated out, as `bayesdp.sample` does.

    Notes
    -----
    A chain whose start is off the fiber is moved onto it at its first step, before anything is recorded, and scattered,
    so that chains begin apart. Chains of a hierarchy begin at random tables near the linear estimate (`bayesdp.hierarchies.start`),
    in independent pairs of opposite ones, so that `bayesdp.inference.diagnose` can look for missed modes; there is no such check
    for other tables. Every step stays on the fiber. Other step methods refuse the counts when they are made.

    Where laws forbid answers (bounded deviations, gaps), tables may be possible that no direction leads to. Tables of up to 128
    degrees of freedom are moved through softer walls besides, with as many moves again, and the table that this ends at is
    accepted or rejected (tempered transitions, `bayesdp.fibers.chain`); not where something else in the model depends on the counts,
    nor where answers share a key.

    Rows of perturbation tables that are not known (`bayesdp.distributions.PerturbationRows`) are drawn with the counts, five times a
    sweep, where nothing else depends on them (`bayesdp.steps.learnt_laws` says what that brings).

    Some directions keep noisy answers besides that are precise beside the others: with less than a quarter of their
    variance, and of the spread of a cell; all of these, and of three or more that nest or cross those that differences along some
    dimensions leave alone (two cells change no sum over a dimension in which they differ). How often each kind is
    taken is learnt while tuning, and frozen. Where scales or priors are variables of the model, their values at the initial
    point decide, once and for all, so that the steps leave the posterior invariant whatever values they take later
    (`bayesdp.fibers.target`). Where these are sums that nest or cross, and the table is not moved as a hierarchy, half of all moves
    are drawn by looking at which cells are not 0, and accepted or rejected so that the posterior stays
    (`bayesdp.fibers.kernel.occupied_moves`); not where something else in the model depends on the counts. Tables of up to 1,000 cells
    are not moved as hierarchies where such sums overlap in three ways, as three two-way margins of a three-way table do, and no
    scale is a variable of the model.

    Examples
    --------
    >>> from pymc.step_methods import STEP_METHODS
    >>> FiberGibbs in STEP_METHODS
    True
    """

    name = "fiber_gibbs"
    stats_dtypes_shapes: dict[str, tuple[type, list[int]]] = {  # noqa: RUF012  # PyMC's, of class and instance
        "fiber_changed": (np.float64, []),
        "fiber_accepted": (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,  # the name is PyMC's
        *,
        sweeps: int = 2,
        model: pm.Model | None = None,
        initial_point: PointType | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
        rng: Any = None,
    ) -> None:
        model = pm.modelcontext(model)
        chosen = chosen_values(model, vars, _is_counts, "FiberGibbs", "ConfidentialCounts")
        warn_slow_rates(model, chosen)
        self.vars = chosen
        self.sweeps = positive_integer(sweeps, "sweeps")
        self.rng = get_random_generator(rng)
        options = compile_kwargs or {}
        self.tables: list[CountTable] = [CountTable(model, value, self.rng, options, initial_point) for value in chosen]
        self.fresh = True
        ends: dict[str, tuple[type, list[int]]] = {
            f"{ENDS}{table.name}": (np.int64, []) for table in self.tables if table.sweeps is not None
        }
        if ends:
            self.stats_dtypes_shapes = {**type(self).stats_dtypes_shapes, **ends}  # PyMC looks at those of the instance
            self.stats_dtypes = [{name: dtype for name, (dtype, _) in self.stats_dtypes_shapes.items()}]

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        """Move every table; the point that is passed in is left as it is."""
        new, [stats] = super().step(point)
        told = {f"{ENDS}{table.name}": table.sweeps.tell() for table in self.tables if table.sweeps is not None}
        return new, [stats | told]

    @property
    def connectivity(self) -> dict[str, dict[str, Any]]:
        """What is known of the moves of each variable: ``proved`` and ``claim``."""
        return {t.name: {"proved": t.proved, "claim": t.claim} for t in self.tables}

    @property
    def shares(self) -> dict[str, dict[str, float]]:
        """What the directions of each variable keep, and the share of them that do."""
        found: dict[str, dict[str, float]] = {}
        for table in self.tables:
            own = found[table.name] = {}
            chain = table.chain
            if isinstance(chain, LineChain):
                for name, share in zip(table.target.moves.names, chain.shares.tolist(), strict=True):
                    own[name] = own.get(name, 0.0) + share
        return found

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Claim counts, and nothing else."""
        return Competence.IDEAL if _is_counts(var) else Competence.INCOMPATIBLE


def _is_counts(var: Any) -> bool:
    return var.owner is not None and isinstance(var.owner.op, ConfidentialCountsRV)

"""How much memory a run will take, stated before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from bayesdp.hierarchies.structure import Structure
from bayesdp.inference.memory import available_memory
from bayesdp.streaming.cells import bytes_per_cell

_START = 20
"""Tables of real numbers that a start needs: estimates at all levels, and limits of sums with their remainders."""

_LIMITS = 12
"""Such tables that working out which cells are determined needs, where sums have limits or are exact."""

_BLOCK = 256
"""Nodes whose residuals are worked out at a time, see `Tree.tables_by_level`."""


@dataclass(frozen=True)
class Plan:
    """The numbers of a run."""

    draws: int
    tune: int
    chains: int
    cores: int
    thin: int
    counts: int  # the largest count whose probability is kept
    bins: int  # with `batches`: see `bayesdp.streaming.cells.Kept`
    batches: int
    quantiles: tuple[float, ...]

    @property
    def of_draws(self) -> dict[str, int]:
        """Those that the draws, and what is kept of them, depend on."""
        return {name: own for name, own in vars(self).items() if name not in ("cores", "quantiles")}


@dataclass(frozen=True)
class Budget:
    """About how many bytes a run takes, beside the release."""

    # Some 100 MB that do not grow with it come on top in a process that has not fitted anything yet: libraries and compiled code.

    kernel: int  # tables, residuals and lists of the chains that run at the same time
    start: int  # work space of one start: chains start one after another
    # What all chains keep of the cells, from the first draw to the last. Neither this nor `kernel` grows with the number of draws.
    cells: int
    record: int  # draws of queries and hyperparameters
    result: int  # summaries of the cells in the result, and diagnostics; made when the chains are gone
    pooled: int  # summaries of the cells that can move, made while what chains keep is there still

    @classmethod
    def of(cls, structure: Structure, plan: Plan, recorded: int) -> Budget:
        """Of a run that records so many numbers a draw."""
        leaves, places = structure.free.shape
        size, free = leaves * places, int(structure.free.sum())
        answers = structure.nodes * int(structure.query_start[-1])
        # Counts, two arrays of the prior, and sums while tuning in half of the room; lists of free cells and groups; residuals with
        # precisions, their starting values and where each answer is. And what working residuals out anew needs.
        own = 4 * 7 * size + 8 * (3 * free + 4 * answers)
        own += 8 * min(_BLOCK, leaves) * (places + 2 * int(structure.query_start[-1]))
        running = min(plan.cores, plan.chains)
        kept = bytes_per_cell(plan.draws, plan.counts, plan.bins, plan.batches)
        shares = 4 * (plan.counts + 1)
        # While they are made, wide; in the result quantiles and diagnostics take half.
        wide = 8 * (5 + 6 * plan.chains + len(plan.quantiles)) + shares
        own_result = 8 * (2 + 2 * plan.chains) + 4 * (3 + len(plan.quantiles)) + shares
        diagnosed = wide * free + 8 * (8 + 11 * plan.chains) * free
        return cls(
            kernel=running * own,
            start=8 * _START * size,
            cells=plan.chains * free * (kept + 8) + 8 * free,  # with the starts
            record=3 * 8 * plan.chains * plan.draws * recorded,  # kept, put together, and diagnosed
            result=own_result * size + max(diagnosed, 8 * _LIMITS * size),
            pooled=wide * free,
        )

    @property
    def total(self) -> int:
        """The most at any time: when chains start, when they draw, and when their draws are summarised."""
        phases = (self.kernel + self.start, self.kernel + self.cells, self.cells + self.pooled, self.result)
        return max(phases) + self.record

    def check(self, plan: Plan) -> None:
        """Refuse a run that does not fit."""
        # MemoryError says how much is for what, and what to change.
        free = available_memory()
        if free is None or self.total <= free:
            return
        raise MemoryError(
            f"fit_hierarchy needs about {_in_words(self.total)} of memory, and {_in_words(free)} are available: "
            f"{_in_words(self.kernel)} for the tables of {min(plan.cores, plan.chains)} chains that run at the same time (fewer "
            f"`cores`) and {_in_words(self.start)} for a start, {_in_words(self.cells)} for what {plan.chains} chains keep of the "
            f"cells (fewer `chains`, `bins`, `batches` or `counts`), {_in_words(self.record)} for the draws of what is recorded "
            "(fewer `draws`, each after more sweeps with a larger `thin`, or fewer answers in `record`), and "
            f"{_in_words(self.result)} for the result; not all of these at the same time. A release of a part of the leaves needs "
            "less of all"
        )


def _in_words(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"

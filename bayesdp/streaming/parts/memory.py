"""Whether a run of parts fits: on each worker, and where it is driven from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure
from bayesdp.inference.memory import available_memory
from bayesdp.queries import Query
from bayesdp.streaming.budget import Budget, Plan


@dataclass(frozen=True)
class PartMemory:
    """About how many bytes a part takes."""

    work: int  # on a worker while it works on the part: a start, a phase of one chain, or the summaries of all chains
    kept: int  # of which a process that has worked on the part keeps so much
    draws: int  # draws of what is recorded of it, where the run is driven from
    result: int  # its summaries in the result

    @classmethod
    def of(cls, structure: Structure, plan: Plan, prior: CellPrior, queries: dict[str, Query]) -> PartMemory:
        """Of a part with so many chains and draws."""
        hyper = prior.start(structure, np.zeros(structure.free.shape, dtype=np.int64))
        recorded = sum(query.rows for query in queries.values()) + sum(
            prod(np.shape(hyper[own])) for own in prior.names
        )
        budget = Budget.of(structure, plan, recorded)
        summary = 8 * (2 + 2 * plan.chains) + 4 * (3 + len(plan.quantiles)) + 4 * (plan.counts + 1)
        return cls(budget.total, budget.kernel, budget.record, summary * structure.free.size)


def check_worker(need: PartMemory) -> None:
    """Refuse a part that this process has no room for."""
    # MemoryError says how much the part needs, and what to change.
    free = available_memory()
    if free is not None and need.work > free:
        raise MemoryError(
            f"fit_parts: a process that works on this part needs about {_in_words(need.work)} of memory, and {_in_words(free)} are "
            "available to it. Cut the release into smaller parts, give each worker more memory, or keep less of the cells (fewer "
            "`chains`, `bins`, `batches` or `counts`) and of draws (`record_parts`, a larger `thin`)"
        )


def check_driver(parts: Sequence[PartMemory], above: int, *, alone: bool) -> None:
    """Refuse a run whose results this process has no room for."""
    # `above`: bytes of what is recorded above the parts. `alone`: whether this process does the work of all parts, too. MemoryError
    # says how much is for what, and what to change.
    free = available_memory()
    draws, result = sum(own.draws for own in parts) + above, sum(own.result for own in parts)
    work = sum(own.kept for own in parts) + max(own.work for own in parts) if alone else 0
    if free is None or draws + result + work <= free:
        return
    raise MemoryError(
        f"fit_parts needs about {_in_words(draws + result + work)} of memory in the process that drives it, and {_in_words(free)} are "
        f"available: {_in_words(result)} for the summaries of the cells of {len(parts)} parts (fewer `counts` or `quantiles`), "
        f"{_in_words(draws)} for draws of what is recorded (fewer answers in `record` and `record_parts`, fewer `draws` with a larger "
        f"`thin`)"
        + (f", {_in_words(work)} for the work on the parts (none where a `client` does that)" if alone else "")
        + ". The compressed states of all parts come on top"
    )


def _in_words(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"

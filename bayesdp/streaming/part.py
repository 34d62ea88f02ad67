"""A part of a hierarchy, or all of it: what is published of it, what that makes of its table, and how much memory that takes.

A part is sent as a `PartSpec`, of which a process works out a `PartContext` once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._validate import instance, shown
from bayesdp.fibers import Target
from bayesdp.frames import Frame
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.released import target_of
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.inference.memory import in_words, refuse_if_short
from bayesdp.inference.runs.fingerprint import digest
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.streaming.above import Dims, PartTerm, cell_dims, known_sums, own_errors
from bayesdp.streaming.cells import Recorder, bytes_per_cell, named_queries
from bayesdp.streaming.perturbed import LineTree, WalledTree, has_walls, is_perturbed, perturbed_target

type Kernel = TreeChain | LineTree | WalledTree


@dataclass(frozen=True)
class Plan:
    """The numbers of a run."""

    draws: int
    tune: int
    chains: int
    cores: int
    thin: int
    counts: int  # the largest count whose probability is kept
    bins: int  # with `batches`: see `bayesdp.streaming.cells.CellSummary`
    batches: int
    quantiles: tuple[float, ...]

    @property
    def of_sampler(self) -> dict[str, int]:
        """Those that a result states."""
        return {"draws": self.draws, "tune": self.tune, "chains": self.chains, "thin": self.thin}

    @property
    def of_draws(self) -> dict[str, int]:
        """Those that the draws, and what is kept of them, depend on."""
        return {name: own for name, own in vars(self).items() if name not in ("cores", "quantiles")}


@dataclass(frozen=True, eq=False)
class PartSpec:
    """One part, as it is sent to workers."""

    source: Release | Callable[[], Release]  # what is published of it, or a function that reads that
    prior: CellPrior
    plan: Plan
    above: tuple[PartTerm, ...] = ()  # noisy queries above
    known: tuple[tuple[str, ...], ...] = ()  # for each exact query above, what it keeps of the cells
    record: Callable[[Frame], Any] | None = None  # the queries whose draws are kept, by the frame of the part
    leaves: str | None = None  # the dimension of the leaves
    cells: tuple[str, ...] | None = None  # the other dimensions, where they are known


@dataclass(eq=False)
class Watch:
    """What the driver and the chains in threads of its process tell each other."""

    stopped: bool = False  # whether chains shall end between two sweeps
    done: dict[tuple[int, int], int] = field(default_factory=dict)  # by chain and part: sweeps of the tuning and draws


@dataclass(eq=False)
class PartContext:
    """A part with what takes long to work out."""

    spec: PartSpec
    watch: Watch = field(default_factory=Watch)
    groups: tuple[Ints, Ints] | None = None  # of cells that its own answers tie, and where those of each leaf begin
    missed: tuple[str, ...] = ()  # precise queries that no move keeps all at once; see `TreeChain.missed`
    idle: list[Kernel] = field(default_factory=list)

    @cached_property
    def release(self) -> Release:
        """What is published of it."""
        source = self.spec.source
        release = source if isinstance(source, Release) else source()
        instance(release, Release, "the function of a part must return a bayesdp.Release")
        return release

    @cached_property
    def _alone(self) -> tuple[Target, Structure | None]:
        family = self.spec.prior.family
        if is_perturbed(self.release) and not self.spec.above:
            return perturbed_target(self.release, family, self.spec.leaves)
        return target_of(self.release, family), None

    @property
    def part_target(self) -> Target:
        """The target of its tables, by its answers alone."""
        return self._alone[0]

    @cached_property
    def target(self) -> Target:
        """With the sums above."""
        alone = self.part_target
        if not self.spec.above:
            return alone
        return Target(
            alone.fiber, (*alone.terms, *(own.on(self.release.frame) for own in self.spec.above)), alone.family
        )

    @cached_property
    def structure(self) -> Structure:
        """The same in its hierarchy."""
        leaves, frame = self.spec.leaves, self.release.frame
        if leaves is None and self.spec.cells is not None:
            others = [dim for dim in frame.dims if dim not in self.spec.cells]
            if len(others) != 1:
                raise ValueError(
                    f"a part needs one dimension besides those of the cells ({shown(self.spec.cells)}), which holds its leaves; it "
                    f"has {shown(frame.dims)}"
                )
            (leaves,) = others
        if leaves is not None and leaves not in frame.dims:
            raise ValueError(f"leaves must be a dimension of the table ({shown(frame.dims)}), got {leaves!r}")
        return self._alone[1] or structure_of(self.target, leaves)

    @cached_property
    def where(self) -> Ints:
        """The cells that can move, in leaves by cells."""
        return np.flatnonzero(self.structure.free.reshape(-1)).astype(np.int64)

    @cached_property
    def place(self) -> Ints:
        """Where they are in the frame, flat."""
        every = np.asarray(self.structure.leaves_by_cells(np.arange(self.structure.frame.size)), dtype=np.int64)
        return every.reshape(-1)[self.where]

    @cached_property
    def queries(self) -> dict[str, Query]:
        """Those whose draws are kept."""
        record = () if self.spec.record is None else self.spec.record(self.release.frame)
        return named_queries(record, self.release.frame, self.spec.prior.names)

    @property
    def budget(self) -> Budget:
        """The memory that it takes."""
        structure, prior = self.structure, self.spec.prior
        # Numbers of a draw: hyperparameters, and answers of queries.
        hyper = prior.start(structure, np.zeros(structure.free.shape, dtype=np.int64))
        numbers = sum(np.size(hyper[own]) for own in prior.names) + sum(own.rows for own in self.queries.values())
        return Budget.of(structure, self.spec.plan, numbers)

    @cached_property
    def recorders(self) -> dict[str, Recorder]:
        """What works out their answers."""
        return {name: Recorder(query, self.structure) for name, query in self.queries.items()}

    def new_kernel(self, rng: np.random.Generator) -> Kernel:
        """A kernel of the part by its answers alone."""
        target = self.part_target
        perturbed = any(term.windows is not None for term in target.terms)
        kind = TreeChain if not perturbed else WalledTree if has_walls(target, self.structure) else LineTree
        kernel = kind(target, self.structure, rng)
        self.groups, self.missed = kernel.groups, kernel.missed
        return kernel

    def kernel(self, values: Sequence[Floats], scales: Sequence[Floats]) -> Kernel:
        """A kernel that no other thread uses, to put a chain into, with values and scales of the sums above, if there are any yet."""
        try:
            kernel = self.idle.pop()  # one step for the interpreter: two threads do not get the same
        except IndexError:
            rng = np.random.default_rng(0)
            kernel = TreeChain(self.target, self.structure, rng) if self.spec.above else self.new_kernel(rng)
        if self.spec.above and isinstance(kernel, TreeChain):
            terms = self.part_target.terms
            wide = [np.full(len(term.measured), np.inf) for term in self.spec.above]  # says nothing
            scales, values = scales or wide, values or [np.zeros_like(own) for own in wide]
            kernel.set_scales([*(term.scale for term in terms), *scales], [*(term.values for term in terms), *values])
        return kernel


@dataclass(frozen=True, eq=False)
class PartInfo:
    """What the driver must know of a part."""

    dims: Dims  # of its cells
    # For each noisy query above, standard errors of the part's own linear estimates of its sums; NaN where there are none.
    errors: list[Floats]
    # For each exact query above, whether the exact answers of the part determine its sums.
    known: list[Mask]
    fixed: list[Mask]  # the same for each noisy query above
    release: str  # a digest of what is published
    law: str | None  # why that is not compatible with the stated law
    recorded: dict[str, str]  # digests of the queries whose draws are kept, by name
    memory: Budget


def info(context: PartContext, memory_check: bool) -> PartInfo:  # tasks have their arguments by place
    """Check a part, and say what the driver must know."""
    structure, spec = context.structure, context.spec
    if memory_check:
        check_worker(context.budget)
    if not context.queries and spec.record is not None:
        raise ValueError("record_parts gave no query")
    return PartInfo(
        dims=cell_dims(context.release.frame, structure.axis),
        errors=own_errors(context.release, [term.keep for term in spec.above], structure),
        known=[known_sums(structure, keep) for keep in spec.known],
        fixed=[known_sums(structure, term.keep) for term in spec.above],
        release=digest(context.release),
        law=context.release.law_check.warning,
        recorded={name: digest(query) for name, query in context.queries.items()},
        memory=context.budget,
    )


_START = 20
"""Tables of real numbers that a start needs: estimates at all levels, and limits of sums with their remainders."""

_LIMITS = 12
"""Such tables that working out which cells are determined needs, where sums have limits or are exact."""

_BLOCK = 256
"""Nodes whose residuals are worked out at a time, see `Tree.tables_by_level`."""


@dataclass(frozen=True)
class Budget:
    """About how many bytes a run takes, beside the release and some 100 MB of libraries and compiled code."""

    kernel: int  # tables, residuals and lists of the chains that run at the same time
    start: int  # work space of one start: chains start one after another
    # What all chains keep of the cells, from the first draw to the last. Neither this nor `kernel` grows with the number of draws.
    cells: int
    record: int  # draws of queries and hyperparameters
    result: int  # summaries of the cells in the result, and diagnostics; made when the chains are gone
    pooled: int  # summaries of the cells that can move, made while what chains keep is there still
    summary: int  # what is in the result in the end, with its draws
    states: int  # of all chains, between two tasks

    @classmethod
    def of(cls, structure: Structure, plan: Plan, recorded: int) -> Budget:
        """Of a run that records so many numbers a draw."""
        leaves, places = structure.free.shape
        size, free = leaves * places, int(structure.free.sum())
        answers = structure.nodes * int(structure.query_start[-1])
        # Counts, two arrays of the prior, and means while tuning; lists of free cells and groups; residuals with
        # precisions, their starting values and where each answer is. And what working residuals out anew needs.
        own = 4 * 8 * size + 8 * (3 * free + 4 * answers)
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
            cells=plan.chains * (free * (kept + 8) + 16 * size)
            + 8 * free,  # with the starts, and tables between two tasks
            record=3 * 8 * plan.chains * plan.draws * recorded,  # kept, put together, and diagnosed
            result=own_result * size + max(diagnosed, 8 * _LIMITS * size),
            pooled=wide * free,
            summary=own_result * size + 8 * plan.chains * plan.draws * recorded,
            states=plan.chains * (free * (kept + 8) + 16 * size + 8 * plan.draws * recorded),
        )

    @property
    def total(self) -> int:
        """The most at any time: when chains start, when they draw, and when their draws are summarised."""
        return max(self.kernel + max(self.start, self.cells), self.cells + self.pooled, self.result) + self.record

    def check(self, plan: Plan) -> None:
        """Refuse a run that does not fit."""
        running = min(plan.cores, plan.chains)
        kernel, start, cells, record, result = map(
            in_words, (self.kernel, self.start, self.cells, self.record, self.result)
        )
        refuse_if_short(
            "fit_hierarchy needs",
            self.total,
            f"It takes {kernel} for the tables of {running} chains that run at the same time (fewer `cores`) and {start} for a start, "
            f"{cells} for what {plan.chains} chains keep of the cells (fewer `chains`, `bins`, `batches` or `counts`), "
            f"{record} for the draws of what is recorded (fewer `draws`, each after more sweeps with a larger `thin`, or fewer "
            f"answers in `record`), and {result} for the result; not all of these at the same time. A release of a part of the leaves "
            "needs less of all",
        )


def check_worker(need: Budget) -> None:
    """Refuse a part that this process has no room for."""
    refuse_if_short(
        "fit_parts: a process that works on this part needs",
        need.total,
        "Cut the release into smaller parts, give each worker more memory, or keep less of the cells (fewer `chains`, `bins`, "
        "`batches` or `counts`) and of draws (`record_parts`, a larger `thin`)",
    )


def check_driver(parts: Sequence[Budget], above: int, *, cores: int, held: bool) -> None:
    """Refuse a run whose results this process has no room for; it may work on `cores` parts at a time, and hold all states."""
    # `above`: bytes of what is recorded above the parts.
    result = above + sum(own.summary for own in parts)
    work = sum(own.kernel for own in parts) + cores * max(own.total for own in parts) if cores else 0
    states = sum(own.states for own in parts) if held else 0
    told = [
        f"{in_words(result)} for the summaries of the cells of {len(parts)} parts and draws of what is recorded (fewer `counts` or "
        "`quantiles`, fewer answers in `record` and `record_parts`, fewer `draws` with a larger `thin`)"
    ]
    if cores:
        told.append(f"{in_words(work)} for the work on the parts (fewer `cores`, and none where a `client` does that)")
    if held:
        told.append(f"{in_words(states)} for the states of all parts (none where a `folder` has them)")
    refuse_if_short(
        "fit_parts, in the process that drives it, needs", result + work + states, f"It takes {', '.join(told)}"
    )

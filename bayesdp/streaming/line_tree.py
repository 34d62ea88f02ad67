"""A hierarchy whose published numbers are perturbed: lines move its table, which is looked at leaf by leaf."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm

from bayesdp.distributions.confidential_counts import ConfidentialCounts
from bayesdp.fibers import NoiseTerm, Target
from bayesdp.hierarchies.structure import Structure, structure_of
from bayesdp.inference import observe
from bayesdp.release import Release
from bayesdp.steps.count_chains import LineChain
from bayesdp.steps.reading import kernel_target, read_model
from bayesdp.streaming.walled_tree import CLAIM, has_walls

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_PROGRAM = 20_000
"""Cells of a table up to which an integer program finds the first one; larger ones begin at the published cells."""

_LEARN = 4
"""Shares of directions are learnt after one sweep in so many of the tuning."""


def is_perturbed(release: Any) -> bool:
    """Whether an argument is a release of counts some of which are perturbed."""
    counts = isinstance(release, Release) and release.about == "counts"
    return counts and any(hasattr(own.law, "transitions") for own in release.measurements)


def perturbed_target(release: Release, family: str, leaves: str | None) -> tuple[Target, Structure]:
    """The posterior of a release's table as `bayesdp.observe` states it, and the tree that its queries ask for."""
    for own in release.measurements:
        if getattr(own.law, "name", "") == "unknown-perturbation":
            raise NotImplementedError(
                f"{own!r}: hierarchies take laws that are known; put the release into a model with bdp.observe and draw with "
                "bdp.sample, which learn it"
            )
    with pm.Model(coords=release.coords) as model:
        x = ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=1.0, alpha=1.0), dims=release.dims)
        observe(release, x)
    reading = read_model(model, model.rvs_to_values[x])
    parameters = [np.asarray(own.eval()) for own in reading.symbolic]  # all are numbers: nothing else is in the model
    target = replace(kernel_target(reading, parameters), family=family)
    # The tree follows from the queries alone; normal noise stands for the laws.
    queries = [(own.query, ~own.unmeasured.reshape(-1)) for own in release.measurements]
    terms = tuple(NoiseTerm(q, np.zeros(q.rows), "gaussian", np.ones(q.rows), keep) for q, keep in queries)
    structure = structure_of(Target(release.fiber, terms, family), leaves)
    fixed = np.asarray(structure.leaves_by_cells(target.fiber.system.fixed), dtype=np.bool_)
    structure = replace(structure, free=structure.free & ~fixed, proved=False)
    return target, replace(structure, claim=CLAIM if has_walls(target, structure) else target.moves.claim)


class LineTree:
    """What `TreeChain` is for normal noise: a table of leaves by cells that moves by sweeps."""

    missed: tuple[str, ...] = ()

    def __init__(self, target: Target, structure: Structure, rng: np.random.Generator) -> None:
        self.structure = structure
        self.lines = LineChain(target, rng, max(int(structure.free.sum()), 1))
        system = target.fiber.system
        self.lines.load(np.clip(np.rint(target.guide()).astype(np.int64), system.lower, system.upper))
        self._swept = 0

    @property
    def table(self) -> Ints:
        """The table as it stands, leaves by cells."""
        return np.asarray(self.structure.leaves_by_cells(self.lines.counts), dtype=np.int64)

    @property
    def groups(self) -> tuple[Ints, Ints]:
        """Cells that one sum ties together in such a way that they are compared: none."""
        return np.zeros((len(self.structure.order), 1), dtype=np.int64), np.zeros(0, dtype=np.int64)

    def set_cells(self, theta: Floats, alpha: Floats) -> None:
        """Set log weights and shapes of the prior in the order of the tree, shape (T, C) or (1, C)."""
        shape = self.structure.free.shape
        weights, shapes = (
            self.structure.in_frame(np.broadcast_to(own, shape)).astype(np.float64) for own in (theta, alpha)
        )
        self.lines.set_prior(weights, shapes)

    def begin_apart(self, rng: np.random.Generator) -> None:
        """Begin at a possible table far from those of other chains; the prior is set, and the table that of the published cells."""
        fiber, guide = self.lines.target.fiber, self.lines.target.guide()
        small = fiber.frame.size <= _PROGRAM
        if small or fiber.invariants.rank:
            self.lines.load(fiber.find_point(guide.reshape(fiber.frame.shape), self.lines.target.gaps).reshape(-1))
        if not self.lines.disperse() and not small:
            raise ValueError(
                "no table was found that all published numbers can come from by their laws; bdp.check_law(release) tells of numbers "
                "that contradict one another"
            )

    def sweep(self) -> None:
        """Move each free cell about once."""
        self.lines.move(1)

    def choose_donors(self, typical: Floats) -> None:
        """While tuning: shares by what was learnt so far."""
        self.lines.settle()

    def learn(self) -> None:
        """While tuning, after each sweep."""
        self._swept += 1
        if self._swept % _LEARN == 0:
            self.lines.learn()

    def saved(self) -> dict[str, npt.NDArray[Any]]:
        """What a chain goes on from."""
        lines = self.lines
        return {"counts": lines.counts.copy(), "generator": lines.generator, "memory": lines.memory}

    def restore(self, saved: dict[str, npt.NDArray[Any]]) -> None:
        """Put a chain where it was."""
        self.lines.load(saved["counts"])
        self.lines.generator[:] = saved["generator"]
        self.lines.remember(saved["memory"], same=True)

"""One variable of lattice noise in a model while it is being sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from bayesdp._random import seed_state
from bayesdp.fibers.kernel.state import FLAT, set_counts
from bayesdp.fibers.kernel.sweep import move_once, sweep, take_back
from bayesdp.lattices.samplers import noise_state, set_law
from bayesdp.moves.moves import Moves, moves_for
from bayesdp.steps._compiled import Point, compiled, depends, log_density
from bayesdp.steps._rest import accept_on_the_rest, moved_into_support
from bayesdp.steps._table_gibbs import LEAST_MOVES

type Ints = npt.NDArray[np.int64]


def is_lattice_noise(variable: Any) -> bool:
    """Whether a random variable is lattice noise of a form that the kernel knows."""
    law_type = getattr(getattr(variable.owner, "op", None), "law_type", None)
    return law_type is not None and law_type.support == "lattice" and law_type.kernel_form is not None


class NoiseTable:
    """A free `LatticeLaplace` or `LatticeGaussian` variable, with the log-density of the rest of the model."""

    # A move draws a direction of the lattice, and a step along it from the exact conditional law of the noise; the rest of the
    # model is accounted for by accepting or taking it back. `value`: value variable of the noise. `compile_kwargs`: as in
    # `pm.sample`.

    def __init__(
        self, model: pm.Model, value: Any, rng: np.random.Generator, compile_kwargs: Mapping[str, Any]
    ) -> None:
        rv = model.values_to_rvs[value]
        op = rv.owner.op
        self.name = value.name
        self.invariants = op.invariants
        self.shape: tuple[int, ...] = op.invariants.frame.shape
        form = op.unit.kernel_of(op.invariants)
        self.law: str = form.kind
        if rv.ndim != len(self.shape):
            raise ValueError(f"{self.name!r} must be one table of shape {self.shape}, not a batch of tables")
        mu, scale = model.replace_rvs_by_values([pt.as_tensor_variable(v) for v in rv.owner.inputs[2:4]])
        rate = pt.reciprocal(scale) if form.of_scale else scale
        if set(ancestors([mu])) & set(model.value_vars):
            raise ValueError(
                f"mu of the latent noise {self.name!r} must be known, for example a table of zeros; to sample a table that "
                "noise was added to, use ConfidentialCounts and observe"
            )
        self._parameters, self._inputs = compiled(
            model, [pt.cast(mu, "float64").flatten(), pt.cast(rate, "float64")], compile_kwargs
        )
        others = [*model.free_RVs, *model.observed_RVs, *model.potentials]
        unknown = [other for other in others if other is not rv and depends(model, other, value)]
        self._rest = log_density(model, unknown, self.name, compile_kwargs)
        self.moves: Moves = moves_for(self.invariants, compute=False)
        self.state = noise_state(self.invariants.frame.size, self.moves, self.law)
        self._none = np.empty((0, self.invariants.frame.size), dtype=np.int64)
        self.reseed(rng)

    @property
    def exact_conditional(self) -> bool:
        """Whether nothing else depends on the noise, so that every step is drawn from its exact conditional law."""
        return self._rest is None

    @property
    def value(self) -> Ints:
        """The noise as it stands, a copy."""
        return self.state.counts.reshape(self.shape).copy()

    @property
    def generator(self) -> npt.NDArray[np.uint64]:
        """State of the kernel's generator, in place."""
        return self.state.generator

    @property
    def sums(self) -> npt.NDArray[np.float64]:
        """Empty: every step begins by adding up anew."""
        return np.empty(0)

    @sums.setter
    def sums(self, kept: npt.NDArray[np.float64]) -> None:
        pass

    def reseed(self, rng: np.random.Generator) -> None:
        """Start a fresh stream of random numbers."""
        self.state.generator[:] = seed_state(rng)

    def refresh(self, point: Point, table: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Evaluate location and scale of the law, load a table into the kernel, and return the location."""
        mu, scale = self._parameters(*[point[name] for name in self._inputs])
        set_law(self.state, self.law, float(scale), mu)
        set_counts(self.state, np.asarray(table, dtype=np.int64).reshape(-1))
        return np.asarray(mu, dtype=np.float64)

    def begin(self, point: Point, rng: np.random.Generator) -> None:
        """Start a chain: a start off the lattice, or one that the rest of the model forbids, is replaced by one that is allowed."""
        self.reseed(rng)
        given = np.asarray(point[self.name], dtype=np.int64)
        mu = self.refresh(point, given).reshape(self.shape)
        if not self.invariants.is_null(given - np.rint(mu).astype(np.int64)):
            self.refresh(point, np.rint(mu))
        rest = self._rest
        if rest is None:
            return
        tried = moved_into_support(lambda: rest(point, self.value), self._propose)
        if tried:
            raise ValueError(
                f"no noise {self.name!r} was found that has positive density under the rest of the model ({tried} moves "
                "tried); give one with pm.sample(initvals=...)"
            )

    def _propose(self) -> tuple[int, int]:
        count, step = move_once(FLAT, True, self.state)
        return count, step

    def step(self, point: Point, sweeps: int, rng: np.random.Generator) -> tuple[Ints, float, float]:
        """Move; return the table, the share of moves that changed it, and the share of proposals accepted."""
        self.refresh(point, point[self.name])
        moves = sweeps * max(self.invariants.dimension, 1)
        if self._rest is None:
            moves = max(moves, LEAST_MOVES)
            changed = int(sweep(self._none, moves, FLAT, True, self.state))
            return self.value, changed / moves, 1.0
        rest = self._rest
        changed, accepted = accept_on_the_rest(
            rng,
            moves,
            lambda: rest(point, self.value),
            self._propose,
            lambda count, step: take_back(count, step, self.state),
        )
        return self.value, changed / moves, accepted / moves

    def learn(self) -> None:
        """Nothing is tuned."""

    def settle(self) -> None:
        """Nothing is tuned."""

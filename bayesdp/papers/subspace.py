"""Statements and mechanisms of Gao, Gong and Yu (2022), Subspace Differential Privacy.

- `project` (Theorem 3.1) and `extend` (Theorem 3.3) make any private mechanism keep the invariants: the one removes what its noise
  changes of them, the other takes a mechanism for the coordinates that they leave free. Neither knows how the mechanism works, and
  so no likelihood, which `bayesdp.ProjectedGaussian` and its relatives have;
- `private_error_bound` and `gaussian_error_factor` (Theorem 3.11) bound the error of every mechanism from below, with the constant;
  `base_decomposition` and `enclosing_ellipsoid` are the shape of the noise that the theorem is about;
- `Agent` and `assemble` (Section 4) let agents with a common secret seed each add the noise of their own cells, without telling
  anybody their count: each simulates the noise of the *whole* table, and adds its own entry. The noisy values that they publish are,
  bit for bit, those of a central release with that generator.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Never, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.linalg
import xarray as xr

from bayesdp import _validate
from bayesdp._arrays import Floats, Ints
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.lattices.integers import round_to_lattice
from bayesdp.measurements.parts import places_of
from bayesdp.mechanisms import base
from bayesdp.mechanisms.base import AdditiveMechanism, Mechanism, with_person
from bayesdp.mechanisms.real import grid_caveat
from bayesdp.noise import NoiseLaw
from bayesdp.privacy import DIFFERENCES, FLOATING_POINT_CAVEAT, Guarantee, PairLoss
from bayesdp.privacy.caveats import Fixed
from bayesdp.privacy.factorization import MAX_DIMENSION, just_containing, spanning
from bayesdp.privacy.gaussian import gaussian_sigma
from bayesdp.privacy.losses import Loss, LossAt, stated_loss
from bayesdp.privacy.sensitivities.kept import kept_differences
from bayesdp.privacy.sensitivities.norms import NEIGHBOURS, RECORDS
from bayesdp.privacy.words import Conforming, Neighbours, Statement
from bayesdp.queries import Identity, Query
from bayesdp.queries.query import checked_query
from bayesdp.release import Exact, Measured, Release

__all__ = [
    "Agent", "Piece", "assemble", "base_decomposition", "enclosing_ellipsoid", "extend", "gaussian_error_factor",
    "private_error_bound", "project",
]  # fmt: skip


def private_error_bound(vectors: npt.ArrayLike, epsilon: float, delta: float = 0.0) -> float:
    """Bound from below the expected total squared error of every (epsilon, delta)-private mechanism, for its worst table.

    ``(largest over k of (1 - delta_k) k**2 exp(k epsilon) / (1 + exp(k epsilon))**2) * sum_j <v_j, q_j>**2``, with ``delta_k`` that
    of k neighbouring steps and ``q_j`` the orthonormal directions of Gram and Schmidt; docs/papers/subspace-dp.md has the proof
    (Kairouz, Oh and Viswanath, 2015; Yu, 1997, Assouad, Fano, and Le Cam). In squared units of the vectors. It holds for mechanisms
    that are biased, too, and for noise that depends on the table, as long as tables with several records for each move are among
    those that are protected.

    Parameters
    ----------
    vectors : array_like, shape (m, n)
        Differences of neighbours in coordinates, one of each pair v, -v; they span the space.
    epsilon, delta : float
        Loss for neighbouring tables.

    Examples
    --------
    A single count: the Laplace mechanism has the error 2 / epsilon**2, and no other less than about a fifth of it.

    >>> print(f"{private_error_bound([[1.0]], 0.01) * 0.01**2:.4f}")
    0.4392
    """
    array = spanning(vectors)
    rate = _validate.positive_real(epsilon, "epsilon")
    chance = _validate.nonnegative_real(delta, "delta")
    if chance >= 1.0:
        raise ValueError(f"delta must be less than 1, got {chance!r}")
    # Pivots take the vector that is longest in what is left; any order gives a bound.
    triangle = scipy.linalg.qr(array.T, mode="r", pivoting=True)[0]
    # x**2 exp(x) / (1 + exp(x))**2 is largest at x = 2.4: more steps than up to x = 4 cannot help.
    steps = np.arange(1.0, min(max(1, math.ceil(4.0 / rate)), 1_000_000) + 1)
    loss = steps * rate
    small = np.exp(-loss)  # exp(x) / (1 + exp(x))**2 without overflow
    # Of k neighbours in a row: delta (exp(k epsilon) - 1) / (exp(epsilon) - 1), at most 1.
    with np.errstate(over="ignore"):
        group = np.minimum(1.0, chance * np.expm1(np.minimum(loss, 700.0)) / np.expm1(rate)) if chance else 0.0 * loss
    of_one_bit = float(np.max((1.0 - group) * steps**2 * small / (1.0 + small) ** 2))
    return of_one_bit * float(np.sum(np.diagonal(triangle) ** 2))


def gaussian_error_factor(dimension: int, epsilon: float, delta: float, *, method: str = "factorization") -> float:
    """How many times the least possible error correlated Gaussian noise has at most, for any answers and invariants (Theorem 3.11).

    ``sigma**2 / c`` times ``1 + 1/2 + .. + 1/dimension``, or ``4 (1 + floor(log2 dimension))**2`` for the theorem's mechanism:
    sigma the scale of normal noise for a difference of 1, c the bound for one answer of sensitivity 1. The proofs are in
    docs/papers/subspace-dp.md (after Nikolov, Talwar and Zhang, 2013; Edmonds, Nikolov and Ullman, 2020). For one set of answers
    the ratio of the error of the noise and `private_error_bound` is smaller, and never above this factor (but for the relative gap
    of 1e-6, or 1e-3, to which the least Gaussian noise is found).

    Parameters
    ----------
    dimension : int
        Dimensions that the invariants leave free, ``n - n_c`` in the paper.
    epsilon, delta : float
        Loss for neighbouring tables; delta greater than zero.
    method : {"factorization", "ellipsoid"}
        The least Gaussian noise, that of `CorrelatedGaussian`, or the mechanism of the theorem (`base_decomposition`), for at most
        300 dimensions.

    Examples
    --------
    >>> print(f"{gaussian_error_factor(1, 0.01, 1e-9):.0f} {gaussian_error_factor(100, 0.01, 1e-9):.0f}")
    48 248
    >>> print(f"{gaussian_error_factor(100, 0.01, 1e-9, method='ellipsoid'):.0f}")
    9381
    """
    size = _validate.positive_integer(dimension, "dimension")
    one = gaussian_sigma(epsilon, delta) ** 2 / private_error_bound([[1.0]], epsilon, delta)
    if _validate.choice(method, ("factorization", "ellipsoid"), "method") == "factorization":
        return one * float(np.sum(1.0 / np.arange(1.0, size + 1.0)))
    if size > MAX_DIMENSION:
        raise ValueError(
            f"dimension must be at most {MAX_DIMENSION} with method='ellipsoid', the most that the mechanism takes, got {size}"
        )
    return one * 4.0 * size.bit_length() ** 2  # bit_length is 1 + floor(log2), exactly


_STEPS = 100_000  # most steps of `enclosing_ellipsoid`; a few hundred are usual
_TIE = 1e-6  # axes that differ by less than this share are equal: rounding would decide which is the larger


def enclosing_ellipsoid(vectors: npt.ArrayLike, *, tolerance: float = 1e-3) -> Floats:
    """Find the ellipsoid ``{x : x^T C^-1 x <= 1}`` of least volume around vectors and their negatives; the matrix C, shape (n, n).

    By the dual, a D-optimal design: maximise ``log det S`` over weights, ``S = sum w_j v_j v_j^T``; then ``C = n S`` (Kiefer and
    Wolfowitz, 1960), here by steps towards and away from single vectors (Todd and Yildirim, 2007). C is scaled to contain the vectors
    tightly, and ``det(C) ** (1 / n)`` is at most ``1 + tolerance`` times the least possible.

    Parameters
    ----------
    vectors : array_like, shape (m, n)
        One of each pair v, -v; at most 20,000 vectors in at most 300 dimensions, and they must span the space.
    tolerance : float

    Examples
    --------
    >>> enclosing_ellipsoid([[3.0, 0.0], [0.0, 1.0]]).round(9)
    array([[9., 0.],
           [0., 1.]])
    """
    array, goal = spanning(vectors), _validate.positive_real(tolerance, "tolerance")
    # The optimum moves with the coordinates, so solve where the vectors are round.
    root = np.linalg.qr(array, mode="r").T
    white = scipy.linalg.solve_triangular(root, array.T, lower=True).T
    count, n = white.shape
    weights = np.full(count, 1.0 / count)
    for _ in range(_STEPS):
        shape = (white.T * weights) @ white
        # All at most n at the optimum, and n where weights are.
        squares = np.sum((white @ np.linalg.inv(shape)) * white, axis=1)
        far, near = np.argmax(squares), np.argmin(np.where(weights > 0.0, squares, np.inf))
        if squares[far] <= n * (1.0 + goal):
            return just_containing(root @ shape @ root.T, array)
        j = far if squares[far] - n >= n - squares[near] else near
        best = (squares[j] / n - 1.0) / (squares[j] - 1.0) if squares[j] > 1.0 else -np.inf
        step = max(best, -weights[j] / (1.0 - weights[j]))
        weights *= 1.0 - step
        weights[j] = max(weights[j] + step, 0.0)
    raise ValueError(f"the ellipsoid of least volume was not found up to tolerance={goal!r} in {_STEPS} steps")


def base_decomposition(vectors: npt.ArrayLike, *, tolerance: float = 1e-3) -> tuple[Floats, list[Floats]]:
    """Find the noise shape of the correlated Gaussian mechanism of Nikolov, Talwar and Zhang, which Theorem 3.11 is about.

    The shorter half of the axes of the ellipsoid of least volume is a block of directions; the vectors, projected onto the longer
    half, are decomposed in the same way. Block i gets noise of variance ``k r_i**2``, with k the number of blocks and ``r_i`` the
    length of the longest projected vector. Axes as long as the longest of the shorter half join it, so that rounding decides nothing;
    a ball is one block. The whole is scaled to contain the vectors tightly: k is enough and often more than enough. Noise of
    `bayesdp.CorrelatedGaussian` has less error.

    Parameters
    ----------
    vectors, tolerance
        As in `enclosing_ellipsoid`.

    Returns
    -------
    covariance : numpy.ndarray, shape (n, n)
        Of noise that is 1-GDP; ``sum_i r_i**2 U_i U_i^T``, scaled.
    blocks : list of numpy.ndarray, shapes (n, n_i)
        Orthonormal columns ``U_i``, from the short axes to the long ones; together a basis.

    References
    ----------
    Nikolov, Talwar and Zhang (2013), The Geometry of Differential Privacy: the Sparse and Approximate Cases, STOC.

    Examples
    --------
    >>> covariance, blocks = base_decomposition([[3.0, 0.0], [0.0, 1.0]])
    >>> covariance.round(9).tolist(), [block.shape[1] for block in blocks]
    ([[9.0, 0.0], [0.0, 1.0]], [1, 1])
    """
    array = spanning(vectors)
    basis, blocks, total = np.eye(array.shape[1]), [], np.zeros((array.shape[1],) * 2)
    while basis.shape[1]:
        squares, axes = scipy.linalg.eigh(enclosing_ellipsoid(array @ basis, tolerance=tolerance))  # ascending
        middle = squares[(len(squares) + 1) // 2 - 1]
        short = int(np.count_nonzero(squares <= middle * (1.0 + _TIE) ** 2))
        block = basis @ axes[:, :short]
        total += float(np.max(np.sum((array @ block) ** 2, axis=1))) * (block @ block.T)
        blocks.append(block)
        basis = basis @ axes[:, short:]
    return just_containing(total, array), blocks


_WAYS = (("epsilon",), ("epsilon", "delta"), ("rho",), ("mu",))


@dataclass(frozen=True)
class GivenGuarantee(Guarantee):
    """A guarantee whose loss and sampler are as the author of the mechanism states them; nothing here has checked them."""

    def _noise(self) -> str:
        return "drawn by the function that was handed in; that it has the stated loss is not checked here"


def checked_loss(loss: Any) -> Loss:
    """Accept a loss: epsilon, epsilon and delta, rho, or mu."""
    named = dict(loss) if isinstance(loss, Mapping) else {}
    if "sensitivity" not in named:  # which is that of the neighbours
        named = stated_loss(loss).parameters
    base.one_statement({name: named.get(name) for name in ("epsilon", "delta", "rho", "mu", "sensitivity")}, _WAYS)
    return stated_loss(loss)


GRID = 2.0**-20  # released values are multiples of this, about a millionth of a count, unless another is asked for
_LARGEST = 2.0**52  # noise of more grid steps than this could not be added to a count in float64 without an error


@dataclass(frozen=True)
class ReleasedValues:
    """What a framework publishes: noisy answers, labelled as the query's, and exact ones; values without a likelihood."""

    values: xr.DataArray
    exact: tuple[Exact, ...]
    guarantee: Guarantee


@dataclass(frozen=True, eq=False)
class FrameworkMechanism:
    """A private mechanism whose output is projected, so that it keeps the invariants; build one with `project`, which has the fields.

    `mechanism` is a function or a noise law; mind that a function can hold anything: hand in none that holds confidential data.
    """

    mechanism: Any
    query: Query
    invariants: Any
    loss: Any
    additive: bool = field(default=False, kw_only=True)
    neighbours: str = field(default="substitution", kw_only=True)
    grid: float = field(default=GRID, kw_only=True)
    takes: str = field(default="answers", kw_only=True)

    def __post_init__(self) -> None:
        asked = checked_query(self.query)
        if not isinstance(self.invariants, Invariants):
            object.__setattr__(self, "invariants", Invariants(self.invariants, asked.frame))
        object.__setattr__(self, "loss", checked_loss(self.loss))
        _validate.boolean(self.additive, "additive")
        _validate.choice(self.neighbours, tuple(NEIGHBOURS), "neighbours")
        _validate.choice(self.takes, ("answers", "table"), "takes")
        grid = _validate.positive_real(self.grid, "grid")
        if grid > 1.0 or math.frexp(grid)[0] != 0.5:
            raise ValueError(f"grid must be a power of two of at most 1, such as 2**-20, got {self.grid!r}")
        if not self.answer_invariants.dimension:
            raise ValueError(
                "the invariants determine every answer of the query, so that there is nothing left to add noise to: "
                f"{_validate.shown(asked.names, 3)}"
            )
        self._check_mechanism()

    def _check_mechanism(self) -> None:
        law = self.mechanism
        _validate.instance(law, NoiseLaw | Callable, "mechanism must be a function or a noise law")
        if not isinstance(law, NoiseLaw):
            return
        if not self.additive:
            raise ValueError(f"{law!r} is a noise law, not a function of answers: hand it in with additive=True")
        if law.support in ("bounded", "simplex"):
            raise ValueError(f"{law!r} is a law of bounded values, not of noise that is added to any answer")
        if not law.independent:
            raise ValueError(
                f"{law!r} keeps invariants already; hand in noise that is independent in each answer, or a function rng, size -> noise"
            )

    @property
    def _noise_shape(self) -> tuple[int, ...]:
        """Shape of what the mechanism returns."""
        return self.query.shape

    def _noise_name(self, position: int) -> str:
        """What one number that the mechanism returns stands for."""
        return self.query.answer_name(position)

    def _to_answers(self, noise: Floats) -> Floats:
        """Noise of the mechanism, of shape ``(..., *noise_shape)``, as noise on the answers that keeps the invariants."""
        kept = self.answer_invariants
        return kept.project(noise.reshape(-1, *kept.frame.shape)).reshape(noise.shape)

    def _input(self, counts: Ints, answers: Ints) -> tuple[Any, Any]:
        """What a mechanism that is not additive is handed, and what its output is compared with."""
        return (answers if self.takes == "answers" else counts), answers

    @property
    def law(self) -> NoReturn:
        """There is none: a framework knows the numbers that a mechanism returns, and not how they are distributed."""
        raise AttributeError(
            "the law of the noise within the null space is not known for noise that is handed in as it is: use ProjectedGaussian, "
            "ExtendedGaussian, ProjectedLaplace, ExtendedLaplace, CorrelatedGaussian or KNorm, which have an exact likelihood and "
            "make a Release"
            if self.additive
            else "the mechanism is not additive: its noise may depend on the confidential table, and no likelihood is known. It gives "
            "release_values, and no Release that a posterior could be made from"
        )

    @cached_property
    def answer_invariants(self) -> Invariants:
        """What the invariants determine of the answers."""
        relations: Invariants = self.invariants.through(self.query)
        return relations

    @property
    def guarantee(self) -> Guarantee:
        """What is protected, for which pairs of tables, and with what reservations."""
        return self._guarantee()

    def _rows(self) -> tuple[PairLoss, ...]:
        """The stated loss for neighbours, and for each smallest kept difference of k neighbouring steps that of a group of k."""
        size, loss = RECORDS[self.neighbours], self.loss
        rows = [PairLoss(Neighbours(self.neighbours, "all"), size, "l1", loss)]
        for difference in kept_differences(self.invariants):
            # Substitution leads from one table to the other only if as many records are added as are removed.
            substituted = self.invariants.nested is not None or difference in DIFFERENCES.values()
            steps = round(difference.l1 / size)
            if steps > 1 and (substituted or self.neighbours != "substitution"):
                rows.append(PairLoss(Conforming(difference), difference.l1, "l1", loss.group(steps)))
        return tuple(rows)

    def _caveats(self) -> tuple[Statement, ...]:
        depends = () if self.additive else (Fixed("depends on the table"),)
        stated = (Fixed("stated by the author"), *depends)
        return *stated, FLOATING_POINT_CAVEAT, grid_caveat(self.grid), Fixed("subspace")

    def _for_one_person(self, stated: Guarantee) -> Guarantee:
        return with_person(stated, self.invariants, self.neighbours)

    def _guarantee(self, determined: tuple[str, ...] = (), *, simulated: bool = False) -> Guarantee:
        kind = Guarantee if isinstance(self.mechanism, NoiseLaw) else GivenGuarantee
        rows = self._rows()
        at = LossAt(self.loss, rows[0].size)
        told: dict[str, Any] = {"determined_cells": determined, "simulated": simulated, "caveats": self._caveats()}
        return self._for_one_person(kind(self.loss.kind, at, "l1", rows, **told))

    def noise(self, rng: _validate.Seed = None, size: int = 1) -> Floats:
        """Draw noise, as a release adds it, shape ``(size, *query.shape)``; for additive mechanisms.

        Without a generator or a seed, with entropy of the operating system.
        """
        if not self.additive:
            raise NotImplementedError(
                "the mechanism is not additive: its noise may depend on the table; see release_values"
            )
        generator, size = _validate.generator_of(rng), _validate.positive_integer(size, "size")
        if isinstance(self.mechanism, NoiseLaw):
            drawn: Any = self.mechanism.draw(generator, self._noise_shape, size)
        else:
            drawn = self.mechanism(generator, size)
        given = self._numbers(drawn, (size, *self._noise_shape), "the noise that mechanism(rng, size) returns")
        return self._rounded(self._to_answers(given))

    def release_values(self, table: Any, rng: _validate.Seed = None) -> ReleasedValues:
        """Publish noisy answers that keep the invariants, and the invariants.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or array_like
            Confidential counts. Labelled values are matched by label.
        rng : int, numpy.random.Generator or None
            Without one, NumPy's PCG64 generator, seeded from the operating system's entropy, which is no cryptographic one: do that
            to publish. With one the values are marked as simulated.
        """
        frame: Frame = self.query.frame
        counts = base.confidential_counts(table, frame)
        answers = base.answers_of(self.query, counts)
        parts = [Query(frame, (part,)) for part in self.invariants.query.parts]
        exact = tuple(Exact(query, base.answers_of(query, counts)) for query in parts)
        if self.additive:
            noise = self.noise(rng)[0]
        else:
            handed, reference = self._input(counts, answers)
            # It is handed a copy: it may not change what is published.
            output = self.mechanism(handed.copy(), _validate.generator_of(rng))
            noisy = self._numbers(output, self._noise_shape, "the output of mechanism")
            noise = self._rounded(self._to_answers((noisy - reference)[None]))[0]
        fiber = Fiber.of(exact, frame)
        stated = self._guarantee(fiber.determined_names(), simulated=rng is not None)
        noisy_answers = base.add_noise(answers, noise, self.grid, self.query.answer_name)
        values = xr.DataArray(noisy_answers, dims=self.query.dims, coords=self.query.coords, name="noisy")
        return ReleasedValues(values, exact, replace(stated, determined_complete=fiber.determined_is_complete))

    def _rounded(self, noise: Floats) -> Floats:
        """Noise that keeps the invariants, moved to nearby grid points that keep them exactly."""
        relations = self.answer_invariants
        steps = noise.reshape(-1, *relations.frame.shape) / self.grid
        if np.max(np.abs(steps), initial=0.0) >= _LARGEST:
            raise ValueError(
                f"grid must be larger for noise as wide as that of mechanism: at {self.grid!r} it has 2**52 steps or more"
            )
        return np.asarray(self.grid * round_to_lattice(steps, relations)).reshape(noise.shape)

    def _numbers(self, given: Any, shape: tuple[int, ...], what: str) -> Floats:
        """What a user's function returned, if it is finite numbers of this shape."""
        array = np.asarray(given)
        if array.shape != shape:
            raise ValueError(f"{what} must have shape {shape}, got {array.shape}")
        answers = math.prod(self._noise_shape)
        # What a mechanism returns may be the confidential answer itself, when it is broken.
        found = _validate.finite_array(array, what, lambda i: self._noise_name(i % answers), confidential=True)
        return found.astype(np.float64)


@dataclass(frozen=True, eq=False)
class ExtendedMechanism(FrameworkMechanism):
    """A mechanism for the free coordinates, extended to all answers; build one with `extend`."""

    @property
    def coordinate_rule(self) -> str:
        """The rule that fixes the coordinates, see `Invariants.coordinate_rule`."""
        return self.answer_invariants.coordinate_rule

    @property
    def _noise_shape(self) -> tuple[int, ...]:
        return (self.answer_invariants.dimension,)

    def _noise_name(self, position: int) -> str:
        return f"coordinate {position + 1}"

    def _to_answers(self, noise: Floats) -> Floats:
        return self.answer_invariants.from_coordinates(noise).reshape(-1, *self.query.shape)

    def _input(self, counts: Ints, answers: Ints) -> tuple[Any, Any]:
        kept = self.answer_invariants
        coordinates = kept.coordinates(answers.reshape(kept.frame.shape))
        return coordinates, coordinates


def project(mechanism: Callable[..., Any] | NoiseLaw, query: Query, invariants: Any, *, loss: Mapping[str, float],
            additive: bool = False, takes: str = "answers", neighbours: str = "substitution",
            grid: float = GRID) -> FrameworkMechanism:  # fmt: skip
    r"""Make any private mechanism keep the invariants, by projecting what it adds to the answers.

    With answers ``A(x)``, a private mechanism ``M`` and the space ``N`` that the invariants leave free,
    ``A(x) + P_N (M(x) - A(x))`` has the exact invariants, and within ``N`` it is post-processing of ``M(x)``: the loss is
    that of ``M`` (Theorem 3.1). For additive noise ``e`` this is ``A(x) + P_N e`` (Corollary 3.2), which is unbiased if
    ``e`` has mean zero (Corollary 4.1).

    Parameters
    ----------
    mechanism, additive, takes : callable or NoiseLaw, bool, {"answers", "table"}
        ``(answers, rng) -> noisy answers``, both of shape ``query.shape``; with ``takes="table"``, ``(table, rng) -> noisy
        answers``. With ``additive=True``, noise that is drawn without looking at the table: a noise law of independent integers, or
        ``(rng, size) -> noise`` of shape ``(size, *query.shape)``, such as the `noise` method of a mechanism of this package. All
        randomness should come from `rng`.
    query, invariants : Query; Query, iterable of Query, or Invariants
        What is answered, and what is published exactly, of the same table.
    loss : mapping
        What `mechanism` loses for neighbouring tables: ``{"epsilon": 1.0}``, ``{"epsilon": 1.0, "delta": 1e-6}``,
        ``{"rho": 0.1}`` or ``{"mu": 0.5}``. It is taken on your word.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables that `loss` is for: one record changes its cell, or one comes or goes.
    grid : float
        A power of two of at most 1, far below the noise: released values are moved to multiples of it, by less than a few
        grid steps, so that exact answers are met exactly and the last digits of floating-point numbers tell nothing.

    Examples
    --------
    Student noise, which keeps the total once it is projected:

    >>> import bayesdp as bdp
    >>> def student(rng, size):
    ...     return 3.0 * rng.standard_t(5, size=(size, 3))
    >>> cells, total = bdp.Identity({"county": ["Alpha", "Beta", "Gamma"]}), bdp.Totals({"county": ["Alpha", "Beta", "Gamma"]})
    >>> mechanism = project(student, cells, total, loss={"epsilon": 1.0, "delta": 1e-6}, additive=True)
    >>> released = mechanism.release_values([20, 10, 5], rng=np.random.default_rng(1))
    >>> float(released.values.sum())
    35.0
    """
    how: dict[str, Any] = {"additive": additive, "takes": takes, "neighbours": neighbours, "grid": grid}
    return FrameworkMechanism(mechanism, query, invariants, loss, **how)


def extend(mechanism: Callable[..., Any] | NoiseLaw, query: Query, invariants: Any, *, loss: Mapping[str, float],
           additive: bool = False, neighbours: str = "substitution", grid: float = GRID) -> ExtendedMechanism:  # fmt: skip
    r"""Make a private mechanism for the free coordinates of the answers one for the answers, which keeps the invariants.

    With an orthonormal basis ``Q`` of the space that the invariants leave free, the mechanism sees ``c = Q^T A(x)`` only
    and returns noisy ``c'``; released is ``A(x) + Q (c' - c)``, its output plus what the invariants determine of the
    answers. Every mechanism that keeps the invariants has this form (Theorem 3.3).

    Parameters
    ----------
    mechanism, loss : callable or NoiseLaw, mapping
        ``(coordinates, rng) -> noisy coordinates`` of shape ``(n,)``, with n the `dimension` of ``invariants.through(query)``; with
        ``additive=True`` a noise law of independent integers, or ``(rng, size) -> noise`` of shape ``(size, n)``. Mind that the
        sensitivity is that of the coordinates: `bayesdp.privacy.projected_sensitivity`.
    query, invariants, additive, neighbours, grid
        As in `project`.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> def laplace(coordinates, rng):
    ...     return coordinates + rng.laplace(scale=2.0, size=coordinates.shape)
    >>> cells, total = bdp.Identity({"county": ["Alpha", "Beta", "Gamma"]}), bdp.Totals({"county": ["Alpha", "Beta", "Gamma"]})
    >>> mechanism = extend(laplace, cells, total, loss={"epsilon": 1.0})
    >>> released = mechanism.release_values([20, 10, 5], rng=np.random.default_rng(1))
    >>> float(released.values.sum()), mechanism.coordinate_rule
    (35.0, 'helmert-1')
    """
    how: dict[str, Any] = {"additive": additive, "neighbours": neighbours, "grid": grid}
    return ExtendedMechanism(mechanism, query, invariants, loss, **how)


_ALIKE = {
    "mechanism": "another mechanism, or another order of the labels",
    "round_number": "another round",
    "check": "other noise: another seed, other versions of the packages that draw it, or hardware that computes otherwise",
}
"""In what the pieces of one release must be alike, and what to tell if they are not."""


@dataclass(frozen=True)
class Piece:
    """What one agent publishes: noisy values of its own cells, and what is needed to see that all agents drew the same noise.

    Plain data, for whatever way it is sent: ``Piece(**json.loads(json.dumps(dataclasses.asdict(piece))))``. Beside the names of the
    cells and their noisy values it has the number of the release of the agents, the SHA-256 digest `mechanism` of its description and
    of the labels, and `check`, a SHA-256 code of the whole noise, keyed by the common seed (HMAC). Two agents have the same one just
    when they drew the same noise with the same seed; without the seed it tells nothing.
    """

    cells: tuple[str, ...]
    values: tuple[int | float, ...]
    round_number: int
    mechanism: str
    check: str

    def __post_init__(self) -> None:
        _validate.set_fields(self, cells=tuple(self.cells), values=tuple(self.values))
        _validate.nonnegative_integer(self.round_number, "round_number")
        if len(self.cells) != len(self.values) or not self.cells:
            raise ValueError(f"a piece needs one value a cell, got {len(self.values)} for {len(self.cells)} cells")
        for cell, value in zip(self.cells, self.values, strict=True):
            if type(value) not in (int, float):
                raise TypeError(f"the value of {cell} must be an int or a float, got {value!r}")
        _validate.finite_array(np.array(self.values), "values of a piece", self.cells.__getitem__)


def _digest(mechanism: Mechanism) -> str:
    """Of the description of a mechanism and of the cells, in order."""
    described = [mechanism.describe(), list(mechanism.frame.dims), [list(labels) for labels in mechanism.frame.labels]]
    return hashlib.sha256(json.dumps(described, sort_keys=True, allow_nan=False).encode()).hexdigest()


def noise_check(seed: int, round_number: int, digest: str, noise: npt.NDArray[Any]) -> str:
    """A code of the noise that only holders of the seed can make or try out."""
    key = seed.to_bytes((seed.bit_length() + 7) // 8, "little")
    # Little-endian bytes and the kind of number, whatever the machine.
    numbers = noise.astype(noise.dtype.newbyteorder("<"), order="C")
    signed = f"bayesdp distributed noise\n{round_number}\n{digest}\n{numbers.dtype.str}\n".encode()
    return hmac.new(key, signed + numbers.tobytes(), hashlib.sha256).hexdigest()


def _check_alike(pieces: list[Piece], mechanism: Mechanism) -> None:
    """Check that the pieces are of this mechanism, and that all agents drew the same noise."""
    expected = {"mechanism": _digest(mechanism)}
    for name, difference in _ALIKE.items():
        usual = expected.get(name) or Counter(getattr(piece, name) for piece in pieces).most_common(1)[0][0]
        odd = [piece for piece in pieces if getattr(piece, name) != usual]
        if odd:
            cells = _validate.shown(cell for piece in odd for cell in piece.cells)
            shown = f" ({getattr(odd[0], name)!r}, not {usual!r})" if name == "round_number" else ""
            raise ValueError(f"pieces do not fit together: those of {cells} were made with {difference}{shown}")


def _values_by_cell(pieces: Iterable[Piece], frame: Frame) -> npt.NDArray[Any]:
    """The noisy values of all cells, in the order of the frame, if there is exactly one for each."""
    names = frame.cell_names()
    there = set(names)
    if len(there) < frame.size:
        raise ValueError("labels of the table must have different names as text, such as not both 1 and '1'")
    listed = [(cell, value) for piece in pieces for cell, value in zip(piece.cells, piece.values, strict=True)]
    counts = Counter(cell for cell, _ in listed)
    for told, wrong in (
        ("are of cells that the table does not have", [cell for cell in counts if cell not in there]),
        ("hold cells more than once", [cell for cell, times in counts.items() if times > 1]),
        ("lack cells", [cell for cell in names if cell not in counts]),
    ):
        if wrong:
            raise ValueError(f"pieces {told}: {_validate.shown(wrong)}")
    by_cell = dict(listed)
    kind = np.result_type(*{type(value) for value in by_cell.values()})
    return np.array([by_cell[name] for name in names], dtype=kind).reshape(frame.shape)


_SEED_BITS = 96


class Agent:
    """Holder of one cell, or of a block of cells, who adds the noise of these cells and no other.

    An agent is made from public things (a mechanism's description, labels, its own cells) and from the seed that all
    agents have in common. It never sees the count of another agent, and keeps none of its own. It cannot be pickled or copied
    (TypeError): a file with the seed in it would protect nothing, and a copy would not know which rounds were used.

    Parameters
    ----------
    description, frame : mapping, object
        ``mechanism.describe()``, of a mechanism whose noise is on the cells of the table, and the labels of the table, in the same
        order for all agents: DataArray, mapping, Frame.
    seed : int
        Common secret of at least 96 bits: ``secrets.randbits(128)``, made once and handed to all agents over a safe channel.
        The values of a smaller seed could be tried one by one.
    cells : str, tuple, or list of these
        What this agent holds: names of cells (``"county=Alpha, education=Low"``) or label tuples (``("Alpha", "Low")``).

    Examples
    --------
    >>> import bayesdp as bdp
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> mechanism = bdp.LatticeLaplace(bdp.Totals(counties), epsilon=0.5)
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
        self.mechanism = _adding_to_cells(Mechanism.from_description(description, Frame.of(frame)))
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
        known = Identity(self.mechanism.frame)
        self._positions = places_of(known, listed, "cells")
        if not listed or len(set(self._positions)) < len(listed):
            raise ValueError(f"cells must name one or more different cells, got {_validate.shown(listed)}")
        self._used: set[int] = set()

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells that this agent holds."""
        return tuple(self.mechanism.frame.exact_cell_name(position) for position in self._positions)

    def privatize(self, counts: Any, round_number: int) -> Piece:
        """Add the noise of this agent's cells to their counts: what is to be published, and sent again if it gets lost.

        Parameters
        ----------
        counts : int or array_like of int
            The count of the cell; for a block, one count a cell in the order of `cells`.
        round_number : int
            Number of the release, 0 or greater, the same for all agents, and never used again with this seed: from two
            releases with the same noise everybody sees by how much each count changed. An agent refuses a number that it
            has used itself; across processes and restarts you have to see to it.
        """
        number = _validate.nonnegative_integer(round_number, "round_number")
        if number in self._used:
            raise ValueError(
                f"round_number {number} was used before: the same noise on other counts would show by how much they changed; "
                "take a new number, or send the same piece again"
            )
        given, cells = np.atleast_1d(np.asarray(counts)), dict(enumerate(self.cells))
        held = _validate.integer_array(given, "counts", lambda i: cells.get(i, str(i)), minimum=0, confidential=True)
        if held.shape != (len(cells),):
            raise ValueError(
                f"counts must be one count for each of {_validate.shown(self.cells)}, got shape {held.shape}"
            )
        noise = self.mechanism.noise(np.random.default_rng([self._seed, number]), 1)[0]
        digest, step = _digest(self.mechanism), self.mechanism._noise_step
        noisy = base.add_noise(held, noise.reshape(-1)[self._positions], step, self.cells.__getitem__)
        self._used.add(number)
        return Piece(self.cells, tuple(noisy.tolist()), number, digest, noise_check(self._seed, number, digest, noise))

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
    mechanism, pieces : Mechanism, iterable of Piece
        Of the description that the agents have; of all agents, in any order.

    Returns
    -------
    Release
        With the values of ``mechanism.release(table, rng=np.random.default_rng([seed, round_number]))``. It is not marked as
        simulated, because the seed is a secret; the guarantee states against whom it does not protect.
    """
    mechanism, listed = _adding_to_cells(mechanism), list(pieces)
    for piece in listed:
        _validate.instance(piece, Piece, "pieces must hold what Agent.privatize returns")
    if not listed:
        raise ValueError("pieces must hold at least one piece, got none")
    _check_alike(listed, mechanism)
    frame = mechanism.frame
    noisy = _values_by_cell(listed, frame)
    parts = [Query(frame, (part,)) for part in mechanism.invariants.query.parts]
    exact = tuple(Exact(query, _exact_answers(query, noisy)) for query in parts)
    fiber = Fiber.of(exact, frame)
    # Without the sentence on the system's entropy: the noise is not from there.
    stated = mechanism._for_one_person(mechanism._guarantee("auto"))
    guarantee = replace(
        stated,
        caveats=(*stated.caveats, Fixed("seed of the agents")),
        determined_cells=fiber.determined_names(),
        determined_complete=fiber.determined_is_complete,
    )
    measured = Measured(mechanism.released_query, noisy, mechanism.law, mechanism.invariants)
    return Release(frame, (measured,), exact, mechanism=mechanism.describe(), guarantee=guarantee, simulated=False)


def _adding_to_cells(mechanism: Any) -> AdditiveMechanism:
    """The mechanism, if it adds noise to the cells and to nothing else."""
    _validate.instance(mechanism, Mechanism, "mechanism must be a mechanism of this package")
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


def _exact_answers(query: Query, noisy: npt.NDArray[Any]) -> Ints:
    """The answers of a query in exact arithmetic; an error where one is not a whole number."""
    values, totals = [Fraction(value) for value in noisy.reshape(-1).tolist()], [Fraction(0)] * query.rows
    entries = query.matrix.tocoo()
    for row, cell, entry in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
        totals[row] += entry * values[cell]
    for row, total in enumerate(totals):
        if total.denominator > 1:
            raise ValueError(
                f"pieces do not fit together: {query.answer_name(row)} comes out as {float(total)!r}, no whole number; some agent "
                "used another seed, version or round, or a value was changed"
            )
    return np.array([int(total) for total in totals], dtype=np.int64).reshape(query.shape)

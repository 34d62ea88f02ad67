"""The projection and the extension framework: any private mechanism, made to keep the invariants.

`project` takes a mechanism for the answers of a query, and removes what its noise changes of the invariants.
`extend` takes a mechanism for the coordinates that the invariants leave free, and puts its output back among the
answers. Neither needs to know how the mechanism works; so neither knows a likelihood. For Gaussian and Laplace noise
take `bayesdp.ProjectedGaussian` and its relatives, which have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.mechanisms.frameworks.base import GRID, FrameworkMechanism, checked_loss
from bayesdp.noise import NoiseLaw
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProjectedMechanism(FrameworkMechanism):
    """A mechanism whose output is projected; build one with `project`."""

    takes: str = field(default="answers", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice(self.takes, ("answers", "table"), "takes")

    @property
    def _verb(self) -> str:
        return "project"

    @property
    def _noise_shape(self) -> tuple[int, ...]:
        return self.query.shape

    def _noise_name(self, position: int) -> str:
        return self.query.answer_name(position)

    def _to_answers(self, noise: Floats) -> Floats:
        own = self.answer_invariants
        return own.project(noise.reshape(-1, *own.frame.shape)).reshape(noise.shape)

    def _input(self, counts: npt.NDArray[np.int64], answers: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        return (answers if self.takes == "answers" else counts), answers


@dataclass(frozen=True, eq=False)
class ExtendedMechanism(FrameworkMechanism):
    """A mechanism for the free coordinates, extended to all answers; build one with `extend`."""

    @property
    def coordinate_rule(self) -> str:
        """The rule that fixes the coordinates, see `Invariants.coordinate_rule`."""
        return self.answer_invariants.coordinate_rule

    @property
    def _verb(self) -> str:
        return "extend"

    @property
    def _noise_shape(self) -> tuple[int, ...]:
        return (self.answer_invariants.dimension,)

    def _noise_name(self, position: int) -> str:
        return f"coordinate {position + 1}"

    def _to_answers(self, noise: Floats) -> Floats:
        return self.answer_invariants.from_coordinates(noise).reshape(-1, *self.query.shape)

    def _input(self, counts: npt.NDArray[np.int64], answers: npt.NDArray[np.int64]) -> tuple[Any, Any]:
        own = self.answer_invariants
        coordinates = own.coordinates(answers.reshape(own.frame.shape))
        return coordinates, coordinates


def project(
    mechanism: Callable[..., Any] | NoiseLaw,
    query: Query,
    invariants: Any,
    *,
    loss: Mapping[str, float],
    additive: bool = False,
    unbiased: bool | None = None,
    takes: str = "answers",
    neighbours: str = "substitution",
    grid: float = GRID,
) -> ProjectedMechanism:
    r"""Make any private mechanism keep the invariants, by projecting what it adds to the answers.

    With answers ``A(x)``, a private mechanism ``M`` and the space ``N`` that the invariants leave free,
    ``A(x) + P_N (M(x) - A(x))`` has the exact invariants, and within ``N`` it is post-processing of ``M(x)``: the loss is
    that of ``M`` (Theorem 3.1). For additive noise ``e`` this is ``A(x) + P_N e`` (Corollary 3.2), which is unbiased if
    ``e`` has mean zero (Corollary 4.1).

    Parameters
    ----------
    mechanism : callable or NoiseLaw
        ``(answers, rng) -> noisy answers``, both of shape ``query.shape``; with ``takes="table"``, ``(table, rng) -> noisy
        answers``. With ``additive=True``: a noise law of independent integers, or ``(rng, size) -> noise`` of shape
        ``(size, *query.shape)``, such as the `noise` method of a mechanism of this package. All randomness should
        come from `rng`.
    query : Query
        What is answered.
    invariants : Query, iterable of Query, or Invariants
        What is published exactly, of the same table.
    loss : mapping
        What `mechanism` loses for neighbouring tables: ``{"epsilon": 1.0}``, ``{"epsilon": 1.0, "delta": 1e-6}``,
        ``{"rho": 0.1}`` or ``{"mu": 0.5}``. It is taken on your word.
    additive : bool
        Whether `mechanism` is noise, drawn without looking at the table.
    unbiased : bool, optional
        Your statement that the noise of `mechanism` has mean zero at every table. Known for noise laws.
    takes : {"answers", "table"}
        What a mechanism that is not additive is handed.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables that `loss` is for: one record changes its cell, or one comes or goes.
    grid : float
        A power of two of at most 1, far below the noise: released values are moved to multiples of it, by less than a few
        grid steps, so that exact answers are met exactly and the last digits of floating-point numbers tell nothing.

    Returns
    -------
    ProjectedMechanism
        With `release_values`, `guarantee`, and `noise` where it is additive.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, the loss is not stated in exactly one way, or the invariants determine all answers.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Theorem 3.1 and Corollary 3.2.

    Examples
    --------
    Student noise, which keeps the total once it is projected:

    >>> import numpy as np
    >>> from bayesdp.queries import Identity, Totals
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> def student(rng, size):
    ...     return 3.0 * rng.standard_t(5, size=(size, 3))
    >>> mechanism = project(
    ...     student, Identity(counties), Totals(counties), loss={"epsilon": 1.0, "delta": 1e-6}, additive=True, unbiased=True
    ... )
    >>> released = mechanism.release_values([20, 10, 5], rng=np.random.default_rng(1))
    >>> float(released.values.sum())
    35.0
    """
    return ProjectedMechanism(
        mechanism,
        query,
        invariants,
        checked_loss(loss),
        additive=additive,
        unbiased=unbiased,
        takes=takes,
        neighbours=neighbours,
        grid=grid,
    )


def extend(
    mechanism: Callable[..., Any] | NoiseLaw,
    query: Query,
    invariants: Any,
    *,
    loss: Mapping[str, float],
    additive: bool = False,
    unbiased: bool | None = None,
    neighbours: str = "substitution",
    grid: float = GRID,
) -> ExtendedMechanism:
    r"""Make a private mechanism for the free coordinates of the answers one for the answers, which keeps the invariants.

    With an orthonormal basis ``Q`` of the space that the invariants leave free, the mechanism sees ``c = Q^T A(x)`` only
    and returns noisy ``c'``; released is ``A(x) + Q (c' - c)``, its output plus what the invariants determine of the
    answers. Every mechanism that keeps the invariants has this form (Theorem 3.3).

    Parameters
    ----------
    mechanism : callable or NoiseLaw
        ``(coordinates, rng) -> noisy coordinates``, both of shape ``(n,)``, with n the `dimension` of
        ``invariants.through(query)``. With ``additive=True``: a noise law of independent integers, or
        ``(rng, size) -> noise`` of shape ``(size, n)``.
    loss : mapping
        What `mechanism` loses for neighbouring tables, as in `project`. Mind that the sensitivity is that of the
        coordinates: `bayesdp.privacy.projected_sensitivity`.
    query, invariants, additive, unbiased, neighbours, grid
        As in `project`.

    Returns
    -------
    ExtendedMechanism
        With `release_values`, `guarantee`, `coordinate_rule`, and `noise` where it is additive.

    Raises
    ------
    TypeError, ValueError
        As `project`.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Theorem 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesdp.queries import Identity, Totals
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> def laplace(coordinates, rng):
    ...     return coordinates + rng.laplace(scale=2.0, size=coordinates.shape)
    >>> mechanism = extend(laplace, Identity(counties), Totals(counties), loss={"epsilon": 1.0})
    >>> released = mechanism.release_values([20, 10, 5], rng=np.random.default_rng(1))
    >>> float(released.values.sum()), mechanism.coordinate_rule
    (35.0, 'helmert-1')
    """
    return ExtendedMechanism(
        mechanism,
        query,
        invariants,
        checked_loss(loss),
        additive=additive,
        unbiased=unbiased,
        neighbours=neighbours,
        grid=grid,
    )

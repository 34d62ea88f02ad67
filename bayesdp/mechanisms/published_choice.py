"""One of several mechanisms, drawn with public probabilities; which one it was is published."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.mechanisms.base import Mechanism
from bayesdp.privacy import Guarantee
from bayesdp.release import Release

_KINDS = ("epsilon", "rho", "mu")
"""Each is a definition of privacy by itself; a delta goes with its epsilon."""

_ROUNDED = 1e-9  # how far probabilities may be from adding up to 1


@dataclass(frozen=True)
class PublishedChoice:
    """Run one of several mechanisms for the same table and invariants, drawn with public probabilities, and say which.

    Neither the probabilities nor the draw look at the table, and the release names its mechanism: what is published is a release of
    the mechanism that was drawn, with that mechanism's law, likelihood, posterior, guarantee and file. Given the draw its guarantee
    holds; before the draw what holds is the worst of all (`losses`).

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        Two or more, all with the same invariants, of tables with the same labels.
    probabilities : sequence of float
        With which each of them is taken; they add up to 1, and must not depend on the table.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, end of Section 2.3; Kifer and Lin (2010), Towards an
    Axiomatization of Statistical Privacy and Utility (the privacy axiom of choice).

    Examples
    --------
    >>> from bayesdp.mechanisms import ExtendedLaplace, KNorm
    >>> from bayesdp.queries import Totals
    >>> total = Totals({"county": ["Alpha", "Beta", "Gamma"]})
    >>> either = PublishedChoice([ExtendedLaplace(total, epsilon=0.5), KNorm(total, epsilon=0.25)], [0.1, 0.9])
    >>> either.losses()[0][1]
    {'epsilon': 0.5}
    >>> either.release([4, 2, 9], rng=3).mechanism["mechanism"]
    'extended-laplace'
    """

    mechanisms: Sequence[Mechanism]
    probabilities: Sequence[float]

    def __post_init__(self) -> None:
        given = tuple(self.mechanisms)
        for mechanism in given:
            _validate.instance(mechanism, Mechanism, "mechanisms must be mechanisms such as ExtendedLaplace")
        weights = np.asarray(_validate.finite_array(self.probabilities, "probabilities"), dtype=np.float64)
        if weights.ndim != 1 or len(weights) < 2:
            raise ValueError(
                f"probabilities must be a list of two or more numbers, got an array of shape {weights.shape}"
            )
        total = math.fsum(weights.tolist())
        if np.any(weights <= 0.0) or abs(total - 1.0) > _ROUNDED:
            raise ValueError(f"probabilities must be positive and add up to 1, got {weights.tolist()}")
        if len(given) != len(weights):
            raise ValueError(f"mechanisms must be as many as probabilities, {len(weights)}, got {len(given)}")
        first = given[0]
        for mechanism in given[1:]:
            same = mechanism.invariants.describe() == first.invariants.describe()
            if not same or not mechanism.frame.same_cells(first.frame):
                raise ValueError(
                    f"mechanisms must all have the same invariants: {first.name!r} has {first.invariants!r}, and "
                    f"{mechanism.name!r} has {mechanism.invariants!r}"
                )
        _validate.set_fields(self, mechanisms=given, probabilities=tuple((weights / total).tolist()))

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What each mechanism protects: the guarantee of a release is that of the mechanism that was drawn."""
        return tuple(mechanism.guarantee for mechanism in self.mechanisms)

    def losses(self) -> list[tuple[str, dict[str, float]]]:
        """Bound what is lost before it is known which mechanism is drawn.

        Returns
        -------
        list of (str, dict)
            Pairs of tables, in words, and the largest epsilon, delta, rho and mu of all mechanisms for them. Pairs that a mechanism
            says nothing about, and definitions that one does not state, are left out: nothing is promised there.

        Notes
        -----
        The draw is independent of the table, so that an event has the mean, over the draw, of its probabilities. For each table pair
        and epsilon at least as large as all epsilons, the mean keeps the inequality, with the mean of the deltas; moments
        of likelihood ratios (rho) and trade-off functions (mu) are those of the worst at most.
        """
        found = []
        rows = [{str(row.relation): dict(row.loss) for row in guarantee.pairs} for guarantee in self.guarantees]
        for relation in rows[0]:
            stated = [losses[relation] for losses in rows if relation in losses]
            if len(stated) < len(rows):
                continue
            worst = {key: max(loss[key] for loss in stated) for key in _KINDS if all(key in loss for loss in stated)}
            if "epsilon" in worst and any("delta" in loss for loss in stated):
                worst["delta"] = max(loss.get("delta", 0.0) for loss in stated)
            if worst:
                found.append((relation, worst))
        return found

    def release(self, table: Any, rng: _validate.Seed = None, method: str = "auto") -> Release:
        """Draw a mechanism, without rng by the operating system's entropy, and publish its release: see `Mechanism.release`."""
        generator = _validate.random_generator(rng)
        uniform = secrets.SystemRandom().random() if generator is None else float(generator.random())
        drawn = int(np.searchsorted(np.cumsum(self.probabilities)[:-1], uniform, side="right"))
        return self.mechanisms[drawn].release(table, generator, method)

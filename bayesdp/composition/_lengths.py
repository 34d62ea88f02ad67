"""How far the smallest differences that keep the joint invariants move the answers of one release, by the law of its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bayesdp.invariants import Invariants
from bayesdp.privacy import Difference
from bayesdp.privacy.losses import ApproximateDP, GaussianDP, Loss
from bayesdp.release import Release
from bayesdp.sensitivities.difference_lengths import difference_lengths
from bayesdp.sensitivities.norms import DifferenceNorm


@dataclass(frozen=True)
class Known:
    """What one release loses at a difference."""

    loss: Loss  # in the definition of privacy that its guarantee states
    normal: GaussianDP | None = None  # beside epsilon and delta, of normal noise: its mu adds up exactly
    exact: bool = False  # whether every pair of the kind has this loss, and no less

    @classmethod
    def of_row(cls, kind: str, row: Loss, *, exact: bool = False) -> Known:
        """The loss of a kind out of a row of a guarantee, which may state others beside it."""
        normal = row.stated("gdp") if kind == "approximate" else None
        return cls(row.to(kind), normal if isinstance(normal, GaussianDP) else None, exact)

    def group(self, k: int) -> Known:
        """The loss of two tables that are k neighbouring steps apart; of normal noise by its mu, at the delta of one step."""
        if self.normal is None or not isinstance(self.loss, ApproximateDP):
            return Known(self.loss.group(k))
        farther = self.normal.group(k)
        return Known(farther.at(self.loss.delta) if self.loss.delta < 1.0 else self.loss, farther)


def known_losses(release: Release, joint: Invariants) -> dict[Difference, Known]:
    """The loss of a release with one noisy part at each kind of difference that keeps the joint invariants."""
    # Only where it follows from the law of the noise: for each kind of difference the largest length of what it changes in the
    # answers, over all such differences, in the norm of the noise. The invariants of the release follow from `joint`.
    stated = release.guarantee
    if stated is None or len(release.measurements) != 1:
        return {}
    [measured] = release.measurements
    scale = measured.law.pair_loss(measured.query, measured.invariants or release.invariants)
    if scale is None or stated.kind not in scale.kinds:
        return {}
    delta = stated.parameters.get("delta")
    # The length of a step is left open: a bound by steps is taken elsewhere, from the loss that the release states.
    norm = DifferenceNorm(measured.query, joint, "add-remove", math.inf, scale.norm, scale.coordinates)
    found = {}
    for own in difference_lengths(norm):
        if math.isfinite(own.size):
            exact = not own.bound and scale.tight
            found[own.difference] = Known.of_row(stated.kind, scale.loss(own.size, delta), exact=exact)
    return found

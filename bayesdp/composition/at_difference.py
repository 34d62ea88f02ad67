"""What one or several releases lose at a difference of one's own choice: to compare releases whose invariants are not the same."""

from __future__ import annotations

from collections.abc import Sequence

from bayesdp.composition._lengths import known_losses
from bayesdp.composition._losses import common_kind, loss_of, total
from bayesdp.composition.nestedness import is_nested
from bayesdp.invariants import Invariants
from bayesdp.privacy import Difference
from bayesdp.privacy.losses import Loss
from bayesdp.queries import Totals
from bayesdp.release import Release


def loss_at_difference(
    releases: Sequence[Release], difference: Difference, invariants: Invariants, delta: float | None = None
) -> Loss | None:
    """The loss of releases of one table together, for tables that agree on some invariants and differ in one kind of way.

    It is the row that `compose` would state for that difference if the invariants were those of the releases.

    Parameters
    ----------
    releases : sequence of Release
        With independent noise.
    difference : Difference
        One that the invariants leave free, see `bayesdp.sensitivities.kept.kept_differences`.
    invariants : Invariants
        They determine those of every release: tables that agree on them agree on all that the releases publish exactly.
    delta : float, optional
        Puts mu and epsilon together, where releases state one each; not used otherwise.

    Returns
    -------
    Loss or None
        An upper bound, exact where the law of the noise gives it; None where it does not follow from what the releases state.

    Raises
    ------
    ValueError
        If the losses cannot be added, or nothing is noisy, or a release states none.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> by_total = bdp.LatticeLaplace(bdp.Totals(labels), epsilon=0.25).release([[5, 3], [2, 7]], rng=1)
    >>> margins = bdp.Invariants(bdp.Margins(labels, ["county"], ["education"]))
    >>> print(loss_at_difference([by_total], bdp.privacy.DIFFERENCES["2x2 move"], margins))
    epsilon = 1
    """
    noisy = [own for own in releases if own.measurements]
    stated = [own.guarantee for own in noisy if own.guarantee is not None]
    if not noisy or len(stated) < len(noisy):
        raise ValueError("releases must have noise, and each of those with noise a guarantee")
    kinds = {own.kind for own in stated}
    both = delta if "gdp" in kinds and kinds & {"pure", "approximate"} and "zcdp" not in kinds else None
    kind = common_kind(stated, both)
    same_total = is_nested(invariants, Invariants(Totals(invariants.frame)))
    found = [loss_of(own, difference, known_losses(own, invariants), total_is_exact=same_total) for own in noisy]
    known = [own for own in found if own is not None]
    return total(known, kind, both) if len(known) == len(found) else None

"""A release as the target of a chain, without a model: its exact answers as a fiber, its noisy ones as normal terms."""

from __future__ import annotations

import numpy as np

from bayesdp.fibers import NoiseTerm, Target
from bayesdp.hierarchies.structure import sum_parts
from bayesdp.hierarchies.tree import NoStructure
from bayesdp.measurements import Measured
from bayesdp.release import Release

_OTHERWISE = "put the release into a model with bdp.observe and draw with bdp.sample, which know it"


def target_of(release: Release, family: str) -> Target:
    """The posterior of a release's table under a prior of independent cells of a family, in the form that chains take."""
    if not isinstance(release, Release):
        raise TypeError(f"release must be a bayesdp.Release, got {type(release).__name__}")
    if release.about != "counts":
        raise ValueError("release is about statistics, which are real numbers; a hierarchy has counts in its cells")
    target = Target(release.fiber, tuple(noise_term(measured) for measured in release.measurements), family)
    if family == "flat":
        open_ = np.flatnonzero(target.unsupported_cells())
        if open_.size:
            raise ValueError(
                "a flat prior needs noise or exact answers at every cell, and nothing bounds "
                f"{release.frame.cell_name(int(open_[0]))} from above: the posterior is improper"
            )
    return target


def noise_term(measured: Measured) -> NoiseTerm:
    """A noisy part of a release of a hierarchy as a term of a target; errors are those of `target_of`."""
    law, query = measured.law, measured.query
    form = law.kernel_form
    # Noise that is cut off at bounds has the form of its free law, with factors besides that this form does not have.
    normal = form is not None and form.kind == "gaussian" and form.coordinates is None
    if not normal or law.support not in ("integers", "reals"):
        raise NotImplementedError(
            f"hierarchies take normal noise that is independent in each answer, and the law of {measured!r} is {law.name!r}: "
            f"{_OTHERWISE}"
        )
    try:
        sum_parts([query])
    except NoStructure as reason:
        raise NotImplementedError(f"hierarchies take sums of cells, and {measured!r} is none: {_OTHERWISE}") from reason
    scale = np.broadcast_to(np.asarray(getattr(law, law.kernel_parameters[0]), dtype=np.float64), query.shape)
    unmeasured = measured.unmeasured.reshape(-1)
    values = np.where(unmeasured, 0.0, np.asarray(measured.values, dtype=np.float64).reshape(-1))
    return NoiseTerm(query, values, "gaussian", scale.reshape(-1).copy(), ~unmeasured)

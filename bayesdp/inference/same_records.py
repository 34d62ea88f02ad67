"""That answers about the same records have one perturbation, as a variable of a model that observes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm

from bayesdp.distributions.perturbed.by_rows import rows_of
from bayesdp.distributions.same_records import SameRecords, SharedPart
from bayesdp.inference.noisy_part import free_name
from bayesdp.inference.registry import observed_by
from bayesdp.measurements import Measured
from bayesdp.noise.records import shared_laws


def observe_same_records(model: pm.Model, x: Any, measurements: Sequence[Measured], data: Sequence[Any]) -> None:
    """Add the term of answers about the same records, where two answers may be; releases observed before are part of it."""
    # `x`: the counts. `measurements`: that the model has just observed. `data`: their published numbers.
    known = [
        (measured, model[name])
        for variable, release, published in observed_by(model)
        if variable == x.name and release.about == "counts"
        for measured, name in zip(release.measurements, published, strict=False)
    ]
    pairs = [*known, *zip(measurements, data, strict=True)]
    laws = shared_laws([(measured.law, measured.query) for measured, _ in pairs])
    parts = []
    for (measured, numbers), shared in zip(pairs, laws, strict=True):
        published = ~measured.unmeasured.reshape(-1)
        own = np.where(published, shared, 0)
        parts.append((SharedPart(measured.query, measured.law, published, own), numbers))
    parts = [(part, numbers) for part, numbers in parts if part.shared.any()]
    before = {id(numbers) for _, numbers in known}
    count = sum(id(numbers) in before for _, numbers in parts)
    if count == len(parts) or not _overlap([part for part, _ in parts]):
        return
    SameRecords(
        free_name(model, "same_records"),
        x,
        [
            *(numbers for _, numbers in parts),
            *(rows for part, _ in parts if (rows := rows_of(model, part.law)) is not None),
        ],
        parts=[part for part, _ in parts],
        known=count if _overlap([part for part, _ in parts[:count]]) else 0,
        observed=np.int64(0),
    )


def _overlap(parts: Sequence[SharedPart]) -> bool:
    """Whether two answers under one law have a cell in common."""
    seen: Mapping[int, Any] = {}
    for part in parts:
        for law in np.unique(part.shared[part.shared > 0]).tolist():
            often = np.asarray(part.query.matrix[np.flatnonzero(part.shared == law)].sum(axis=0)).reshape(-1)
            seen = {**seen, law: seen.get(law, 0) + often}
    return any(bool(np.any(often > 1)) for often in seen.values())

"""What a run of the fuzzer has found, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from tests.storage.fuzz.outcome import Outcome

_VERDICTS = ["refused", "accepted", "defect", "unmade"]


def table(outcomes: Sequence[Outcome], folder: str) -> str:
    """Cases by target, the longest and the largest, and the defects by class; `folder` has the files of defects."""
    found = pd.DataFrame([asdict(own) for own in outcomes])
    found = pd.concat([found, found.assign(target="all")])
    counts = pd.crosstab(found.target, found.verdict).reindex(columns=_VERDICTS, fill_value=0)
    most = found.groupby("target").agg(longest_s=("seconds", "max"), most_MB=("megabytes", "max")).round(2)
    counts.insert(0, "cases", counts.sum(axis=1))
    names = [*sorted({own.target for own in outcomes}), "all"]
    lines = [counts.join(most).loc[names].to_string()]
    defects: dict[str, list[Outcome]] = {}
    for own in outcomes:
        if own.verdict == "defect":
            defects.setdefault(own.sort, []).append(own)
    for sort, of_sort in sorted(defects.items()):
        first = of_sort[0]
        cases = ", ".join(str(own.case) for own in of_sort[:8]) + (", ..." if len(of_sort) > 8 else "")
        lines += ["", f"{sort}: {len(of_sort)} (cases {cases})"]
        lines += [f"  case {first.case}, {first.target}, {first.how}"[:400], f"  {first.message!r:.400}"]
    if defects:
        lines += ["", f"The files of defects are in {folder}; one case again: --case NUMBER, with the same seed."]
    return "\n".join(lines)

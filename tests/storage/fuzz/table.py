"""What a run of the fuzzer has found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from tests.storage.fuzz.outcome import Outcome

__all__ = ["table"]

_VERDICTS = ("refused", "accepted", "defect", "unmade")


def table(outcomes: Sequence[Outcome], folder: str) -> str:
    """Cases by target, the longest and the largest, and the defects by class.

    Parameters
    ----------
    outcomes : sequence of Outcome
    folder : str
        Where the files of defects are.
    """
    names = list(dict.fromkeys(own.target for own in sorted(outcomes, key=lambda own: own.target)))
    width = max([len(name) for name in names] + [8])
    lines = [
        f"{'target':{width}}  {'cases':>6}"
        + "".join(f" {own:>9}" for own in _VERDICTS)
        + f" {'longest s':>10} {'most MB':>8}"
    ]
    for name in [*names, ""]:
        own = [outcome for outcome in outcomes if name in ("", outcome.target)]
        counts = [sum(outcome.verdict == verdict for outcome in own) for verdict in _VERDICTS]
        seconds = max((outcome.seconds for outcome in own), default=0.0)
        megabytes = max((outcome.megabytes for outcome in own), default=0.0)
        lines.append(
            f"{name or 'all':{width}}  {len(own):6}"
            + "".join(f" {count:9}" for count in counts)
            + f" {seconds:10.2f} {megabytes:8.0f}"
        )
    defects = [own for own in outcomes if own.verdict == "defect"]
    for sort in sorted({own.sort for own in defects}):
        own = [outcome for outcome in defects if outcome.sort == sort]
        first = own[0]
        cases = ", ".join(str(outcome.case) for outcome in own[:8]) + (", ..." if len(own) > 8 else "")
        lines += ["", f"{sort}: {len(own)} (cases {cases})"]
        lines += [f"  case {first.case}, {first.target}, {first.how}"[:400], f"  {first.message!r:.400}"]
    if defects:
        lines += [
            "",
            f"The files of the {len(defects)} defects are in {folder}; one case again: --case NUMBER, with the same seed.",
        ]
    return "\n".join(lines)

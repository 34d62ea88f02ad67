"""Whether exact values agree with one another, and noisy tables with them and with the law of their noise."""

from bayesdp.measurements.consistency.exact import (
    FALSE_ALARMS,
    CountedOnceWarning,
    PostProcessedWarning,
    check_consistent,
    check_noisy_keeps_invariants,
    counted_once,
    determined_answers,
    implied_answers,
    unmoved,
    unseen_tables,
)
from bayesdp.measurements.consistency.law_check import LawCheck, law_check, warn_of_law
from bayesdp.measurements.consistency.post_processed import (
    check_not_made_consistent,
    made_consistent,
    signs_of_post_processing,
    warn_if_post_processed,
)

__all__ = [
    "FALSE_ALARMS", "CountedOnceWarning", "LawCheck", "PostProcessedWarning", "check_consistent", "check_noisy_keeps_invariants",
    "check_not_made_consistent", "counted_once", "determined_answers", "implied_answers", "law_check", "made_consistent",
    "signs_of_post_processing", "unmoved", "unseen_tables", "warn_if_post_processed", "warn_of_law",
]  # fmt: skip

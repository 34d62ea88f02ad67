"""What several releases of one table say together (`compose`), and whether their numbers fit their laws (`check_law`)."""

from bayesdp.mechanisms.composition._total import is_nested
from bayesdp.mechanisms.composition.composing import (
    Composition,
    as_one,
    check_law,
    compose,
    joint_release,
    loss_at_difference,
)
from bayesdp.mechanisms.stated import LOSS_UNKNOWN

__all__ = [
    "LOSS_UNKNOWN", "Composition", "as_one", "check_law", "compose", "is_nested", "joint_release", "loss_at_difference",
]  # fmt: skip

"""What several releases of one table say together: their joint invariants, and the privacy that is left.

- `compose` several releases: joint invariant, joint fiber, its semi-adjacent parameter, cells that only the
  combination determines, total loss;
- `is_nested`: whether the invariants of one release follow from those of another.
"""

from __future__ import annotations

from bayesdp.composition.composed import Composition
from bayesdp.composition.composing import compose
from bayesdp.composition.nestedness import is_nested

__all__ = ["Composition", "compose", "is_nested"]

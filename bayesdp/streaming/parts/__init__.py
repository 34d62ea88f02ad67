"""Posteriors of hierarchies part by part, on several machines: `bdp.fit_parts`."""

from __future__ import annotations

from bayesdp.streaming.parts.fitting import fit_parts

__all__ = ["fit_parts"]

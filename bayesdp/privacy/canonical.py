"""Canonical noise of a symmetric trade-off function f (Awan and Vadhan, 2023; paper 003, Definition 35).

A law F, symmetric about 0, such that telling F from F shifted by 1 is exactly as hard as f says. In the
convention of Dong, Roth and Su, ``F(x - 1) = f(1 - F(x))``.

The objects are meant for p-values and simulation: their draws are floating-point inversions, which is not
how to publish a confidential number.
"""

from __future__ import annotations

from bayesdp.privacy.tradeoffs.noise import CanonicalNoise, GaussianNoise, RecursiveNoise, Tulap

__all__ = ["CanonicalNoise", "GaussianNoise", "RecursiveNoise", "Tulap"]

"""What a guarantee says of lattice noise that integer arithmetic has drawn."""

from __future__ import annotations

from bayesdp.invariants import Invariants
from bayesdp.lattices.secure.secure import has_secure
from bayesdp.noise.secure import statement
from bayesdp.privacy.caveats import IntegersOnly

__all__ = ["secure_statement"]


def secure_statement(invariants: Invariants, law: str, method: str) -> IntegersOnly | None:
    """Say how lattice noise is drawn without a generator; None where integers alone cannot do it, or MCMC is asked for."""
    return statement("integers", extra=False) if method != "mcmc" and has_secure(invariants, law) else None

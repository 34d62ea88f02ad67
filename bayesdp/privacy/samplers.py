"""How the noise of a release was drawn: exactly from its law, or by a Markov chain whose convergence nobody has certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesdp import _validate
from bayesdp.privacy.words import Words

__all__ = ["EXACT_SAMPLER", "SamplerStatement", "gibbs_sampler", "hit_and_run_sampler"]

_CHAINS = ("Gibbs", "hit-and-run")


@dataclass(frozen=True, eq=False, repr=False)
class SamplerStatement(Words):
    """How the noise was drawn; as text, what a guarantee says of it.

    Parameters
    ----------
    chain : {"", "Gibbs", "hit-and-run"}
        The Markov chain; "" for noise that is drawn from its law, up to floating point.
    sweeps : int
        Sweeps run for each draw; 0 without a chain.

    Examples
    --------
    >>> SamplerStatement(), SamplerStatement("Gibbs", 1000)
    ('exact', 'approximate: 1000 sweeps of Gibbs, convergence not certified')
    """

    chain: str = ""
    sweeps: int = 0
    name = "sampler"

    def __post_init__(self) -> None:
        _validate.choice(self.chain, ("", *_CHAINS), "chain")
        if self.chain:
            _validate.positive_integer(self.sweeps, "sweeps")
        elif self.sweeps:
            raise ValueError(f"sweeps must be 0 without a chain, got {self.sweeps!r}")

    @classmethod
    def _words(cls, chain: str, sweeps: int) -> str:
        return f"approximate: {sweeps} sweeps of {chain}, convergence not certified" if chain else "exact"

    @property
    def exact(self) -> bool:
        """Whether the noise has the stated law."""
        return not self.chain

    @classmethod
    def of(cls, sampler: Any) -> SamplerStatement:
        """Accept a sampler, or its text as files have it.

        Raises
        ------
        ValueError
            If it is none.
        """
        if isinstance(sampler, cls):
            return sampler
        if isinstance(sampler, str):
            sweeps = next((int(part) for part in sampler[:60].split() if part.isascii() and part.isdigit()), 0)
            for known in (EXACT_SAMPLER, *(cls(chain, sweeps) for chain in _CHAINS if sweeps)):
                if sampler == known:
                    return known
        raise ValueError(
            f"sampler must be {EXACT_SAMPLER!r} or 'approximate: n sweeps of Gibbs, convergence not certified', got {sampler!r}"
        )


EXACT_SAMPLER = SamplerStatement()
"""The noise is drawn from its law, up to floating point."""


def gibbs_sampler(sweeps: int) -> SamplerStatement:
    """Say that the noise is the end of a Gibbs chain whose convergence nobody has certified.

    Parameters
    ----------
    sweeps : int
        Sweeps run for each draw.

    Raises
    ------
    TypeError, ValueError
        If it is not a positive integer.

    Examples
    --------
    >>> gibbs_sampler(1000)
    'approximate: 1000 sweeps of Gibbs, convergence not certified'
    """
    return SamplerStatement("Gibbs", _validate.positive_integer(sweeps, "sweeps"))


def hit_and_run_sampler(sweeps: int) -> SamplerStatement:
    """Say that the noise is the end of a chain of hit-and-run steps whose convergence nobody has certified.

    Examples
    --------
    >>> hit_and_run_sampler(50)
    'approximate: 50 sweeps of hit-and-run, convergence not certified'
    """
    return SamplerStatement("hit-and-run", _validate.positive_integer(sweeps, "sweeps"))

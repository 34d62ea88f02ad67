"""Privacy parameters of Gaussian mechanisms: one way of stating them, and the scale that follows."""

from __future__ import annotations

from bayesdp._validate import positive_real, probability

__all__ = ["one_statement"]


def one_statement(given: dict[str, float | None], ways: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Check that the loss is stated in exactly one way, and that its numbers are valid.

    Parameters
    ----------
    given : dict
        Parameter -> value, None where it was left out.
    ways : tuple of tuple of str
        Each way of stating the loss, as the names that belong together.

    Returns
    -------
    tuple of str
        The way that was taken.

    Examples
    --------
    >>> one_statement({"rho": None, "epsilon": 1.0, "delta": 1e-6}, (("rho",), ("epsilon", "delta")))
    ('epsilon', 'delta')
    """
    stated = tuple(name for name, value in given.items() if value is not None)
    if stated not in ways:
        told = " or ".join(" and ".join(f"{name}=" for name in way) for way in ways)
        raise ValueError(f"state the loss by {told}, and by one of these only; got {', '.join(stated) or 'none'}")
    for name in stated:
        if name == "delta":
            probability(given[name], name)
        else:
            positive_real(given[name], name)
    return stated

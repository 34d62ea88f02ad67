"""What a default prior is: a name, a formula, hyperparameters, and a function that builds the model.

``bayesdp --help`` reads them, so that nothing slow to import, NumPy included, is imported with these modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymc as pm

    from bayesdp.release import Release


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter.

    Parameters
    ----------
    name : str
        Its name, in Python and on the command line.
    default : float, bool, str or None
        Its value if none is given. None: found from published numbers, as `text` says.
    text : str
        What it is.
    kind : {"positive", "nonnegative", "boolean", "text"} or tuple of str
        What values it takes; a tuple lists them.
    default_text : str
        Short text for a default of None, such as "published".
    """

    name: str
    default: Any
    text: str
    kind: str | tuple[str, ...] = "positive"
    default_text: str = "published"

    def checked(self, value: Any) -> Any:
        """Accept a value, or raise an error that names the hyperparameter."""
        from bayesdp._validate import boolean, choice, nonnegative_real, positive_real

        if value is None:
            return self.default
        if isinstance(self.kind, tuple):
            return choice(value, self.kind, self.name)
        if self.kind == "boolean":
            return boolean(value, self.name)
        if self.kind == "text":
            if not isinstance(value, str):
                raise TypeError(f"{self.name} must be a string, got {value!r}")
            return value
        return (positive_real if self.kind == "positive" else nonnegative_real)(value, self.name)

    def parsed(self, text: str) -> Any:
        """Read a value from the command line, and check it."""
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise ValueError(f"{self.name} must be true or false, got {text!r}")
            return text == "true"
        if isinstance(self.kind, tuple) or self.kind == "text":
            return self.checked(text)
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{self.name} must be a number, got {text!r}") from None
        return self.checked(number)


@dataclass(frozen=True)
class Prior:
    """A default prior.

    Parameters
    ----------
    name : str
        Its name.
    title : str
        What it says, in a few words.
    formula : str
        The model, line by line.
    hyperparameters : tuple of Hyperparameter
        What can be set.
    build : callable
        Release and checked hyperparameters to a model with the counts ``x``.
    """

    name: str
    title: str
    formula: str
    hyperparameters: tuple[Hyperparameter, ...]
    build: Callable[[Release, Mapping[str, Any]], pm.Model]

    def _of(self, name: str) -> Hyperparameter:
        for hyper in self.hyperparameters:
            if hyper.name == name:
                return hyper
        names = ", ".join(hyper.name for hyper in self.hyperparameters)
        raise ValueError(f"the prior {self.name!r} has no hyperparameter {name!r}; it has {names}")

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All hyperparameters: those given, checked, and defaults for the others."""
        for name in given:
            self._of(name)
        return {hyper.name: hyper.checked(given.get(hyper.name)) for hyper in self.hyperparameters}

    def parsed(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Hyperparameters written as text, as on the command line."""
        return {name: self._of(name).parsed(text) for name, text in given.items()}

    def described(self, values: Mapping[str, Any]) -> str:
        """The prior with the values of its hyperparameters, for a report."""
        texts = [
            f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in values.items()
        ]
        return "\n".join([f"{self.name}: {self.title}", *self.formula.splitlines(), f"with {', '.join(texts)}"])

    def help(self) -> str:
        """The prior as the command line describes it."""
        lines = [f"{self.name}: {self.title}", *(f"    {line}" for line in self.formula.splitlines())]
        for hyper in self.hyperparameters:
            values = f" ({' or '.join(hyper.kind)})" if isinstance(hyper.kind, tuple) else ""
            default = hyper.default_text if hyper.default is None else str(hyper.default).lower()
            lines.append(f"      {hyper.name:<16} {hyper.text}{values} [default: {default}]")
        return "\n".join(lines)

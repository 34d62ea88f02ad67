"""What the laws of perturbed counts share: they look everything up in a table p(y | x)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.noise._verbs import LogMassWindows
from bayesdp.noise.arrays import count_of, located, values_and_location
from bayesdp.noise.base import Floats, Ints, NoiseLaw
from bayesdp.noise.perturbed.transitions import Transitions


class PerturbedLaw(NoiseLaw):
    """Counts that were published instead of true ones: each answer by a law p(y | x) of its true count x, a whole number >= 0.

    A law states `transitions`, the table of its probabilities; everything else follows. Such laws are not differentially
    private, and claim no guarantee.
    """

    support = "counts"
    family = "perturbed"
    integer = True
    additive = False

    @property
    @abstractmethod
    def transitions(self) -> Transitions:
        """The table of probabilities; made once."""

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Sum the log-masses of all values; ``-inf`` if one cannot be. See `NoiseLaw.logp`."""
        return float(np.sum(self.log_each(values, location)))

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0) -> Floats:
        """Log-mass of each published value given its true count, elementwise.

        Parameters
        ----------
        values, location : array_like
            Finite numbers below 2**53 in size, of shapes that broadcast.

        Returns
        -------
        numpy.ndarray
            ``-inf`` where the value cannot be, or the location is not a count.
        """
        return self.transitions.log_each(*values_and_location(values, location))

    log_mass = log_each

    def mean(self, location: npt.ArrayLike = 0) -> Floats:
        """Mean of the published value given each true count, elementwise."""
        counts = self._counts(np.asarray(location))
        return np.asarray(counts + self.bias(counts))

    def bias(self, location: npt.ArrayLike = 0) -> Floats:
        """Mean minus true count, elementwise."""
        counts = self._counts(np.asarray(location))
        return np.asarray(self.transitions.moments[0][self.transitions.row_of(counts)])

    def variance(
        self,
        shape: tuple[int, ...],
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats | None:
        """Variance given each true count, shape `shape`; None without them, on which it depends."""
        if location is None:
            return None
        counts = self._counts(located(location, shape))
        return np.asarray(self.transitions.moments[1][self.transitions.row_of(counts)])

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Ints:
        """Draw published values for true counts (zero by default). See `NoiseLaw.draw`.

        Raises
        ------
        ValueError
            If a location is not a count that the law knows.
        """
        counts = self._counts(located(location, shape))
        whole = counts if size is None else np.broadcast_to(counts, (count_of(size), *shape))
        return self.transitions.draw(_validate.generator_of(rng), np.array(whole, order="C"))

    @property
    def limits(self) -> tuple[Any, Any]:
        """The smallest and the largest value that can be published."""
        return self.transitions.ends

    @property
    def not_private(self) -> str:
        """That the law is not differentially private."""
        if not self.transitions.period:
            return f"no differential privacy is claimed for counts perturbed by {self.name}"
        why = "a published one rules out true counts that are far from it"
        return f"counts perturbed by {self.name} are not differentially private: {why}"

    @property
    def largest_location(self) -> float:
        """The largest true count that the table knows."""
        return self.transitions.largest_count

    def refusals(self, values: Floats | Ints) -> dict[int, str]:
        """Why values cannot have been published, by their places in C order: the true counts that were tried."""
        flat = np.asarray(values, dtype=np.float64).reshape(-1)
        whole = flat == np.rint(flat)  # of fractions the measurement itself says more
        places = np.flatnonzero(whole)
        bad = places[~self.transitions.possible(flat[whole].astype(np.int64))]
        return {int(place): self._tried(int(flat[place])) for place in bad}

    def _tried(self, value: int) -> str:
        low, high = self.transitions.candidates(value)
        if low > high:
            tried = (
                f"no count is near enough, deviations go from {self.transitions.lowest} to {self.transitions.highest}"
            )
        else:
            tried = f"counts from {low} to {high} were tried" if low < high else f"the count {low} was tried"
        return f"which no count leads to under the law {self}: {tried}"

    def windows(self, values: Floats | Ints) -> LogMassWindows:
        """The log-mass of published values as functions of their true counts; see `NoiseLaw.windows`."""
        return self.transitions.windows(np.asarray(values, dtype=np.int64))

    def _counts(self, location: npt.NDArray[Any]) -> Ints:
        """Locations as counts that the law knows."""
        array = _validate.finite_array(location, "location")
        flat = array.reshape(-1)
        largest = self.transitions.largest_count
        bad = np.flatnonzero((flat != np.rint(flat)) | (flat < 0) | (flat > largest))
        if bad.size:
            where = tuple(int(i) for i in np.unravel_index(bad[0], array.shape))
            upto = "" if np.isinf(largest) else f" of at most {largest:.0f}"
            at = f"at position {where} it is" if where else "it is"
            raise ValueError(
                f"location must be a count, a whole number >= 0{upto}, under the law {self.name!r}, "
                f"but {at} {flat[bad[0]].item()!r}"
            )
        return array.astype(np.int64)

    @staticmethod
    def _shown(value: Any) -> str:
        """A parameter in one line; a list of numbers as on the command line."""
        if isinstance(value, tuple):
            return ":".join(PerturbedLaw._shown(own) for own in value)
        return repr(value) if isinstance(value, float) else str(value)

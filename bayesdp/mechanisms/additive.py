"""Mechanisms whose noise is added to the answers, and does not depend on them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.mechanisms._shared import add_noise
from bayesdp.mechanisms.base import Mechanism


@dataclass(frozen=True)
class AdditiveMechanism(Mechanism):
    """A mechanism that publishes answer + noise, where the law of the noise is the same for all answers.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    """

    @abstractmethod
    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[Any]:
        """Noise of shape ``(size, *answers)``, in the shape of `answer_invariants`."""

    def noise(self, rng: _validate.Seed = None, size: int = 1, method: str = "auto") -> npt.NDArray[Any]:
        """Draw noise, as a release adds it.

        Parameters
        ----------
        rng : int, numpy.random.Generator or None
            Without one, integer arithmetic and the operating system's entropy only, where the law allows it: slower, and as a
            release is drawn. Other laws take NumPy's PCG64 generator, seeded from that entropy; it is no cryptographic one.
        size : int
            Number of independent draws.
        method : {"auto", "exact", "mcmc"}
            ``auto`` is exact where an exact sampler is known.

        Returns
        -------
        numpy.ndarray, shape ``(size, *query.shape)``
            For noise on the cells, the shape of the table.

        Raises
        ------
        NotImplementedError
            If exact draws are asked for and no exact sampler is known.
        """
        return self._draw(_validate.random_generator(rng), size, method).reshape(-1, *self.released_query.shape)

    def _noisy(self, answers: npt.NDArray[Any], rng: np.random.Generator | None, method: str) -> npt.NDArray[Any]:
        """Noisy answers, of the same shape."""
        noise = self._draw(rng, 1, method)[0].reshape(answers.shape)
        return add_noise(answers, noise, self._noise_step, self.released_query.answer_name)

    @property
    def _noise_step(self) -> float:
        """The power of two, at most 1, that noise is a multiple of."""
        return 1.0

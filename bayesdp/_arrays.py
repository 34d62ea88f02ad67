"""Kinds of arrays, as annotations name them."""

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]
type Words = npt.NDArray[np.uint64]
"""The state of a generator, shape (4,), see `bayesdp._numba`."""

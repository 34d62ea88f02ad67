"""Parts that move side by side have the joint posterior of all of them, against tables that are all listed."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.streaming.parts import driver
from bayesdp.streaming.parts.top import above, split_noise
from tests.comparison.chi_square import chi_square_pvalue
from tests.comparison.variation import assert_close_in_variation, variation_between
from tests.streaming.parts.cases import FRAME, PRIOR, country, posterior

RATE = 1e-5
"""False alarms of each comparison."""

BY_STATE = bdp.Margins(FRAME, ["state", "race"])


def _sums(release):
    """The sums of the states by race: all that there are, with their probabilities."""
    tables, probability = posterior(release)
    sums = BY_STATE.apply(tables)
    every, where = np.unique(sums.reshape(len(sums), -1), axis=0, return_inverse=True)
    return every, np.bincount(where.reshape(-1), weights=probability)

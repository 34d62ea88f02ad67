"""Draws of single integers inside numba kernels, from the state of `bayesdp._numba`.

Round real noise that changes no invariant to integer noise that changes no invariant.
"""

from __future__ import annotations

import math

import numpy as np

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._nested import NestedSums
from bayesdp._numba import exponential, nb, next_word, uniform
from bayesdp.fibers.moves.basis import kernel_basis
from bayesdp.invariants import Invariants


@nb.njit(cache=True, error_model="numpy")
def spare_bits(n: int) -> int:
    """How many of 64 random bits are left over when an integer in 0 .. n-1 is drawn."""
    bits = 1
    while bits < 63 and (1 << bits) < n:
        bits += 1
    return 64 - bits


@nb.njit(cache=True, error_model="numpy")
def uniform_below(state: Words, n: int, spare: int) -> int:
    """An integer in 0 .. n-1, uniform without any rounding; `spare` is `spare_bits` of n, or of anything a little larger."""
    while True:
        value = int(next_word(state) >> np.uint64(spare))
        if value < n:
            return value


@nb.njit(cache=True, error_model="numpy")
def geometric(state: Words, rate: float) -> int:
    """An integer g >= 0 with probability ``(1 - a) a**g``, ``a = exp(-rate)``."""
    return int(exponential(state) / rate)


@nb.njit(cache=True, error_model="numpy")
def discrete_laplace(state: Words, rate: float) -> int:
    """An integer k with mass proportional to ``exp(-rate |k|)``: the difference of two geometric ones."""
    return geometric(state, rate) - geometric(state, rate)


@nb.njit(cache=True, error_model="numpy")
def discrete_gaussian(state: Words, sigma: float) -> int:
    """An integer k with mass proportional to ``exp(-k**2 / (2 sigma**2))``."""
    # Rejection from the discrete Laplace law of scale t = floor(sigma) + 1 (Canonne, Kamath and Steinke, 2020, Algorithm 3); more
    # than a third of the proposals are accepted, whatever sigma.
    t = math.floor(sigma) + 1.0
    while True:
        k = discrete_laplace(state, 1.0 / t)
        excess = (abs(k) - sigma * sigma / t) / sigma
        if uniform(state) < math.exp(-0.5 * excess * excess):
            return k


def round_to_lattice(values: Floats, invariants: Invariants) -> Ints:
    """Integer tables that change no invariant near real ones, shape ``(..., *table)``, which change none up to rounding errors."""
    # Every cell is rounded to r, and an integer table with the same sums as r is subtracted, so that all sums of the result are 0.
    # The map is equivariant: adding a vector of the lattice to `values` adds the same vector to the result. Most cells differ from
    # `values` by at most 1/2. For margins and totals, cells with a first label carry what is taken off, about the square root of the
    # number of cells that they answer for.
    # floor(v + 1/2), unlike rint, commutes with adding any integer.
    whole = np.floor(values + 0.5).astype(np.int64)
    if invariants.nested is not None:
        return whole - _seen(whole, invariants.nested)
    if invariants.blocks is not None:
        return _settle_blocks(whole, invariants.blocks)
    basis = kernel_basis(invariants).toarray()
    tables = values.reshape(-1, invariants.frame.size)
    coordinates = np.linalg.lstsq(basis.T.astype(np.float64), tables.T, rcond=None)[0]
    return np.asarray(np.floor(coordinates.T + 0.5).astype(np.int64) @ basis).reshape(values.shape)


def _settle_blocks(table: Ints, blocks: Ints) -> Ints:
    """Take the total of each block off its first cell, in tables of shape ``(..., *table)``."""
    flat = table.reshape(-1, len(blocks)).copy()
    for block in np.unique(blocks[blocks >= 0]):
        cells = np.flatnonzero(blocks == block)
        flat[:, cells[0]] -= flat[:, cells].sum(axis=1)
    return flat.reshape(table.shape)


def _seen(table: Ints, nested: NestedSums) -> Ints:
    """An integer table with the same sums, on few cells."""
    # A projection is a signed combination of averages over classes (`NestedSums.signed_levels`). The same combination of class
    # sums, each put on the first label of its class, has the same sums: along a dimension both kinds of operators have the same
    # products: that of two levels is the coarser one.
    total = np.zeros_like(table)
    lead = table.ndim - len(nested.axes)
    for weight, levels in nested.signed_levels:
        gathered = table
        for dim, (axis, level) in enumerate(zip(nested.axes, levels, strict=True), start=lead):
            if axis.classes[level] == axis.size:
                continue
            code = axis.codes[level]
            first = np.unique(code, return_index=True)[1]
            moved = np.zeros_like(gathered)
            np.add.at(np.moveaxis(moved, dim, 0), first[code], np.moveaxis(gathered, dim, 0))
            gathered = moved
        total += weight * gathered
    return total

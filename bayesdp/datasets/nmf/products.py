"""What noisy measurement files there are: their folders, histograms, queries and levels of geography."""

from __future__ import annotations

from dataclasses import dataclass

from bayesdp._validate import choice
from bayesdp.datasets.nmf.histograms import DHC_PERSON, PL94_PERSON, PL94_UNIT, Histogram


@dataclass(frozen=True, eq=False)
class Product:
    """One product.

    Parameters
    ----------
    name : str
    suffix : str
        How its folder ends, after ``US`` or ``PR``.
    histogram : Histogram
    queries : tuple of str
        Noisy queries, without the suffix ``_dpq``.
    levels : tuple of str
        Levels of geography, from the top down.
    constraints : mapping
        What each axis of a constraint is cut by, for those whose columns of axes say nothing that fits the histogram.
    """

    name: str
    suffix: str
    histogram: Histogram
    queries: tuple[str, ...]
    levels: tuple[str, ...]
    constraints: dict[str, tuple[str, ...]]


_PL94_LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")

PRODUCTS = {
    product.name: product
    for product in (
        Product(
            "pl94-person",
            "_Person_PL_PROD",
            PL94_PERSON,
            (
                "total", "hhgq", "hhinstlevels", "votingage", "hispanic", "cenrace", "votingage * hispanic", "votingage * cenrace",
                "hispanic * cenrace", "votingage * hispanic * cenrace", "detailed",
            ),
            _PL94_LEVELS,
            {
                "total": ("*", "*", "*", "*"),
                "hhgq_total_lb": ("hhgq", "*", "*", "*"),
                "hhgq_total_ub": ("hhgq", "*", "*", "*"),
                "nurse_nva_0": ("gqNursingTotal", "nonvoting", "*", "*"),
            },
        ),
        Product("pl94-unit", "_Unit_PL_PROD", PL94_UNIT, ("detailed",), _PL94_LEVELS, {"total": ("*",)}),
        Product(
            "dhc-person",
            "_DHCP_PROD",
            DHC_PERSON,
            (
                "hispanic * sex", "age_18_64_116 * sex", "age_38_groups * sex", "sex * relgq_4_groups",
                "age_18_64_116 * relgq_4_groups", "gq_constr_groups * age_10_groups", "popSehsdTargetsRelship",
                "relgq * age_40_groups * hispanic * cenrace * sex",
                "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace", "detailed",
            ),
            ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block"),
            {
                "pl94": ("hhgq", "*", "votingage", "hispanic", "cenrace"),
                "hhgq_total_lb": ("gqlevels", "*", "*", "*", "*"),
                "hhgq_total_ub": ("gqlevels", "*", "*", "*", "*"),
            },
        ),
    )
}  # fmt: skip
"""Name -> product."""


def product_of(name: str) -> Product:
    """The product of a name; ValueError that lists those that there are."""
    return PRODUCTS[choice(name, tuple(PRODUCTS), "product")]


def plain_name(name: str) -> str:
    """The name of a query or constraint without the suffix that files give it."""
    return name.removesuffix("_dpq").removesuffix("_con")


def same_query(name: str) -> frozenset[str]:
    """What two spellings of a query have in common: its factors, in any order."""
    return frozenset(part.strip() for part in plain_name(name.strip()).split("*"))

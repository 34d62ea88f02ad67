"""Mechanisms with independent noise on the answers of a query, without invariants."""

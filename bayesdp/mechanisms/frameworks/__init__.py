"""Any private mechanism made to keep the invariants: by projection, or by extension."""

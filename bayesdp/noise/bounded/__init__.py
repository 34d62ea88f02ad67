"""Laws of independent values within public bounds, each around a location of its own."""

"""Distributed privatization: agents with a common seed each add the noise of their own cells."""

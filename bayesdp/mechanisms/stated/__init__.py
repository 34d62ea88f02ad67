"""Whether what a release says of its mechanism and its guarantee is true of its law."""

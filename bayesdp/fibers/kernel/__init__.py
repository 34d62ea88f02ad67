"""The posterior kernel: a table of counts that takes steps along random directions, each from its exact conditional law."""

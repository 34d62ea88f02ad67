"""Integer vectors that change no invariant: bases, complete lists, and random directions to move in."""

"""Integer vectors that change no invariant: bases, complete lists, and random directions to move in.

`moves` has the families of directions and what is known of their connectivity, `direction` draws one inside a kernel,
`basis` and `bounded` list. `bayesdp.lattices` offers the public names.
"""

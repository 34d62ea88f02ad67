"""Integer vectors that change no invariant: bases, complete lists, and random directions to move in.

`choosing` has the families of directions and what is known of their connectivity, `builder` packs them into `Moves` for the kernel,
`direction` draws one inside a kernel, `basis` and `bounded` list. `bayesdp.lattices` offers the public names.
"""

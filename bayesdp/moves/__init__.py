"""Integer vectors that change no invariant: bases, complete lists, and random directions to move in.

`moves` has the families of directions, what is known of their connectivity, and packs them for the kernel; `direction` draws one
inside a kernel; `basis` lists, and `markov` computes Markov bases. `bayesdp.lattices` offers the public names.
"""

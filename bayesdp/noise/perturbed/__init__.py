"""Laws of published counts given the true ones, by tables p(y | x): rounding and cell keys. None of them is differentially private."""

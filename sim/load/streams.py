"""Named streams of random numbers, made before a run and keyed by request.

A stream depends only on the seed and its own name. So a mechanism, an extra population or a new
quantity cannot shift the random numbers of another: two scenarios with one seed have the same
arrivals (common random numbers).

Source: L'Ecuyer, Simard, Chen and Kelton 2002, "An object-oriented random-number package with many
long streams and substreams", Operations Research 50(6); NumPy `SeedSequence`.
"""

import hashlib

import numpy as np


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the generator of the stream *name* under *seed*.

    Raises
    ------
    ValueError
        If *seed* is negative.

    >>> int(generator(7, "arrivals").integers(100)) == int(generator(7, "arrivals").integers(100))
    True
    """
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, key])

"""Bank conflicts of shared memory."""

import numpy as np

from ..isa.instructions import WARP, WORD
from ..isa.shared import BANKS
from .algebra import Array


def degrees(addresses: Array, size: int) -> Array:
    """The conflict degree of each phase of accesses: the most words that one bank has to give in it.

    A phase has as many lanes as fill all banks once, at most a warp: 32 of 4 bytes, 16 of 8, 8 of 16. Lanes that name
    one word are served together.

    >>> degrees(np.arange(32) * 256, 16).tolist(), degrees(np.arange(32) * 272, 16).tolist()
    ([8, 8, 8, 8], [1, 1, 1, 1])

    Args:
        addresses: the byte at which the access of each lane begins, a multiple of ``size``: an array (..., lanes).
        size: the bytes of each.

    Returns:
        An array (..., phases).
    """
    word = WORD // 8
    lanes = min(WARP, BANKS * word // size)
    touched = addresses.reshape(-1, lanes, 1) // word + np.arange(-(-size // word))
    words = np.sort(touched.reshape(len(touched), -1))
    distinct = np.diff(words, prepend=-1) > 0
    given = np.zeros((len(words), BANKS), np.int64)
    np.add.at(given, (np.nonzero(distinct)[0], words[distinct] % BANKS), 1)
    return np.asarray(given.max(axis=1).reshape(*addresses.shape[:-1], -1))

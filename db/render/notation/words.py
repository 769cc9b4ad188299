"""Words of registers as lines of C++: put together from bytes of others, and exchanged between lanes."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ...isa.instructions import WARP
from ...layout.algebra import Array
from .cpp import expression
from .table import bits_of

#: How many orders of turns are tried at most.
_MOST = 4096


class Parts(NamedTuple):
    """Where bytes come from: for each lane and byte the number of a word, or -1 for any, and which byte it is there."""

    word: Array
    byte: Array

    @classmethod
    def of(cls, place: Array, slots: int, bits: int) -> "Parts":
        """Those of elements that have places in words of so many slots of so many bits, at least 8; -1 for any."""
        width = bits // 8
        byte = np.repeat(place % slots * width, width, axis=1) + np.tile(np.arange(width), place.shape[1])
        return cls(np.repeat(np.where(place < 0, -1, place // slots), width, axis=1), byte)

    def cut(self, width: int) -> "list[Parts]":
        """Those of words of so many bytes. What lacks to the last is any."""
        lack = ((0, 0), (0, -self.word.shape[1] % width))
        whole = (np.pad(part, lack, constant_values=-1) for part in self)
        return [Parts(*parts) for parts in zip(*(np.split(p, p.shape[1] // width, axis=1) for p in whole), strict=True)]


class Lines:
    """The lines of a function of so many lanes, with a name for each value in which lanes differ."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.written: list[str] = []
        self.shuffles = 0
        self._named: dict[str, str] = {}

    def named(self, stem: str, kind: str, text: str) -> str:
        """The name of a constant; of equal ones that of the first."""
        if text not in self._named:
            self._named[text] = f"{stem}{sum(name.startswith(stem) for name in self._named.values())}"
            self.written.append(f"const {kind} {self._named[text]} = {text};")
        return self._named[text]

    def chosen(self, texts: Sequence[str], choice: Array) -> str:
        """One of several texts by lane, -1 for any: without brackets around it."""
        used: list[int] = np.unique(choice[choice >= 0]).tolist() or [0]
        *others, last = sorted(used, key=lambda one: one == choice[0])  # that of the first lane is last
        return "".join(f"{self._test(choice == other)} ? {texts[other]} : " for other in others) + texts[last]

    def _test(self, true: Array) -> str:
        """The name of a condition on the lane."""
        mask, value = bits_of(self.lanes, np.flatnonzero(true)) or (-1, 0)
        if mask < 0:
            return self.named("is", "bool", f"({expression(true.astype(int), ['lane'])}) == 1")
        one_bit = mask == value and not mask & mask - 1
        return self.named("is", "bool", f"(lane & {mask:#x}) {'!= 0' if one_bit else f'== {value:#x}'}")

    def gathered(self, words: Sequence[str], parts: Parts) -> str:
        """A word of bytes of others."""
        word, byte = parts
        own, held = np.arange(word.shape[1]), word.max(axis=1)
        if not ((word >= 0) & ((word != held[:, None]) | (byte != own))).any():
            return self.chosen(words, held)
        numbers: list[int] = np.unique(word[word >= 0]).tolist()
        first, *others = numbers
        text = words[first]
        for number, other in enumerate(others or [first]):
            kept = own if number else np.where(word == first, byte, 0)
            nibbles = np.where(word == other, byte + 4 * bool(others), kept)
            selectors, choice = np.unique((nibbles << 4 * own).sum(axis=1), return_inverse=True)
            selector = self.chosen([f"{one:#06x}" for one in selectors.tolist()], choice)
            selector = self.named("bytes", "unsigned", selector) if len(selectors) > 1 else selector
            text = f"__byte_perm({text}, {words[other]}, {selector})"
        return text

    def exchanged(self, words: Sequence[str], kind: str, parts: Parts, lanes: Array) -> tuple[list[str], Parts]:
        """What lanes receive of words, and where the bytes are in it that are in those of ``lanes`` before.

        In each turn a lane takes a word of one lane, which offers the same to all that take one of it. If no order in
        which lanes take their words lets all have theirs, there is a shuffle for each word that any lane takes.
        """
        own, wanted = np.arange(self.lanes), np.where(parts.word < 0, -1, lanes * len(words) + parts.word)
        lists = [list(dict.fromkeys(row)) for row in wanted.tolist()]
        lists = [[one for one in row if one >= 0] or [lane * len(words)] for lane, row in enumerate(lists)]
        count = max(map(len, lists))
        taken = np.array([row + row[-1:] * (count - len(row)) for row in lists])
        at = (taken[:, None] == wanted[:, :, None]).argmax(axis=2)
        for flips in _flips(count):
            flipped = sum((((own & mask) != 0) << bit for bit, mask in enumerate(flips)), 0 * own)
            order = np.arange(count) ^ flipped[:, None]
            source, word = np.divmod(np.take_along_axis(taken, order, axis=1), len(words))
            offered = np.full((self.lanes, count), -1)
            offered[source, np.arange(count)] = word
            if (offered[source, np.arange(count)] == word).all():
                turns = [*zip(source.T, offered.T, strict=True)]
                found = np.take_along_axis(order, at, axis=1)  # of which the inverse is the same
                break
        else:
            flips = ()
            source, word = np.divmod(taken, len(words))
            pairs = [(number, one) for number in range(count) for one in np.unique(word[:, number]).tolist()]
            turns = [(source[:, number], np.full(self.lanes, one)) for number, one in pairs]
            numbers = np.zeros((count, len(words)), int)
            numbers[tuple(np.transpose(pairs))] = np.arange(len(pairs))
            found = numbers[at, np.take_along_axis(word, at, axis=1)]
        received: list[str] = []
        known: list[tuple[Array, str]] = []
        for source, offered in turns:
            text, from_ = self.chosen(words, offered), source % WARP
            if (source != own).any():
                self.shuffles += 1
                near = [f"{name} ^ {from_[0] ^ one[0]}" for one, name in known if len({*(from_ ^ one).tolist()}) == 1]
                lane = near[0] if near else self.named("from", "int", expression(from_, ["lane"]))
                known += [] if near else [(from_, lane)]
                text = f"__shfl_sync(0xFFFFFFFF, {text}, {lane.removesuffix(' ^ 0')})"
            received.append(self.named("moved", kind, text))
        if np.count_nonzero(flips) > 1:
            # Selected step by step, every word is in one place in all lanes: so bytes are, too.
            found = at
            for bit, mask in enumerate(flips):
                if mask:
                    test = self._test((own & mask) != 0)
                    texts = [f"{test} ? {received[one ^ 1 << bit]} : {received[one]}" for one in range(count)]
                    received = [self.named("moved", kind, text) for text in texts]
        return received, Parts(np.where(parts.word < 0, -1, found), parts.byte)


def _flips(count: int) -> Iterator[Sequence[int]]:
    """Orders in which lanes may take so many words, as the bits of the lane that flip each bit of their numbers."""
    bits = min((count & -count).bit_length() - 1, 6)
    yield from sorted(product((0, 1, 2, 4, 8, 16), repeat=bits), key=np.count_nonzero)[:_MOST]

"""One colour per lane, on the terminal and in pictures."""

from __future__ import annotations

#: Okabe and Ito's colours, which colour-blind readers can tell apart, one for each group of four lanes ...
_HUES = ("E69F00", "56B4E9", "009E73", "F0E442", "0072B2", "D55E00", "CC79A7", "999999")
#: ... and four shades of each, for the lanes in the group: how much of it is the ground that it stands on.
_GROUND = (0.0, 0.3, 0.55, 0.75)

BLACK, FAINT, WHITE = "000000", "555555", "ffffff"


def shade(lane: int, ground: str = WHITE) -> str:
    """The colour of a lane, as six hexadecimal digits."""
    share = _GROUND[lane % 4]
    pairs = zip(_parts(_HUES[lane // 4 % 8]), _parts(ground), strict=True)
    return "".join(f"{round(hue * (1 - share) + other * share):02x}" for hue, other in pairs)


def ink(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    light = _luminance(colour)
    return BLACK if (light + 0.05) ** 2 > 1.05 * 0.05 else WHITE


def on_paper(lane: int | None) -> tuple[str, str, str]:
    """Fill, edge and ink of a cell on white."""
    if lane is None:
        return WHITE, FAINT, FAINT
    return shade(lane), WHITE, ink(shade(lane))


def _luminance(colour: str) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _fractions(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _fractions(colour: str) -> list[float]:
    return [part / 255 for part in _parts(colour)]


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (0, 2, 4)]

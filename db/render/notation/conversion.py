"""Conversions between types of elements as PTX: cvt, and what packs its results into a register (9.7.10.22).

Rounding is to the nearest, and what is too large for a type of 8 bits or less becomes its largest number. A tf32 is an
f32 of which products ignore the low bits.
"""

from ...errors import LanemapError

#: Floats and integers of 8 bits or less, two of which are converted at once.
_FLOATS, _INTEGERS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), ("s8", "u8", "s4", "u4")
_WIDE = ("f32", "f64", "s32")


def rounds_twice(of: str, to: str) -> bool:
    """Whether a number may be rounded to f32, which does not hold all that are near a tie, and then once more."""
    return (of == "f64" and to in (*_FLOATS, "bf16")) or (of, to) == ("s32", "bf16")


def converted(of: str, to: str, count: int, bits: int) -> list[str]:
    """The PTX that makes one register, %0, of ``count`` elements in slots of so many ``bits``, of numbers in %1 and on.

    Numbers of f16 come two in a register. Others than f32 become f32 first, unless there is a shorter way.

    Raises:
        LanemapError: there is no such conversion.
    """
    if of not in (*_WIDE, "f16") or to not in (*_WIDE, *_FLOATS, *_INTEGERS, "f16", "bf16", "tf32"):
        raise LanemapError(f"no conversion makes {to} of {of}: chain types of numbers, such as f32 and f16")
    names, pairs, lines = [f"%{at + 1}" for at in range(count)], range(count // 2), []
    if of == "f16" and to in ("e4m3", "e5m2"):
        lines = [f"cvt.rn.satfinite.{to}x2.f16x2 p{at}, {names[at]};" for at in pairs]
        return [".reg .b16 p<2>;", *lines, "mov.b32 %0, {p0, p1};"]
    if of == "f16":
        lines.append(f".reg .b16 h<{count + count % 2}>;")
        lines += [f"mov.b32 {{h{at}, h{at + 1}}}, %{at // 2 + 1};" for at in range(0, count, 2)]
        names = [f"h{at}" for at in range(count)]
    through = "s32" if to in (*_INTEGERS, "s32") else "f64" if to == "f64" else of if to == "f16" else "f32"
    if through != of:
        exact = of == "f16" or (of, through) == ("f32", "f64")
        rounding = ".rni" if through == "s32" else "" if exact else ".rn"
        made = [f"v{at}" for at in range(count)] if count > 1 else ["%0"]
        lines += [f".reg .{through} v<{count}>;"] if count > 1 else []
        lines += [f"cvt{rounding}.{through}.{of} {into}, {one};" for into, one in zip(made, names, strict=True)]
        names = made
    if to == "f16":
        halves = [f"cvt.rn.f16.{of} {half}, {one};" for half, one in zip("lh", names, strict=True)]
        return [*lines, ".reg .b16 l, h;", *halves, "mov.b32 %0, {l, h};"]
    if to == "bf16":
        return [*lines, f"cvt.rn.bf16x2.f32 %0, {names[1]}, {names[0]};"]
    if to in _INTEGERS:
        lines.append(".reg .b32 t;")
        for at in reversed(pairs):
            into, rest = "t" if at else "%0", "0" if at == pairs[-1] else "t"
            lines.append(f"cvt.pack.sat.{to}.s32.b32 {into}, {names[2 * at + 1]}, {names[2 * at]}, {rest};")
    elif (to, bits) == ("e2m1", 8):
        # One in each byte, in the bits 2 to 5 of it.
        lines.append(".reg .b8 p<4>; .reg .b32 t;")
        lines += [f"cvt.rn.satfinite.e2m1x2.f32 p{at}, 0f00000000, {one};" for at, one in enumerate(names)]
        lines += ["mov.b32 t, {p0, p1, p2, p3};", "shl.b32 %0, t, 2;"]
    elif to in _FLOATS:
        lines.append(f".reg .b{2 * bits} p<{len(pairs)}>;")
        lines += [f"cvt.rn.satfinite.{to}x2.f32 p{at}, {names[2 * at + 1]}, {names[2 * at]};" for at in pairs]
        lines.append(f"mov.b32 %0, {{{', '.join(f'p{at}' for at in pairs)}}};")
    return lines

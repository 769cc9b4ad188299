"""Constants and expressions of them are what ptxas makes of them."""

import subprocess

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lanemap.capture.machine.parse import parse
from lanemap.db.errors import LanemapError

from ..modes import LONG
from ..toolchain import program

#: What has more than 64 bits: ptxas cuts some of it, without a word.
OVERFLOW = "0x10000000000000000"
#: Expressions with their values as numbers with a sign, or None where they have none.
VALUES = {
    "3 << 2": 12,
    "(3+4)*2": 14,
    "-(1)": -1,
    "- -1": 1,
    "1 ? 2 : 3": 2,
    "0?1:0?2:3": 3,
    "0b101": 5,
    "0B101U": 5,
    "017": 15,
    "0x1fU": 31,
    "WARP_SZ*2": 64,
    "-5>>1": -3,
    "-5U>>61": 7,
    "(.u64)-1>>60": 15,
    "(.s64)18446744073709551615>>60": -1,
    "-7/2": -3,
    "-7 % 3": 0,
    "-7 < 3U": 0,
    "~0>>60": 15,
    "!5": 0,
    "1|2==2": 1,
    "1<<2+1": 8,
    "2<1<1": 1,
    "1<<65": 2,
    "100/10/5": 2,
    "1.5 < 2.5": 1,
    "1.0 ? 1 : 2": None,
    "1 ? 1.5 : 2": None,
    "1 % 0": None,
    "5u": None,
    "09": None,
    "1 +": None,
    "(1": None,
    "1.0 && 1": None,
    OVERFLOW: None,
    "(.u32)1": None,
    "1e400": None,
    "-0f3F800000": None,
}
BINARY = "* / % + - << >> < <= > >= == != & ^ | && ||".split()
LITERALS = st.one_of(
    st.integers(0, 70).map(str),
    st.integers(0, 2**64 - 1).map(str),
    st.integers(0, 2**64 - 1).map("{:#x}".format),
    st.integers(0, 99).map("{}U".format),
    st.sampled_from(["017", "0b1101", "0B1U", "WARP_SZ", "1.5", "2.0"]),
)
EXPRESSIONS = st.recursive(
    LITERALS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(" ".join),
        st.tuples(st.sampled_from(["-", "+", "!", "~", "(.u64)", "(.s64)"]), inner).map(" ".join),
        inner.map("({})".format),
        st.tuples(inner, st.just("?"), inner, st.just(":"), inner).map(" ".join),
    ),
    max_leaves=7,
)
MARK = 0x1122334455667788


def valued(expression):
    """The bits of a variable that begins with an expression; None where that is refused."""
    try:
        module = parse(f".global .u64 a[1] = {{ {expression} }};")
    except LanemapError:
        return None
    return int.from_bytes(module.variables[0].data, "little")


@pytest.mark.parametrize("expression", VALUES)
def test_an_expression_has_its_value(expression):
    value = VALUES[expression]
    assert valued(expression) == (None if value is None else value % 2**64)


def assembled(expressions, folder):
    """What ptxas makes of expressions: the bits of each, None of what it refuses."""
    found, left = dict.fromkeys(range(len(expressions))), dict(enumerate(expressions))
    while True:
        lines = [f".visible .global .u64 v{at}[] = {{{MARK + at}, {each}}};" for at, each in left.items()]
        head = ".version 8.0 .target sm_90 .address_size 64\n"
        (folder / "a.ptx").write_text(head + "\n".join([*lines, ".visible .entry k() { ret; }", ""]))
        command = [program("ptxas"), "-arch=sm_90", folder / "a.ptx", "-o", folder / "a.o"]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if not said.returncode:
            data = (folder / "a.o").read_bytes()
            places = {at: data.index((MARK + at).to_bytes(8, "little")) + 8 for at in left}
            return found | {at: int.from_bytes(data[place : place + 8], "little") for at, place in places.items()}
        numbers = [*left]
        for line in {int(part.partition(";")[0]) for part in said.stderr.split(", line ")[1:]}:
            del left[numbers[line - 2]]


@pytest.mark.slow
@settings(
    max_examples=20 if LONG else 3,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(EXPRESSIONS, min_size=60, max_size=60))
def test_ptxas_has_the_same_values(tmp_path, expressions):
    expressions += [each for each in VALUES if each != OVERFLOW]
    of_ptxas = assembled(expressions, tmp_path)
    found = {number: valued(expression) for number, expression in enumerate(expressions)}
    assert {expressions[at]: (found[at], of_ptxas[at]) for at in found if found[at] != of_ptxas[at]} == {}

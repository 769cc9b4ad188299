"""Waits that never end are named when everything repeats itself, and none that ends is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.capture.machine import schedule

from ..modes import examples
from .conftest import run

HEAD = """
.visible .entry wait(.param .u64 flag) {
.reg .b64 %flag, %clock, %begin; .reg .b32 %t, %b, %v, %n, %s; .reg .pred %p, %q;
.shared .align 8 .b64 full; .shared .b32 word;
ld.param.u64 %flag, [flag]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, 1;
setp.ne.u32 %q, %t, 0; @!%q mbarrier.init.shared.b64 [full], 2; @!%q st.shared.u32 [word], 0; bar.sync 0;
"""
POLLS = "{0}: ld.volatile.global.u32 %v, [%flag{1}]; setp.eq.u32 %p, %v, 0; @%p bra {0};"


def traced(text, limit=20_000, **how):
    return run(HEAD + text + "\nret; }", ["flag=u32[4]=0"], limit=limit, **how)


def deadlocks(text, **how):
    """What is said of deadlocks, of which each is found early."""
    found = traced(text, **how)
    assert found.checked, found
    return [each.words for each in found.findings if each.kind == "deadlock"]


NEVER_END = {
    "a flag that nobody sets": (
        POLLS.format("A", ""),
        "ld reads 0 in global memory at flag+0 of 16 bytes again and again",
    ),
    "one behind the first": (
        POLLS.format("A", "+8"),
        "ld reads 0 in global memory at flag+8 of 16 bytes again and again",
    ),
    "a lock that is taken twice": (
        """@%q bra OVER; atom.global.exch.b32 %v, [%flag], 1;
        A: atom.global.cas.b32 %v, [%flag], 0, 1; setp.ne.u32 %p, %v, 0; @%p bra A; OVER:""",
        "atom reads 1 in global memory at flag+0 of 16 bytes again and again",
    ),
    "a lock that is exchanged": (
        "A: atom.global.exch.b32 %v, [%flag], 1; setp.ne.u32 %p, %v, 9; @%p bra A;",
        "atom reads 1 in global memory at flag+0 of 16 bytes again and again",
    ),
    "three stages that are tried in turn": (
        """A: add.u32 %n, %n, 1; setp.eq.u32 %p, %n, 3; @%p mov.u32 %n, 0;
        ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p, %v, 0; @%p bra A;""",
        "ld reads 0 in global memory at flag+0 of 16 bytes again and again",
    ),
    "three stages in turn, by a clock": (
        """mov.u64 %begin, %clock64; A: mov.u64 %clock, %clock64; sub.u64 %clock, %clock, %begin; add.u32 %n, %n, 1;
        setp.ge.u32 %p, %n, 3; @%p mov.u32 %n, 0; ld.volatile.global.u32 %v, [%flag]; setp.eq.u32 %p, %v, 0;
        @%p bra A;""",
        "ld reads 0 in global memory at flag+0 of 16 bytes again and again",
    ),
    "a back-off that has an end": (
        f"A: nanosleep.u32 %n; shl.b32 %n, %n, 1; min.u32 %n, %n, 64; {POLLS.format('B', '')[3:].replace('B;', 'A;')}",
        "ld reads 0 in global memory at flag+0 of 16 bytes again and again",
    ),
    "a phase that lacks an arrival": (
        """@!%q mbarrier.arrive.shared.b64 _, [full];
        A: mbarrier.test_wait.parity.shared.b64 %p, [full], 0; @!%p bra A;""",
        "phase 0 of the mbarrier lacks 1 arrivals and 0 bytes",
    ),
    "a phase at a generic address": (
        """mov.u64 %clock, full; cvta.shared.u64 %clock, %clock;
        A: mbarrier.test_wait.parity.b64 %p, [%clock], 0; @!%p bra A;""",
        "phase 0 of the mbarrier lacks 2 arrivals and 0 bytes",
    ),
    "a word of shared memory": (
        "A: ld.volatile.shared.u32 %v, [word]; setp.eq.u32 %p, %v, 0; @%p bra A;",
        "ld reads 0 in shared memory at 0x4",
    ),
    "a word at a generic address": (
        "mov.u64 %clock, word; cvta.shared.u64 %clock, %clock; A: ld.volatile.u32 %v, [%clock]; bra A;",
        "ld reads 0 in shared memory at 0x4",
    ),
    "nothing at all": ("A: bra A;", "a loop that reads nothing"),
    "barriers in a loop": ("A: bar.sync 0; st.shared.u32 [word], 7; bra A;", "a loop that reads nothing"),
    "an address out of bounds": (
        "A: ld.volatile.global.u32 %v, [%flag+4096]; bra A;",
        "ld has a wrong address again and again",
    ),
    "an address that is gone behind the load": (
        "A: mov.u64 %clock, %flag; ld.volatile.global.u32 %v, [%clock+4]; mov.u64 %clock, 5; bra A;",
        "ld reads 0 in global memory at flag+4 of 16 bytes again and again",
    ),
    "a back-off by a clock": (
        f"""mov.u64 %clock, %globaltimer; mov.u64 %begin, %clock; A: mov.u64 %clock, %globaltimer;
        sub.u64 %clock, %clock, %begin; setp.gt.u64 %p, %clock, 4000000; cvt.u32.u64 %n, %clock; shr.u32 %n, %n, 2;
        @%p mov.u32 %n, 1000000; nanosleep.u32 %n; {POLLS.format("B", "+4")[3:].replace("B;", "A;")}""",
        "ld reads 0 in global memory at flag+4 of 16 bytes again and again",
    ),
    "a lock that is tried after a time by a clock": (
        """mov.u32 %v, 1; @%q st.volatile.global.u32 [%flag+4], %v;
        A: atom.global.cas.b32 %v, [%flag+4], 0, 1; mov.u64 %begin, %clock64;
        B: mov.u64 %clock, %clock64; sub.u64 %clock, %clock, %begin; setp.lt.s64 %p, %clock, 64; @%p bra B;
        setp.ne.u32 %p, %v, 0; @%p bra A;""",
        "atom reads 1 in global memory at flag+4 of 16 bytes again and again",
    ),
    "a phase that is tried by a clock": (
        """@!%q mbarrier.arrive.shared.b64 _, [full]; mov.u64 %begin, %clock64;
        A: mov.u64 %clock, %clock64; sub.u64 %clock, %clock, %begin;
        mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @!%p bra A;""",
        "phase 0 of the mbarrier lacks 1 arrivals and 0 bytes",
    ),
    "lanes of the same warp": (
        f"""setp.ge.u32 %p, %t, 32; @%p ret; @%q bra OVER;
        {POLLS.format("A", "")}
        OVER: bar.warp.sync -1; st.volatile.global.u32 [%flag], 1;""",
        "ld reads 0 in global memory at flag+0 of 16 bytes again and again",
    ),
}


@pytest.mark.parametrize("what", NEVER_END)
@pytest.mark.parametrize("block", [32, 96])
def test_what_repeats_itself_is_a_deadlock(what, block):
    text, words = NEVER_END[what]
    found = deadlocks(text, block=block)
    assert any(words in each for each in found), found


def test_each_place_says_who_waits_there():
    """Two warps wait for each other, a third one for both, and a fourth has ended."""
    text = f"""shr.u32 %s, %t, 5; setp.eq.u32 %p, %s, 3; @%p ret; setp.eq.u32 %p, %s, 2; @%p bar.sync 1, 96; @%p ret;
    setp.eq.u32 %p, %s, 1; @%p bra SECOND;\n{POLLS.format("A", "")} st.volatile.global.u32 [%flag+4], 1; bra OVER;
    SECOND: \n{POLLS.format("B", "+4")} st.volatile.global.u32 [%flag], 1; OVER: bar.sync 1, 96;"""
    one, other, third = sorted(deadlocks(text, block=128), key=lambda words: words.partition("warp ")[2])
    assert "warp 0 waits for ever: ld reads 0 in global memory at flag+0 of 16 bytes again and again," in one
    assert "and nobody writes another value (line 9" in one
    assert "warp 1 waits for ever: ld reads 0 in global memory at flag+4 of 16 bytes again and again" in other
    assert "warp 2 waits for ever: barrier 1 lacks 64 of 96 threads (line 7" in third


def test_a_variable_that_is_called_like_an_argument_hides_it_not():
    variable = ".global .b32 flag[4]; " + HEAD
    found = run(variable + POLLS.format("A", "") + "ret; }", ["flag=u32[2]=0"], limit=20_000)
    assert "at flag+0 of 8 bytes" in found.findings[0].words, found


def test_what_no_other_thread_writes_is_not_waited_for():
    """A parameter, a constant, and a variable of the thread itself, which the loop reads, too."""
    loop = POLLS.format("A", "").replace("A: ", "A: ld.param.u64 %flag, [flag]; ld.local.u32 %n, [own]; ")
    (words,) = deadlocks(".local .b32 own; st.local.u32 [own], 5;" + loop)
    assert "ld reads 0 in global memory at flag+0 of 16 bytes again" in words


#: What a thread or block does for so many rounds before it writes.
BUSY = "mov.u32 %s, 0; C: add.u32 %s, %s, 1; setp.lt.u32 %p, %s, {}; @%p bra C; st.volatile.global.u32 [%flag], 1;"


@pytest.mark.parametrize("rounds", [1, 15, 16, 17, 100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", [{"block": 64}, {"block": 32, "grid": 3}], ids=["warps", "blocks"])
def test_who_waits_for_another_that_comes_late_is_none(how, rounds):
    which = "%t" if how["block"] == 64 else "%b"
    text = f"setp.ge.u32 %p, {which}, 32; @%p bra A;" if which == "%t" else "setp.ne.u32 %p, %b, 0; @%p bra A;"
    found = traced(f"{text} {BUSY.format(rounds)} bra OVER; {POLLS.format('A', '')} OVER:", **how)
    assert found.checked, found
    assert not [each for each in found.findings if each.kind != "race"], found


ENDS = {
    "rounds are counted": f"A: add.u32 %n, %n, 1; setp.gt.u32 %p, %n, 100; @%p bra OVER; {POLLS.format('B', '')[3:]}",
    "rounds are counted in memory": """A: ld.shared.u32 %n, [word]; add.u32 %n, %n, 1; bar.warp.sync -1;
    st.shared.u32 [word], %n; bar.warp.sync -1; setp.lt.u32 %p, %n, 100; mov.u32 %n, 0; @%p bra A;""",
    "tries are counted": """A: add.u32 %n, %n, 1; setp.gt.u32 %p, %n, 100; @%p bra OVER;
    mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @!%p bra A;""",
    "tries are counted while others wait": """bar.warp.sync -1; setp.ge.u32 %p, %t, 32; @%p bra OTHER;
    A: add.u32 %n, %n, 1; setp.gt.u32 %p, %n, 30; @%p bra LATE; mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
    @!%p bra A; LATE: st.relaxed.cta.shared.u32 [word], 1; bra OVER;
    OTHER: ld.relaxed.cta.shared.u32 %v, [word]; setp.eq.u32 %p, %v, 0; @%p bra OTHER;""",
    "tries are counted while others wait for three stages": """bar.warp.sync -1; setp.ge.u32 %p, %t, 32; @%p bra OTHER;
    A: add.u32 %n, %n, 1; setp.gt.u32 %p, %n, 5; @%p bra LATE; mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
    @!%p bra A; LATE: st.relaxed.cta.shared.u32 [word], 1; bra OVER;
    OTHER: add.u32 %n, %n, 1; setp.eq.u32 %p, %n, 3; @%p mov.u32 %n, 0;
    ld.relaxed.cta.shared.u32 %v, [word]; setp.eq.u32 %p, %v, 0; @%p bra OTHER;""",
} | {
    f"{word} says that {count} have passed{' behind ' * bool(wait)}{wait[:17]}": f"""mov.u64 %begin, {word}; A: {wait}
    mov.u64 %clock, {word}; sub.u64 %clock, %clock, %begin; setp.lt.u64 %p, %clock, {count}; mov.u64 %clock, 0;
    @%p bra A;"""
    for word in ("%clock64", "%globaltimer")
    for count in (200_000, 5_000_000_000, 1 << 61)
    for wait in ("", "mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @%p bra OVER;")
}


def test_what_clocks_were_tried_for_is_said():
    """A thread that goes on only for a short time is not told from one that waits for ever."""
    window = "sub.u64 %clock, %clock, %begin; sub.u64 %clock, %clock, {}; setp.ge.u64 %p, %clock, 200; @%p bra A;"
    loop = "mov.u64 %begin, %clock64; A: mov.u64 %clock, %clock64;" + window
    (words,) = deadlocks(loop.format(3_000_000))
    assert "warp 0 waits for ever, at each time that was tried: in a loop that reads nothing" in words
    assert "waits for ever: " in deadlocks(NEVER_END["nothing at all"][0])[0]


@pytest.mark.parametrize("what", ENDS)
def test_a_wait_that_gives_up_is_none(what):
    found = traced(ENDS[what].replace("bra B;", "bra A;") + "OVER:", block=64 if "others" in what else 32)
    assert found.ok, found


#: What is wrong with how threads of two blocks use the barrier of their cluster.
ARRIVE, WAIT = "barrier.cluster.arrive;", "barrier.cluster.wait;"
OF_CLUSTER = {
    ARRIVE + WAIT: "",
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire;": "",
    2 * (ARRIVE + WAIT): "",
    ARRIVE: "",
    WAIT: "barrier: who executes barrier.cluster.wait waits without an arrive (line 8, warp 0, lane 0",
    ARRIVE + 2 * WAIT: "barrier.cluster.wait waits without an arrive",
    2 * ARRIVE + WAIT: "barrier.cluster.arrive arrives again without a wait",
    f"setp.lt.u32 %p, %t, 40; @%p barrier.cluster.arrive.aligned; @!%p {ARRIVE} {WAIT}": (
        "only some threads of a warp execute barrier.cluster.arrive (line 8, warp 1, lane 0"
    ),
    "setp.lt.u32 %p, %t, 40; @%p ret; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;": "",
    f"setp.lt.u32 %p, %b, 1; @%p ret; {ARRIVE} {WAIT}": "",
    f"setp.lt.u32 %p, %b, 1; {ARRIVE} @%p ret; {WAIT}": "",
    f"""setp.lt.u32 %q, %b, 1; {ARRIVE} @%q bra A; {WAIT} st.volatile.global.u32 [%flag], 1; ret;
    {POLLS.format("A", "")} {WAIT}""": "",
    f"""setp.lt.u32 %q, %b, 1; @!%q bra A; {ARRIVE} {WAIT} ret;
    A: add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 50; @%p bra A;""": "",
    f"setp.lt.u32 %q, %b, 1; @%q bra A; {ARRIVE}\n{WAIT}\nret; {POLLS.format('A', '')}": (
        "warps 0-1 wait for ever: the barrier of the cluster lacks 64 of 128 threads (line 9"
    ),
}


@pytest.mark.parametrize("text", OF_CLUSTER)
def test_threads_arrive_once_at_the_barrier_of_their_cluster_and_then_wait(text):
    head = HEAD.replace("u64 flag)", "u64 flag) .reqnctapercluster 2")
    found = run(f"{head}\n{text} ret; }}", ["flag=u32[4]=0"], limit=20_000, block=64, grid=2)
    assert found.checked, found
    assert bool(found.findings) == bool(OF_CLUSTER[text]), found
    assert not found.findings or any(OF_CLUSTER[text] in each.words for each in found.findings), found
    assert "mbarrier" not in str(found)


def test_who_waits_for_what_changes_is_not_said_to_wait_for_ever():
    """One sets and clears a word, and another one may see it or not."""
    text = """setp.lt.u32 %p, %t, 32; @%p bra A; B: atom.shared.exch.b32 %v, [word], 1;
    atom.shared.exch.b32 %v, [word], 0; bra B;
    A: ld.relaxed.cta.shared.u32 %v, [word]; setp.eq.u32 %p, %v, 7; @%p ret; bra A;"""
    found = traced(text, block=64, limit=400)
    assert "still running after 400 instructions" in found.notes[0], found
    assert not found.findings


def test_who_may_wait_for_a_block_that_has_not_begun_is_not_said_to_wait_for_ever():
    """Blocks of 1024 threads, of which 32 run at once; the first waits for the last."""
    text = f"setp.eq.u32 %p, %b, 39; @%p st.volatile.global.u32 [%flag], 1; setp.ne.u32 %p, %b, 0; @%p ret; {POLLS}"
    found = traced(text.format("A", ""), block=1024, grid=40)
    assert not found.checked
    assert "waits for what none of the 32 blocks writes that run at once" in found.notes[0], found
    assert not found.findings, found


@pytest.mark.parametrize(
    "what",
    ["nothing at all", "a phase at a generic address", "a word of shared memory", "a word at a generic address"],
)
def test_what_no_later_block_can_end_is_a_deadlock_of_the_first(what):
    text, words = NEVER_END[what]
    found = deadlocks(text.replace(".volatile", ""), block=1024, grid=5)
    assert any(words in each for each in found), found


@pytest.mark.parametrize("last", ["", "A: bra A;"])
def test_a_copy_is_not_left_by_a_block_that_never_ends(last):
    """It waits for the copy behind the loop; without a loop and a wait it is named."""
    text = ".shared .align 16 .b8 tile[16]; cp.async.bulk.global.shared::cta.bulk_group [%flag], [tile], 16;"
    text += "cp.async.bulk.commit_group;" + (last and f"{last} cp.async.bulk.wait_group.read 0;")
    kinds = {each.kind for each in traced(text, block=1).findings}
    assert ("race" in kinds, "deadlock" in kinds) == (not last, bool(last))


@pytest.mark.parametrize(
    ("clock", "ticks"), [("%clock", 7), ("%clock_hi", 5), ("%globaltimer_lo", 7), ("%globaltimer_hi", 5)]
)
def test_halves_of_a_clock_are_of_32_bits(clock, ticks, monkeypatch):
    """After one step, each of which a clock counts as so many."""
    monkeypatch.setattr(schedule, "TICKS", (5 << 32) + 7)
    text = ".visible .entry now(.param .u64 out) { .reg .b64 %out; .reg .b32 %n; "
    text += f"mov.u32 %n, {clock}; ld.param.u64 %out, [out]; st.global.u32 [%out], %n; ret; }}"
    assert run(text, ["out=u32[1]=0"], block=1).outputs["out"].tolist() == [ticks]


STEPS = st.lists(st.tuples(st.sampled_from(["wait", "add", "work"]), st.integers(0, 2), st.integers(1, 3)), max_size=5)


def ends(programs):
    """Whether all programs end; what they add is never taken back, so that their order does not matter."""
    at, flags, moved = [0] * len(programs), [0, 0, 0], True
    while moved:
        moved = False
        for which, steps in enumerate(programs):
            while at[which] < len(steps):
                kind, flag, number = steps[at[which]]
                if kind == "wait" and flags[flag] < number:
                    break
                flags[flag] += number * (kind == "add")
                at[which], moved = at[which] + 1, True
    return all(place == len(steps) for place, steps in zip(at, programs, strict=True))


@pytest.mark.slow
@examples(160)
@given(st.lists(STEPS, min_size=1, max_size=4), st.sampled_from([1, 32]), st.booleans())
def test_threads_wait_for_ever_where_no_order_ends_them(programs, apart, volatile):
    """Threads, or warps, each with a program of its own that waits for sums, adds to them, and works."""
    load = "ld.volatile" if volatile else "ld.relaxed.gpu"
    text = ""
    for which, steps in enumerate(programs):
        text += f"setp.ne.u32 %p, %t, {which * apart}; @%p bra T{which};\n"
        for number, (kind, flag, count) in enumerate(steps):
            label, place = f"L{which}_{number}", f"[%flag+{4 * flag}]"
            text += {
                "wait": f"{label}: {load}.global.u32 %v, {place}; setp.lt.u32 %p, %v, {count}; @%p bra {label};\n",
                "add": f"red.global.add.u32 {place}, {count};\n",
                "work": f"mov.u32 %s, 0; {label}: add.u32 %s, %s, 1; setp.lt.u32 %p, %s, {9 * count}; @%p bra {label};",
            }[kind]
        text += f"ret; T{which}: "
    found = traced(text, block=max(len(programs) * apart, 1))
    assert found.checked, found
    assert {each.kind for each in found.findings} == (set() if ends(programs) else {"deadlock"}), found

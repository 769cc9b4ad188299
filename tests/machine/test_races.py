"""What races between lanes of a warp, and between blocks of a grid: in each kernel what orders them is left out."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemap.capture.machine.accesses import BLOCK, GRID
from lanemap.capture.machine.order import History, Order

from ..modes import examples
from .conftest import run

WARP = 32
MEETINGS = {
    "bar.warp.sync 0xffffffff;": True,
    "bar.sync 0;": True,
    "barrier.sync 1;": True,
    "vote.sync.ballot.b32 %d, %p, 0xffffffff;": True,
    "shfl.sync.idx.b32 %d, %v, 0, 31, 0xffffffff;": True,
    "activemask.b32 %d;": False,
    "membar.cta;": False,
    "nanosleep.u32 1;": False,
}
HEAD = """
.visible .entry turn(.param .u64 out) {
.reg .b64 %out, %at; .reg .b32 %t, %s, %o, %v, %d; .reg .pred %p; .shared .align 128 .b8 tile[128];
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %d, tile;
mad.lo.u32 %s, %t, 4, %d; xor.b32 %o, %s, 4; setp.ge.u32 %p, %t, 16;
"""
TAIL = "mad.wide.u32 %at, %t, 4, %out; st.global.u32 [%at], %v; ret; }"


CLUSTER = HEAD.replace("u64 out)", "u64 out) .reqnctapercluster 2")


def races(text, **how):
    """What is said of races in a kernel of one warp, or of more."""
    found = run(HEAD + text + TAIL, ["out=u32[512]=0"], **how)
    assert found.checked, found
    assert {each.kind for each in found.findings} <= {"race"}, found
    return [each.words for each in found.findings]


@pytest.mark.parametrize("meeting", MEETINGS)
def test_a_lane_reads_what_another_has_written_after_they_met(meeting):
    found = races(f"st.shared.u32 [%s], %t;\n{meeting}\nld.shared.u32 %v, [%o];\n")
    if MEETINGS[meeting]:
        assert not found
    else:
        (words,) = found
        assert re.match(
            r"race: ld reads what st of line 6 in lane 1 writes, and nothing orders the two \(line 8, warp 0, lane 0",
            words,
        ), words


@pytest.mark.parametrize("meeting", MEETINGS)
def test_a_lane_writes_what_another_has_read_after_they_met(meeting):
    found = races(
        f"st.shared.u32 [%s], %t; bar.warp.sync -1;\nld.shared.u32 %v, [%o];\n{meeting} st.shared.u32 [%s], 7;\n"
    )
    assert len(found) == (not MEETINGS[meeting])
    assert all("st writes what ld of line 7 in lane 1 still uses" in words for words in found)


@pytest.mark.parametrize("meeting", MEETINGS)
def test_a_lane_reads_what_another_has_copied_after_that_waited_and_they_met(meeting):
    copy = "cvta.to.global.u64 %at, %out; cp.async.ca.shared.global [%s], [%at], 4; cp.async.commit_group;\n"
    wait, read = "cp.async.wait_group 0;\n", "ld.shared.u32 %v, [%o];\n"
    assert bool(races(copy + wait + meeting + read)) != MEETINGS[meeting]
    if meeting != "bar.warp.sync 0xffffffff;":
        return
    early = races(copy + meeting + wait + read)
    assert "ld reads what cp of line 6 in lane 1 writes" in early[0], early


def test_a_lane_waits_for_its_own_copies():
    """Lane 0 waits for all of them, and the others leave one group on its way."""
    copy = "cvta.to.global.u64 %at, %out; cp.async.ca.shared.global [%s], [%at], 4; cp.async.commit_group;\n"
    wait = "setp.lt.u32 %p, %t, {}; @%p cp.async.wait_group 0; @!%p cp.async.wait_group 1; bar.warp.sync -1;\n"
    read = "setp.lt.u32 %p, %t, 2; mov.u32 %v, 0; @%p ld.shared.u32 %v, [%o];"
    assert not races(copy + wait.format(2) + read)
    assert "ld reads what cp of line 6 in lane 1 writes" in races(copy + wait.format(1) + read)[0]


def test_lanes_that_write_one_place():
    assert not races("st.shared.u32 [%d], 5; mov.u32 %v, 0;")  # the same: it does not matter which stays
    assert "another thread writes at once" in races("st.shared.u32 [%d], %t; mov.u32 %v, 0;")[0]
    apart = "@%p st.shared.u32 [%d], 5;\n{} @!%p st.shared.u32 [%d], {}; mov.u32 %v, 0;"
    assert "st writes what st of line 6 in lane" in races(apart.format("", 6))[0]
    assert not races(apart.format("", 5))
    assert not races(apart.format("bar.warp.sync -1;", 6))


def test_warps_that_write_one_place():
    """The same value, also where one of them is ahead."""
    apart = "setp.lt.u32 %p, %t, 32; @%p st.shared.u32 [tile], 5;\n{} @!%p st.shared.u32 [tile], {}; mov.u32 %v, 0;"
    assert "st writes what st of line 6 still uses" in races(apart.format("", 6), block=64)[0]
    assert not races(apart.format("", 5), block=64)
    assert not races(apart.format("bar.sync 0;", 6), block=64)


#: How a warp tells another of what it has written, and how that one waits for it; and whether that is enough.
FLAGGED = HEAD.replace("tile[128];", "tile[512]; .shared .b32 flag;")
FLAGGED += "setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [flag], 0; bar.sync 0;\n"
WRITES = "setp.lt.u32 %p, %t, 32; @!%p bra WAIT;\nst.shared.u32 [%s], %t; bar.warp.sync -1;\n"
READS = "bra OVER;\nWAIT: {}; setp.ne.u32 %p, %d, 1; @%p bra WAIT;\n"
READS += "xor.b32 %o, %s, 128; ld.shared.u32 %v, [%o];\nOVER:"
POLLS = "ld.volatile.shared.u32 %d, [flag]"
ACQUIRES = "ld.acquire.cta.shared.u32 %d, [flag]"
FENCED_POLLS = POLLS + "; membar.cta"
NOTICES = {
    ("", "st.release.cta.shared.u32 [flag], 1;", ACQUIRES): True,
    ("", "st.relaxed.cta.shared.u32 [flag], 1;", ACQUIRES): False,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", FENCED_POLLS): True,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", POLLS): False,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", POLLS + "; fence.release.cta"): False,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", POLLS + "; fence.acquire.cta"): True,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", POLLS + "; fence.proxy.async"): False,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", POLLS + "; bar.warp.sync -1"): False,
    ("fence.acquire.cta;", "st.volatile.shared.u32 [flag], 1;", FENCED_POLLS): False,
    ("fence.release.cta;", "st.volatile.shared.u32 [flag], 1;", FENCED_POLLS): True,
    ("", "st.volatile.shared.u32 [flag], 1;", FENCED_POLLS): False,
    ("fence.acq_rel.cta;", "atom.shared.exch.b32 %d, [flag], 1;", "atom.shared.or.b32 %d, [flag], 0"): False,
    ("fence.acq_rel.cta;", "atom.shared.exch.b32 %d, [flag], 1;", "atom.acquire.cta.shared.or.b32 %d, [flag], 0"): True,
    ("", "atom.acq_rel.cta.shared.exch.b32 %d, [flag], 1;", "atom.acq_rel.cta.shared.or.b32 %d, [flag], 0"): True,
    ("", "atom.acquire.cta.shared.exch.b32 %d, [flag], 1;", "ld.acquire.cta.shared.u32 %d, [flag]"): False,
    ("fence.sc.gpu;", "red.shared.add.u32 [flag], 1;", "ld.relaxed.cta.shared.u32 %d, [flag]; fence.sc.cta"): True,
    ("fence.acq_rel.gpu;", "red.shared.add.u32 [flag], 1;", "ld.relaxed.cta.shared.u32 %d, [flag]"): False,
    ("", "red.release.cta.shared.add.u32 [flag], 1;", "ld.acquire.cta.shared.u32 %d, [flag]"): True,
    ("fence.proxy.async;", "red.shared.add.u32 [flag], 1;", "ld.acquire.cta.shared.u32 %d, [flag]"): False,
    ("membar.cta;", "st.shared.u32 [flag], 1;", FENCED_POLLS): False,
    ("membar.cta;", "st.volatile.shared.u32 [flag], 1;", "mov.u32 %d, 1"): False,
    ("membar.cta;", "st.shared.u32 [%s], 77; @%p st.volatile.shared.u32 [flag], 1;", FENCED_POLLS): False,
    ("st.release.cta.shared.u32 [tile+508], 1;", "st.relaxed.cta.shared.u32 [flag], 1;", ACQUIRES): False,
    ("red.release.cta.shared.add.u32 [tile+508], 1;", "st.relaxed.cta.shared.u32 [flag], 1;", ACQUIRES): False,
    ("st.release.cta.shared.u32 [flag], 0;", "st.relaxed.cta.shared.u32 [flag], 1;", ACQUIRES): True,
    ("red.release.cta.shared.add.u32 [flag], 0;", "st.relaxed.cta.shared.u32 [flag], 1;", ACQUIRES): True,
    ("st.release.cta.shared.u32 [flag], 0;", "atom.shared.exch.b32 %d, [flag], 1;", ACQUIRES): True,
    ("membar.cta;", "st.volatile.global.u32 [%out+256], 1;", "ld.acquire.cta.global.u32 %d, [%out+256]"): True,
}


@pytest.mark.parametrize("notice", NOTICES)
def test_a_warp_reads_what_another_has_given_notice_of(notice):
    fence, tells, hears = notice
    kernel = f"{WRITES}{fence} setp.eq.u32 %p, %t, 0; @%p {tells}\n{READS.format(hears)}"
    found = run(FLAGGED + kernel + TAIL, ["out=u32[65]=0"], block=64).findings
    assert (not found) == NOTICES[notice], found
    assert all("ld reads what st of line" in each.words for each in found)


ARRIVES = {
    ("mbarrier.arrive.shared.b64 _, [bar];", "", ""): True,
    ("mbarrier.arrive.relaxed.cta.shared.b64 _, [bar];", "", "membar.cta;"): False,
    ("membar.cta; mbarrier.arrive.relaxed.cta.shared.b64 _, [bar];", "", ""): True,
    ("mbarrier.arrive.shared.b64 _, [bar];", ".relaxed.cta", ""): False,
    ("mbarrier.arrive.shared.b64 _, [bar];", ".relaxed.cta", "membar.cta;"): True,
}


@pytest.mark.parametrize("arrives", ARRIVES)
def test_a_mbarrier_that_is_relaxed_orders_by_fences_alone(arrives):
    arrive, relaxed, fence = arrives
    text = f""".shared .align 8 .b64 bar; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 32; bar.sync 0;
    setp.lt.u32 %p, %t, 32; @!%p bra WAIT; st.shared.u32 [%s], %t; bar.warp.sync -1; {arrive} bra OVER;
    WAIT: mbarrier.try_wait.parity{relaxed}.shared.b64 %p, [bar], 0; @!%p bra WAIT; {fence}
    xor.b32 %o, %s, 128; ld.shared.u32 %v, [%o]; OVER:"""
    found = run(FLAGGED + text + TAIL, ["out=u32[65]=0"], block=64)
    assert found.ok == ARRIVES[arrives], found


INITIALISED = {
    "": False,
    "fence.proxy.async;": False,
    "bar.sync 0;": True,
    "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait;": True,
}


@pytest.mark.parametrize("meeting", INITIALISED)
@pytest.mark.parametrize("use", ["try_wait.parity", "test_wait.parity"])
def test_who_uses_a_mbarrier_knows_that_it_is_initialised(meeting, use):
    text = f""".shared .align 8 .b64 bar; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 1; {meeting}
    @%p mbarrier.arrive.shared.b64 _, [bar];
    WAIT: mbarrier.{use}.shared.b64 %p, [bar], 0; @!%p bra WAIT;
    """
    found = races(text, block=64)
    assert (not found) == INITIALISED[meeting]
    assert all("reads what mbarrier.init of line 6 in lane 0 writes, and nothing orders" in each for each in found)


OF_CLUSTER = {
    "{} barrier.cluster.arrive; barrier.cluster.wait;": True,
    "barrier.cluster.arrive; {} barrier.cluster.wait;": False,
    "{} barrier.cluster.arrive.relaxed; barrier.cluster.wait;": False,
    "{} fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait;": True,
    "barrier.cluster.arrive; barrier.cluster.wait; {} barrier.cluster.arrive; barrier.cluster.wait;": True,
    "barrier.cluster.arrive; barrier.cluster.wait; {}": False,
}


@pytest.mark.parametrize("meeting", OF_CLUSTER)
@pytest.mark.parametrize("block", [64, 32])
def test_threads_know_of_what_others_did_before_they_arrived_at_the_barrier_of_the_cluster(meeting, block):
    """Of threads of another warp of the block, or of another block, whose store in global memory they read."""
    text = f"""mov.u32 %o, %ctaid.x; mad.lo.u32 %t, %o, {block}, %t; mad.wide.u32 %at, %t, 4, %out;
    {meeting.format("st.global.u32 [%at], %t;")} xor.b32 %t, %t, 32; mad.wide.u32 %at, %t, 4, %out;
    ld.global.u32 %v, [%at]; ret; }}"""
    found = run(CLUSTER + text, ["out=u32[128]=0"], block=block, grid=2)
    assert found.ok == OF_CLUSTER[meeting], found


@pytest.mark.parametrize("meeting", ["", "bar.sync 0;"])
def test_who_arrives_at_a_mbarrier_knows_that_it_is_initialised(meeting):
    text = f""".shared .align 8 .b64 bar; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [bar], 64; {meeting}
    mbarrier.arrive.shared.b64 _, [bar];
    """
    assert (not races(text, block=64)) == bool(meeting)


@pytest.mark.parametrize("meeting", ["", "bar.sync 0;"])
@pytest.mark.parametrize("use", ["mbarrier.inval.shared.b64 [bar]", "st.shared.u32 [bar], 7"])
def test_who_ends_a_mbarrier_knows_that_others_have_used_it(use, meeting):
    text = f""".shared .align 8 .b64 bar; .reg .pred %q; setp.eq.u32 %q, %t, 0;
    @%q mbarrier.init.shared.b64 [bar], 64; bar.sync 0;
    mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.test_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
    {meeting} @%q {use};
    """
    found = races(text, block=64)
    assert (not found) == bool(meeting)
    assert all("writes what mbarrier.test_wait of line 8 " in each and "still uses" in each for each in found)


def test_who_waits_for_all_that_use_a_mbarrier_ends_it():
    """As a producer does at its end, when those that consume have left."""
    text = """.shared .align 8 .b64 bar, left; .reg .pred %q; setp.eq.u32 %q, %t, 0;
    @%q mbarrier.init.shared.b64 [bar], 64;
    @%q mbarrier.init.shared.b64 [left], 64; bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];
    WAIT: mbarrier.test_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
    mbarrier.arrive.shared.b64 _, [left]; @!%q bra END;
    LAST: mbarrier.test_wait.parity.shared.b64 %p, [left], 0; @!%p bra LAST;
    mbarrier.inval.shared.b64 [bar]; mbarrier.inval.shared.b64 [left]; END:
    """
    assert not races(text, block=64)


#: What the first lane does behind a store of the second, and whether it may read that then.
BY_LANES = {
    "atom.shared.add.u32 %d, [flag], 1;": False,
    "atom.relaxed.cta.shared.add.u32 %d, [flag], 1; membar.cta;": False,
    "ld.acquire.cta.shared.u32 %d, [flag];": False,
    "membar.cta; ld.volatile.shared.u32 %d, [flag];": False,
    "atom.shared.add.u32 %d, [flag], 1; bar.warp.sync -1;": True,
}
TELLS = {
    "st.release.cta.shared.u32 [flag], 1;": True,
    "membar.cta; atom.shared.exch.b32 %d, [flag], 1;": True,
    "atom.shared.exch.b32 %d, [flag], 1;": False,
    "bar.warp.sync 2; st.volatile.shared.u32 [flag], 1;": False,
}


@pytest.mark.parametrize("what", BY_LANES)
def test_what_a_lane_does_alone_orders_no_other_of_its_warp(what):
    guarded = "; ".join(f"@%p {each}" if "sync" not in each else each for each in what.split("; "))
    text = f"setp.ne.u32 %p, %t, 1; mov.u32 %v, 0;\n@!%p st.shared.u32 [tile], 5; setp.eq.u32 %p, %t, 0;\n{guarded}"
    found = run(FLAGGED + text + "@%p ld.shared.u32 %v, [tile];" + TAIL, ["out=u32[32]=0"])
    assert found.ok == BY_LANES[what], found
    assert all("ld reads what st of line 8 in lane 1 writes" in each.words for each in found.findings), found


@pytest.mark.parametrize("tells", TELLS)
@pytest.mark.parametrize(
    "hears", ["ld.acquire.cta.shared.u32 %d, [flag];", "ld.volatile.shared.u32 %d, [flag]; membar.cta;"]
)
def test_a_lane_knows_what_another_of_its_warp_has_released(tells, hears):
    one, other = ("; ".join(f"@%p {each}" for each in text.split("; ")) for text in (tells, hears))
    text = f"setp.eq.u32 %p, %t, 1; mov.u32 %v, 0; @%p st.shared.u32 [tile], 5; {one} setp.eq.u32 %p, %t, 0; {other}"
    found = run(FLAGGED + text + "@%p ld.shared.u32 %v, [tile];" + TAIL, ["out=u32[32]=0"])
    assert found.ok == TELLS[tells], found


def test_lanes_that_count_by_acquiring_and_releasing_know_of_each_other():
    """The last lane that counts reads what all others have written, of its own warp and of another."""
    text = """st.shared.u32 [%s], %t; atom.acq_rel.cta.shared.add.u32 %d, [flag], 1; setp.eq.u32 %p, %d, 63;
    mov.u32 %v, 0; @%p ld.shared.u32 %v, [tile]; @%p ld.shared.u32 %d, [tile+128]; @%p add.u32 %v, %v, %d;"""
    found = run(FLAGGED + text + TAIL, ["out=u32[64]=0"], block=64)
    assert found.ok, found
    assert found.outputs["out"].sum() == 32
    assert not run(FLAGGED + text.replace("acq_rel", "relaxed") + TAIL, ["out=u32[64]=0"], block=64).ok


@pytest.mark.parametrize("fence", ["membar.cta;", ""])
def test_lanes_take_a_lock_in_turn(fence):
    """Each adds to a plain word while it has the lock."""
    text = f""".shared .b32 word; setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [word], 0; bar.sync 0;
    A: atom.shared.cas.b32 %d, [flag], 0, 1; setp.ne.u32 %p, %d, 0; @%p bra A; {fence} ld.shared.u32 %v, [word];
    add.u32 %v, %v, 1; st.shared.u32 [word], %v; {fence} atom.shared.exch.b32 %d, [flag], 0;"""
    found = run(FLAGGED + text + TAIL, ["out=u32[64]=0"], block=64)
    assert found.ok == bool(fence), found
    assert sorted(found.outputs["out"]) == [*range(1, 65)]


COUNT = """st.shared.u32 [%s], %t; bar.warp.sync -1; membar.cta;
and.b32 %o, %t, 31; setp.eq.u32 %p, %o, 0; mov.u32 %d, 0; @%p atom.shared.inc.u32 %d, [flag], 3;
shfl.sync.idx.b32 %d, %d, 0, 31, -1; mov.u32 %v, 0;
membar.cta; setp.eq.u32 %p, %d, {}; xor.b32 %o, %s, 384; @%p ld.shared.u32 %v, [%o];
"""


def test_the_last_warp_knows_of_all_that_counted_before_it():
    """Each of four reads what the one opposite has written, and knows of it if that counted before."""
    for which in range(4):
        found = run(FLAGGED + COUNT.format(which) + TAIL, ["out=u32[128]=0"], block=128)
        assert found.ok == (3 - which < which), (which, found)


def test_the_last_warp_resets_what_was_counted():
    reset = COUNT.format(3) + "setp.eq.u32 %p, %d, 3; @%p st.shared.u32 [flag], 9;"
    assert run(FLAGGED + reset + TAIL, ["out=u32[128]=0"], block=128).ok


def test_notice_of_another_block_is_none():
    """A warp of the second block waits for what one of the first says, and reads what one of its own has written."""
    first = "mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %t, 0; setp.eq.and.u32 %p, %o, 0, %p;"
    kernel = f"{WRITES}membar.gl; {first} @%p st.volatile.global.u32 [%out], 1;\n"
    kernel += READS.format("ld.volatile.global.u32 %d, [%out]; membar.gl")
    found = run(FLAGGED + kernel + TAIL, ["out=u32[64]=0"], block=64, grid=2).findings
    shared = [each.words for each in found if "warp 1, lane 0 of block 1" in each.words]
    assert any("ld reads what st of line 8 writes" in words for words in shared), found


@pytest.mark.parametrize(("scope", "ok"), [("", True), (".gpu", True), (".cta", False)])
def test_an_atomic_of_a_block_alone_tells_no_other(scope, ok):
    text = f"""mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 0; @!%p bra WAIT;
    st.global.u32 [%out], 5; membar.gl; atom{scope}.global.exch.b32 %d, [%out+4], 1; ret;
    WAIT: ld.acquire.gpu.global.u32 %d, [%out+4]; setp.ne.u32 %p, %d, 1; @%p bra WAIT;
    ld.global.u32 %v, [%out]; st.global.u32 [%out+8], %v; ret; }}"""
    found = run(HEAD + text, ["out=u32[4]=0"], block=1, grid=2)
    assert found.ok == ok, found


@pytest.mark.parametrize(
    ("reads", "writes", "races"),
    [
        ("ld.volatile.global", "st.global", True),
        ("ld.relaxed.gpu.global", "st.global", True),
        ("ld.relaxed.gpu.global", "st.relaxed.gpu.global", False),
        ("ld.volatile.global", "st.volatile.global", False),
        ("ld.global", "st.volatile.global", True),
        ("ld.relaxed.cta.global", "st.relaxed.gpu.global", True),
        ("ld.relaxed.gpu.global", "st.relaxed.cta.global", True),
        ("ld.relaxed.gpu.global", "red.global.add", False),
        ("ld.relaxed.gpu.global", "red.cta.global.add", True),
        ("ld.relaxed.cluster.global", "red.cluster.global.add", True),
        ("ld.relaxed.cluster.global", "red.global.add", True),
    ],
)
@pytest.mark.parametrize("first", ["reads", "writes"])
def test_blocks_race_unless_both_are_strong_for_each_other(reads, writes, races, first):
    """One of two blocks reads, and the other writes, either first."""
    read, write = f"{reads}.u32 %v, [%out];", f"{writes}.u32 [%out], 1;"
    one, other = (read, write) if first == "reads" else (write, read)
    text = f"mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 0; @%p {one}\n @!%p {other} ret; }}"
    found = run(HEAD + text, ["out=u32[4]=0"], block=1, grid=2)
    assert (not found.ok) == races, found
    # Threads of one block are in each other's scope.
    weak = {"ld.global", "st.global"} & {reads, writes}
    assert run(HEAD + text.replace("%ctaid", "%tid"), ["out=u32[4]=0"], block=2).ok != bool(weak)


@pytest.mark.parametrize(("load", "ok"), [("ld.acquire.gpu", True), ("ld.acquire.cta", False)])
def test_a_load_for_its_own_block_hears_no_other(load, ok):
    text = f"""mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 0; @!%p bra WAIT;
    st.global.u32 [%out], 5; membar.gl; st.relaxed.gpu.global.u32 [%out+4], 1; ret;
    WAIT: {load}.global.u32 %d, [%out+4]; setp.ne.u32 %p, %d, 1; @%p bra WAIT;
    ld.global.u32 %v, [%out]; ret; }}"""
    found = run(HEAD + text, ["out=u32[4]=0"], block=1, grid=2).findings
    assert len(found) == (0 if ok else 2), found  # the notice and what it is of


@pytest.mark.parametrize("grid", [2, 8, 40, 300])
@pytest.mark.parametrize(
    "text",
    [
        "st.global.u32 [%out], %o;",
        "mad.wide.u32 %at, %o, 4, %out; ld.global.u32 %v, [%at+4]; st.global.u32 [%at], %d;",
        "mad.wide.u32 %at, %o, 4, %out; st.global.u32 [%at], %d; ld.global.u32 %v, [%at+4];",
    ],
)
def test_every_block_that_races_is_counted(text, grid):
    """Each with the next one."""
    (finding,) = run(HEAD + f"mov.u32 %o, %ctaid.x; {text} ret; }}", ["out=u32[301]=0"], block=1, grid=grid).findings
    assert (f", {grid - 1} times)" in finding.words) or grid == 2


#: Blocks 0 and 1 are one cluster, 2 and 3 another. One writes, another one reads.
SCOPES = """mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 0; @%p bra FIRST; setp.eq.u32 %p, %o, {reader}; @%p bra WAIT; ret;
FIRST: st.global.u32 [%out], 5; fence.acq_rel.{fence}; st.relaxed.{tells}.global.u32 [%out+4], 1; ret;
WAIT: ld.relaxed.{hears}.global.u32 %d, [%out+4]; setp.ne.u32 %p, %d, 1; @%p bra WAIT;
fence.acq_rel.{last}; ld.global.u32 %v, [%out]; st.global.u32 [%out+8], %v; ret; }}"""


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("narrow", ["", "fence", "tells", "hears", "last"])
def test_a_scope_must_have_both_blocks(reader, narrow):
    """One of the words is of a narrower scope than the others, which the blocks have not in common."""
    least, less = ("cluster", "cta") if reader == 1 else ("gpu", "cluster")
    words = {name: less if name == narrow else least for name in ("fence", "tells", "hears", "last")}
    found = run(CLUSTER + SCOPES.format(reader=reader, **words), ["out=u32[4]=0"], block=1, grid=4)
    assert found.ok == (not narrow), found
    said = "no fence behind the read that tells of it" in " ".join(found.text().split())
    assert said == (narrow == "last"), found


@pytest.mark.parametrize(("fence", "ok"), [("membar.gl;", True), ("membar.cta;", False), ("", False)])
def test_what_threads_fence_before_they_meet_one_of_them_tells(fence, ok):
    """A thread of the first block writes, another one gives notice, and a second block reads."""
    text = f"""mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 0; @!%p bra WAIT;
    setp.eq.u32 %p, %t, 32; @%p st.global.u32 [%out], 5; {fence} bar.sync 0;
    setp.eq.u32 %p, %t, 0; @%p atom.relaxed.gpu.global.exch.b32 %d, [%out+4], 1; ret;
    WAIT: ld.acquire.gpu.global.u32 %d, [%out+4]; setp.ne.u32 %p, %d, 1; @%p bra WAIT;
    ld.global.u32 %v, [%out]; ret; }}"""
    found = run(HEAD + text, ["out=u32[4]=0"], block=33, grid=2)
    assert found.ok == ok, found


@pytest.mark.parametrize(
    ("hears", "meeting", "ok"),
    [
        ("ld.acquire.gpu.global.u32 %d, [%out+4];", "bar.sync 0;", True),
        ("ld.relaxed.gpu.global.u32 %d, [%out+4]; membar.gl;", "bar.sync 0;", True),
        ("ld.volatile.global.u32 %d, [%out+4];", "bar.sync 0; membar.gl;", True),
        ("atom.acq_rel.gpu.global.cas.b32 %d, [%out+4], 1, 0;", "bar.sync 0;", True),
        ("ld.volatile.global.u32 %d, [%out+4];", "bar.sync 0;", False),
        ("ld.volatile.global.u32 %d, [%out+4];", "membar.cta; bar.sync 0; membar.cta;", False),
        ("ld.acquire.gpu.global.u32 %d, [%out+4];", "", False),
        ("atom.global.cas.b32 %d, [%out+4], 1, 0;", "bar.sync 0;", False),
    ],
)
def test_what_one_thread_acquires_the_others_have_after_they_met(hears, meeting, ok):
    """A thread of the second block waits for what the first says, and one of another warp reads."""
    text = f"""mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 1; @%p bra SECOND; setp.eq.u32 %p, %t, 0; @!%p ret;
    st.global.u32 [%out], 5; st.release.gpu.global.u32 [%out+4], 1; ret;
    SECOND: setp.eq.u32 %p, %t, 0; @!%p bra OVER;
    WAIT: {hears} setp.ne.u32 %p, %d, 1; @%p bra WAIT;
    OVER: {meeting} setp.eq.u32 %p, %t, 32; @%p ld.global.u32 %v, [%out]; @%p st.global.u32 [%out+8], %v; ret; }}"""
    found = run(HEAD + text, ["out=u32[4]=0"], block=33, grid=2)
    assert found.ok == ok, found


@pytest.mark.parametrize("hears", ["acquire", "relaxed"])
def test_notice_by_way_of_another_block(hears):
    """A warp tells a second block, and that tells another warp of the first one."""
    poll = "ld.{}.gpu.global.u32 %d, [%out+{}]; setp.ne.u32 %p, %d, 1; @%p bra"
    text = f"""mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 1; @%p bra SECOND; setp.eq.u32 %p, %t, 32; @%p bra LAST;
    setp.eq.u32 %p, %t, 0; @!%p ret; st.global.u32 [%out], 5; st.release.gpu.global.u32 [%out+4], 1; ret;
    SECOND: {poll.format(hears, 4)} SECOND; st.release.gpu.global.u32 [%out+8], 1; ret;
    LAST: {poll.format("acquire", 8)} LAST; ld.global.u32 %v, [%out]; ret; }}"""
    assert run(HEAD + text, ["out=u32[4]=0"], block=33, grid=2).ok == (hears == "acquire")


def test_a_block_waits_by_an_atomic_for_one_that_comes_later():
    """With more threads than run at once where no block waits."""
    text = """mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 4; @%p bra LAST; setp.eq.u32 %p, %o, 0; @!%p ret;
    setp.eq.u32 %p, %t, 0; @!%p ret; WAIT: atom.global.or.b32 %d, [%out], 0; setp.ne.u32 %p, %d, 1; @%p bra WAIT; ret;
    LAST: setp.eq.u32 %p, %t, 0; @%p atom.global.exch.b32 %d, [%out], 1; ret; }"""
    assert run(HEAD + text, ["out=u32[1]=0"], block=1024, grid=5, limit=5000).ok


@pytest.mark.parametrize(
    ("passes_on", "ok"),
    [
        ("atom.relaxed.gpu.global.add.u32 %d, [%out+4], 1;", True),
        ("red.relaxed.gpu.global.add.u32 [%out+4], 1;", True),
        ("st.relaxed.gpu.global.u32 [%out+4], 2;", False),
        ("membar.gl; st.relaxed.gpu.global.u32 [%out+4], 2;", True),
    ],
)
def test_a_store_in_place_of_what_another_block_told_tells_it_no_more(passes_on, ok):
    """The first block tells the second, and that the third, which reads what the first has written."""
    wait = "WAIT{0}: ld.{1}.gpu.global.u32 %d, [%out+4]; setp.ne.u32 %p, %d, {0}; @%p bra WAIT{0};"
    text = f"""mov.u32 %o, %ctaid.x; setp.eq.u32 %p, %o, 1; @%p bra WAIT1; setp.eq.u32 %p, %o, 2; @%p bra WAIT2;
    st.global.u32 [%out], 5; st.release.gpu.global.u32 [%out+4], 1; ret;
    {wait.format(1, "relaxed")} {passes_on} ret;
    {wait.format(2, "acquire")} ld.global.u32 %v, [%out]; st.global.u32 [%out+8], %v; ret; }}"""
    found = run(HEAD + text, ["out=u32[4]=0"], block=1, grid=3)
    assert found.ok == ok, found


def test_an_atomic_of_what_another_warp_has_just_stored():
    count = "setp.lt.u32 %p, %t, 32; @%p st.shared.u32 [tile], 0; {} @!%p {} mov.u32 %v, 0;"
    for counts in ("red.shared.add.u32 [tile], 1;", "atom.shared.add.u32 %d, [tile], 1;"):
        assert not races(count.format("bar.sync 0;", counts), block=64)
        assert "reads what st of line 6 writes" in races(count.format("", counts), block=64)[0]


GLOBAL = """cvta.to.global.u64 %at, %out; mad.wide.u32 %at, %t, 4, %at; st.global.u32 [%at], %t;
{} xor.b32 %o, %t, {}; mad.wide.u32 %at, %o, 4, %out; ld.global.u32 %v, [%at];
{} """


@pytest.mark.parametrize(("other", "meeting"), [(4, "bar.warp.sync -1;"), (32, "bar.sync 0;"), (36, "bar.sync 0;")])
def test_threads_of_a_block_race_in_global_memory(other, meeting):
    again = "mad.wide.u32 %at, %t, 4, %out;"
    assert not races(GLOBAL.format(meeting, other, f"{meeting} {again}"), block=64)
    assert "ld reads what st of line 6" in races(GLOBAL.format("", other, f"{meeting} {again}"), block=64)[0]
    late = GLOBAL.format(meeting, other, f"{again} add.u32 %v, %v, 1; st.global.u32 [%at], %v; {meeting}")
    assert "st writes what ld of line 7" in races(late, block=64)[0]
    if other == 32:
        assert races(GLOBAL.format("bar.warp.sync -1;", other, f"{meeting} {again}"), block=64)


@pytest.mark.parametrize("place", ["shared.u32 [tile]", "global.u32 [%out]"])
def test_a_plain_access_after_an_atomic(place):
    """Of another thread, which must meet the one that adds; atomics of all need not."""
    space, at = place.split(" ")
    adds = f"setp.lt.u32 %p, %t, 32; mov.u32 %v, 0; red.{space.replace('.u32', '.add.u32')} {at}, 1;"
    reads = f"ld.{space} %v, {at}; bar.sync 0;"
    assert not races(adds + "bar.sync 0;", block=64)
    assert not races(f"{adds} bar.sync 0; {reads}", block=64)
    assert "ld reads what red of line 6" in races(f"{adds}\n{reads}", block=64)[0]
    assert "st writes what red of line 6" in races(f"{adds}\nst.{space} {at}, 99; bar.sync 0;", block=64)[0]


def test_what_all_threads_load_and_one_stores():
    """As Triton compiles what every thread has; in shared memory it may be that the others use it."""
    text = "ld.{0} %v, {1}; add.u32 %d, %v, 1; setp.eq.u32 %p, %t, 0;{2}\n@%p st.{0} {1}, %d; add.u64 %out, %out, 4;"
    assert not races(text.format("global.u32", "[%out]", ""), block=63)
    first = "mov.u32 %o, %ctaid.x; setp.eq.and.u32 %p, %o, 0, %p;"
    assert "ld of line 6 in block 1" in races(text.format("global.u32", "[%out]", first), block=63, grid=2)[0]
    shared = "st.shared.u32 [tile], 3; bar.sync 0;" + text.format("shared.u32", "[tile]", "")
    assert "st writes what ld of line 6" in races(shared, block=63)[0]
    again = "ld.global.u32 %o, [%out]; add.u32 %d, %o, %d;"
    assert "still uses" in races(text.format("global.u32", "[%out]", f"@!%p {again}"), block=63)[0]


@pytest.mark.parametrize("operation", ["cas", "max"])
def test_an_atomic_that_compares_may_follow_a_plain_read_of_others(operation):
    """As a loop of cas begins with one, and as a maximum is looked at before; and so may a plain write."""
    type_, given = ("b32", "0, 7") if operation == "cas" else ("u32", "7")
    atom = f"setp.lt.u32 %p, %t, 32; @%p atom.global.{operation}.{type_} %d, [%out], {given};"
    assert not races(
        f"""ld.global.u32 %v, [%out]; {atom} ld.global.u32 %v, [%out];
        @%p ld.global.u32 %d, [%out]; add.u64 %out, %out, 4;""",
        block=33,
    )
    assert not races(f"{atom} @!%p st.global.u32 [%out], 9; add.u64 %out, %out, 4; mov.u32 %v, 0;", block=33)


def test_copies_of_other_lanes_are_there_behind_a_mbarrier():
    text = """.shared .align 8 .b64 bar; .reg .pred %q; setp.eq.u32 %q, %t, 0; @%q mbarrier.init.shared.b64 [bar], 32;
    bar.warp.sync -1; cvta.to.global.u64 %at, %out; mad.wide.u32 %at, %t, 4, %at;
    cp.async.ca.shared.global [%s], [%at], 4; {} bar.warp.sync -1;
    WAIT: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra WAIT; ld.shared.u32 %v, [%o];"""
    assert not races(text.format("cp.async.mbarrier.arrive.noinc.shared.b64 [bar];"))
    assert "ld reads what cp of line 8" in races(text.format("mbarrier.arrive.shared.b64 _, [bar];"))[0]


def test_lanes_know_what_those_know_that_they_met():
    """Lanes 0 and 1 meet, then 1 and 2: what 0 wrote is known to 2, and what 3 wrote is not."""
    store = "setp.eq.u32 %p, %t, {0}; @%p st.shared.u32 [tile+{1}], 7;\n"
    meet = "setp.eq.u32 %p, %t, {}; setp.eq.or.u32 %p, %t, {}, %p; @%p bar.warp.sync {};\n"
    read = "mov.u32 %v, 0; setp.eq.u32 %p, %t, 2; @%p ld.shared.u32 %v, [tile+{}];\n"
    before = store.format(0, 0) + store.format(3, 12) + "setp.lt.u32 %p, %t, 4;\n"
    ways = meet.format(0, 1, 3) + meet.format(1, 2, 6)
    assert not races(before + ways + read.format(0), block=4)
    assert "st of line 7 in lane 3 writes" in races(before + ways + read.format(12), block=4)[0]
    assert "st of line 6 in lane 0 writes" in races(before + meet.format(0, 1, 3) + read.format(0), block=4)[0]
    assert races(before + meet.format(1, 2, 6) + meet.format(0, 1, 3) + read.format(0), block=4)


def test_a_write_of_the_same_hides_no_read_from_another():
    """Lane 0 reads, lane 1 writes the same and meets lane 2, which writes something else."""
    when = "setp.eq.u32 %p, %t, {}; @%p"
    text = f"{when.format(0)} st.shared.u32 [tile], 7; bar.warp.sync 15;\n{when.format(0)} ld.shared.u32 %v, [tile];\n"
    text += f"{when.format(1)} st.shared.u32 [tile], {{}}; mov.u32 %v, 0; setp.eq.u32 %p, %t, 1;"
    text += f"setp.eq.or.u32 %p, %t, 2, %p; @%p bar.warp.sync 6;\n{when.format(2)} st.shared.u32 [tile], 9;"
    (words,) = races(text.format(7), block=4)
    assert "st writes what ld of line 7 in lane 0 still uses, and nothing orders the two (line 9" in words


def test_lanes_that_meet_at_several_places():
    text = "st.shared.u32 [%s], %t; @%p bra HIGH;\nbar.warp.sync -1; bra OVER;\nHIGH: bar.warp.sync -1;\nOVER:"
    assert not races(text + "xor.b32 %o, %s, 64; ld.shared.u32 %v, [%o];")  # of a lane that went the other way
    alone = text.replace("bar.warp.sync -1; bra", "bar.warp.sync 0xffff; bra").replace("sync -1;", "sync 0xffff0000;")
    assert "race" in races(alone + "xor.b32 %o, %s, 64; ld.shared.u32 %v, [%o];")[0]


def test_lanes_that_end_behind_another_place_have_met():
    """Lanes below 16 come first, and are known to the others if they met them before they ended."""
    text = "st.shared.u32 [%s], %t; @%p bra HIGH;\n{} ret;\nHIGH: bar.warp.sync -1;"
    text += "xor.b32 %o, %s, 64; ld.shared.u32 %v, [%o];"
    assert not races(text.format("bar.warp.sync -1;"))
    assert "race: ld reads what st of line 6 in lane 0 writes" in races(text.format(""))[0]


@pytest.mark.parametrize("meeting", ["bar.warp.sync %d;", "vote.sync.ballot.b32 %v, %p, %d;"])
def test_lanes_meet_those_that_they_name(meeting):
    """Two halves of each warp come to one instruction at once, each with a mask of its own, as tiles do."""
    masks = "and.b32 %d, %t, 16; shl.b32 %d, 0xffff, %d;"
    text = f"st.shared.u32 [%s], %t; {masks} {meeting} {{}} xor.b32 %o, %s, {{}}; ld.shared.u32 %v, [%o];"
    assert not races(text.format("", 32))
    assert "race: ld reads what st of line 6 in lane 16 writes" in races(text.format("", 64))[0]
    assert not races(text.format("bar.warp.sync -1;", 64))


@pytest.mark.parametrize("lane", [0, 7, 31])
def test_a_place_that_all_lanes_have_read_is_written_by_one(lane):
    text = f"@!%p st.shared.u32 [%s], 1; bar.warp.sync -1; ld.shared.u32 %v, [%d]; setp.eq.u32 %p, %t, {lane};"
    assert "st writes what ld of line" in races(text + "\n@%p st.shared.u32 [%d], 9;")[0]
    assert not races(text + "\nbar.warp.sync -1; @%p st.shared.u32 [%d], 9;")


@pytest.mark.parametrize(("first", "other"), [(0, 4), (4, 0), (1, 5), (0, 7)])
def test_no_read_of_a_warp_hides_that_of_another(first, other):
    """Of 8 warps one reads before and after another, and alone meets the one that writes."""
    when = "shr.u32 %o, %t, 5; setp.eq.u32 %p, %o, {};"
    read = when + " @%p ld.shared.u32 %v, [tile];\n"
    text = read.format(first) + read.format(other) + read.format(first)
    text += f"{when.format(first)} setp.eq.or.u32 %p, %o, 6, %p; @%p bar.sync 1, 64; {{}}\n"
    text += f"{when.format(6)} @%p st.shared.u32 [tile], 9; mov.u32 %v, 0;"
    (words,) = races(text.format(""), block=256)
    assert "st writes what ld of line 7 still uses" in words
    assert not races(text.format("bar.sync 0;"), block=256)


@pytest.mark.parametrize("warp", [0, 4, 9, 15])
def test_a_warp_that_has_read_and_did_not_meet(warp):
    """All of 16 warps read, all but one meet, and one of these writes."""
    text = f"ld.shared.u32 %v, [tile]; shr.u32 %o, %t, 5; setp.ne.u32 %p, %o, {warp}; @%p bar.sync 1, 480;\n"
    text += f"setp.eq.u32 %p, %o, {warp ^ 1}; @%p st.shared.u32 [tile], 9; mov.u32 %v, 0;"
    assert "st writes what ld of line 6 still uses" in races(text, block=512)[0]


LANES = 4


@examples(600)
@given(
    st.lists(
        st.tuples(st.sampled_from(["reads", "writes", "meet"]), st.integers(1, 2**LANES - 1), st.integers(0, 1)),
        min_size=2,
        max_size=12,
    )
)
def test_lanes_race_as_sets_of_what_happened_before_say(steps):
    """Against a definition: each access has the set of accesses that happened before it."""
    lanes = Order(History(np.zeros(1, int), 1), np.zeros(WARP, int), np.arange(WARP) < LANES, 2)
    past = [set() for _ in range(LANES)]  # of each lane
    done = []
    for kind, members, byte in steps:
        lanes.begin(0)
        who = [lane for lane in range(LANES) if members >> lane & 1]
        if kind == "meet":
            mask = np.isin(np.arange(WARP), who)
            lanes.meet_lanes(mask)
            union = set().union(*(past[lane] for lane in who))
            for lane in who:
                past[lane] = set(union)
            continue
        who = who[:1] if kind == "writes" else who
        expected = any(
            other != lane and where == byte and "writes" in (kind, how) and event not in past[lane]
            for lane in who
            for event, (other, where, how) in enumerate(done)
        )
        place, threads = np.full((len(who), 1), byte), np.array(who)
        if kind == "writes":
            changed = np.ones((1, 1), bool)
            race = lanes.writes(lanes.shared, place, threads, changed, ~changed)
        else:
            race = lanes.reads(lanes.shared, place, threads)
        if expected and race is None:
            # Only two of those who read are kept, and none of those whose race is known.
            assert kind == "writes"
        assert race is None or expected
        if race is not None:
            return
        for lane in who:
            past[lane].add(len(done))
            done.append((lane, byte, kind))


PRODUCT = "C[m,n] = A[m,k] B[n,k]"
TURNS = ["A=f16[16,128]", "B=f16[8,128]", "C=f32[16,8]=0", "turn=u32[1]=0", "K=128"]


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
def test_blocks_that_take_turns_do_not_race(nvcc, blocks):
    found = run(nvcc("semaphore"), TURNS, PRODUCT, grid=blocks)
    assert found.ok, found


@pytest.mark.parametrize("which", ["FENCE", pytest.param("ACQUIRE", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fence", ["", "__threadfence_block()"])
def test_without_a_fence_they_do(nvcc, which, fence):
    (finding,) = run(nvcc("semaphore", "sm_80", f"{which}={fence}"), TURNS, PRODUCT, grid=4).findings
    assert re.match(r"race: ld reads what st of semaphore.cu:\d+ in block 0 writes", finding.words), finding


def test_parts_that_a_block_reads_are_there_behind_a_fence(nvcc):
    from .test_corpus import FORMULA, STREAM

    text = nvcc("stream")
    bare = re.sub(r"membar\.gl;|fence\.\S+;", "", text)
    assert bare != text
    (finding,) = run(bare, STREAM, FORMULA, block=32, grid=3).findings
    assert re.match(r"race: ld reads what st of stream.cu:\d+ in block \d writes", finding.words)
    weak = text.replace("ld.acquire.gpu.global", "ld.global")
    assert weak != text
    assert "race" in {each.kind for each in run(weak, STREAM, FORMULA, block=32, grid=3, limit=5000).findings}


#: The first thread or block writes after some rounds of a loop, and others wait for that by plain loads.
PLAIN_POLLS = """setp.ne.u32 %p, %s, 0; @%p bra WAIT; bra FIRST;
WAIT: ld.global.u32 %d, [%out]; setp.ne.u32 %p, %d, {waits};
@%p bra WAIT; ret;
FIRST: mov.u32 %o, 0; AGAIN: add.u32 %o, %o, 1; setp.lt.u32 %p, %o, {rounds}; @%p bra AGAIN;
st.global.u32 [%out], 5; ret; }}"""


@pytest.mark.parametrize("rounds", [0, 100])
@pytest.mark.parametrize(("who", "how"), [("%ctaid.x", {"block": 1, "grid": 3}), ("%tid.x", {"block": 3})])
def test_who_waits_by_plain_loads_lets_others_go_on(who, how, rounds):
    """Also where it waits for ever, what races is named."""
    for waits in (5, 9):
        text = HEAD + f"mov.u32 %s, {who};" + PLAIN_POLLS.format(rounds=rounds, waits=waits)
        found = run(text, ["out=u32[2]=0"], limit=1000, **how)
        assert any("st writes what ld of line 7" in each.words for each in found.findings), found
        assert found.checked, found
        assert ("deadlock" in {each.kind for each in found.findings}) == (waits == 9), found


COPY = """
.visible .entry copy(.param .u64 in, .param .u64 out) {{
.reg .b64 %in, %out, %i, %o; .reg .b32 %t, %b, %v; .reg .pred %p;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
{} mad.wide.u32 %i, %t, 4, %in; mad.wide.u32 %o, %t, 4, %out;
ld.global.u32 %v, [%i];
{}
ret; }}
"""


def test_blocks_that_write_one_place():
    given_ = ["in=u32[64]", "out=u32[64]=0"]
    own, other = "mad.lo.u32 %t, %b, 32, %t;", "add.u32 %v, %v, %b;\nst.global.u32 [%o], %v;"
    assert run(COPY.format(own, "st.global.u32 [%o], %v;"), given_, grid=2).ok
    assert run(COPY.format(own, other), given_, grid=2).ok
    assert run(COPY.format("", "st.global.u32 [%o], %v;"), given_, grid=2).ok  # the same numbers
    assert run(COPY.format("", "red.global.add.u32 [%o], %v;"), given_, grid=2).ok
    assert "st of line 8 in block 1 still uses" in run(COPY.format("", other), given_, grid=2).findings[0].words
    into = "xor.b32 %t, %t, 32; mad.wide.u32 %i, %t, 4, %in;\nst.global.u32 [%i], 99;"
    assert re.search(
        "st writes what ld of line 6 in block [01] still uses", run(COPY.format(own, into), given_, grid=2).text()
    )


def test_blocks_race_also_where_they_do_not_run_at_once():
    text = COPY.format("", "add.u32 %v, %v, %b;\nst.global.u32 [%o], %v;")
    (finding,) = run(text, ["in=u32[1024]", "out=u32[1024]=0"], block=1024, grid=8).findings
    assert finding.words.endswith("lane 0, 7168 times)"), finding


@pytest.mark.parametrize("acquires", [False, True])
def test_notice_of_a_block_is_what_is_behind_its_fence(acquires):
    history, byte, changed = History(np.arange(2), 8), np.array([[0]]), np.ones((1, 1), bool)
    blocks = Order(history, np.arange(2 * WARP) // WARP, np.ones(2 * WARP, bool), 0)
    first, second, flag = np.array([0]), np.array([WARP]), np.array([4])

    def writes():
        blocks.begin(1)
        blocks.writes(history.globe, byte, first, changed, ~changed)

    def reads():
        blocks.begin(2)
        return blocks.reads(history.globe, byte, second)

    writes()
    blocks.synchronize("global", flag, first, GRID, ["red"])
    blocks.synchronize("global", flag, second, GRID, ["ld", "acquire"])
    assert reads() is not None
    blocks.fence(first, GRID)
    blocks.synchronize("global", flag, first, GRID, ["red"])
    assert reads() is not None
    blocks.synchronize("global", np.array([0]), second, GRID, ["ld", "acquire"])  # another place
    assert reads() is not None
    blocks.synchronize("global", flag, second, GRID, ["ld", "acquire"][: 1 + acquires])
    if not acquires:
        assert reads().told
        blocks.fence(second, BLOCK)
        assert reads().told
        blocks.fence(second, GRID)
    assert reads() is None
    writes()
    assert reads() is not None


READERS = """
.visible .entry several(.param .u64 x, .param .u64 flag) {{
.reg .b64 %x, %f; .reg .b32 %b, %v; .reg .pred %p;
ld.param.u64 %x, [x]; ld.param.u64 %f, [flag]; mov.u32 %b, %ctaid.x; setp.eq.u32 %p, %b, {readers}; @%p bra WAIT;
{between} ld.global.u32 %v, [%x]; membar.gl;
setp.ne.u32 %p, %b, {silent}; @%p red.global.add.u32 [%f], 1; ret;
WAIT: ld.acquire.gpu.global.u32 %v, [%f]; setp.lt.u32 %p, %v, {count}; @%p bra WAIT;
st.global.u32 [%x], 7; ret; }}
"""


@pytest.mark.parametrize(
    "between", ["", "LATE: sub.u32 %b, %b, 1; setp.ge.s32 %p, %b, 0; @%p bra LATE; mov.u32 %b, %ctaid.x;"]
)
@pytest.mark.parametrize("readers", [4, 15])
def test_no_read_of_a_block_hides_that_of_another(readers, between):
    """All blocks but the last read a place, at once or one after the other; one of them does not say so to the last."""
    for silent in range(readers + 1):
        text = READERS.format(readers=readers, silent=silent, count=readers - (silent < readers), between=between)
        found = run(text, ["x=u32[1]", "flag=u32[1]=0"], grid=readers + 1, block=1)
        words = [finding.words for finding in found.findings]
        assert bool(words) == (silent < readers), (silent, words)
        assert not words or f"what ld of line 5 in block {silent} still uses" in " ".join(words[0].split())

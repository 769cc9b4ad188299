"""What races in shared memory: two warps of a block and one byte."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from lanemap.capture.machine.accesses import BLOCK, COPIES, GRID, OWN, WEAK, WGMMA, Manner
from lanemap.capture.machine.order import History, Order

from ..modes import examples

FIRST, SECOND, BOTH = np.array([0]), np.array([32]), np.ones(64, bool)


class Block:
    """Two warps of a block, and four bytes of its shared memory; each access is a step."""

    def __init__(self):
        self.order = Order(History(np.zeros(1, int), 1), np.zeros(64, int), BOTH, 4)
        self.arrived, self.commit, self.fence = self.order.arrived, self.order.commit, self.order.fence_proxy
        self.meet = self.order.meet

    def reads(self, threads, by=OWN):
        self.order.begin(1)
        return self.order.reads(self.order.shared, np.arange(4)[None], threads, Manner(by))

    def writes(self, threads, by=OWN):
        self.order.begin(2)
        changed = np.ones((1, 4), bool)
        return self.order.writes(self.order.shared, np.arange(4)[None], threads, changed, ~changed, Manner(by))


def test_a_meeting_orders_what_was_before_it_and_nothing_after():
    order = Block()
    assert order.writes(FIRST) is None
    assert order.reads(SECOND) is not None
    order.meet(BOTH)
    assert order.reads(SECOND) is None
    assert order.writes(FIRST) is not None
    order.meet(BOTH)
    assert order.writes(FIRST) is None
    assert order.reads(SECOND) is not None


def test_strong_reads_hide_no_other():
    order = Block()
    for lane, strong in ((1, GRID), (0, WEAK), (1, GRID)):
        order.order.begin(1)
        order.order.reads(order.order.shared, np.arange(4)[None], np.array([lane]), Manner(strong=strong))
    order.order.begin(2)
    changed = np.ones((1, 4), bool)
    assert order.order.writes(order.order.shared, np.arange(4)[None], SECOND, changed, ~changed, Manner(strong=GRID))


def test_a_copy_is_there_for_others_after_its_wait_and_a_meeting():
    order = Block()
    order.writes(FIRST, COPIES)
    order.commit(np.array([0]))
    assert order.reads(FIRST) is not None
    order.arrived(FIRST, 1)
    assert order.reads(FIRST) is not None
    order.arrived(FIRST, 0)
    assert order.reads(FIRST) is None
    assert order.reads(SECOND) is not None
    order.meet(BOTH)
    assert order.reads(SECOND) is None


def test_the_async_proxy_sees_what_a_fence_carried_there_before_or_after_a_meeting():
    for fenced in (FIRST, SECOND):
        order = Block()
        order.writes(FIRST)
        if fenced is FIRST:
            order.fence(np.array([0]))
        order.meet(BOTH)
        assert (order.reads(SECOND, WGMMA) is None) == (fenced is FIRST)
        if fenced is SECOND:
            order.fence(np.array([1]))
        assert order.reads(SECOND, WGMMA) is None


def test_a_fence_carries_to_the_async_proxy_of_its_own_warp():
    order = Block()
    order.writes(FIRST)
    order.meet(BOTH)
    order.fence(np.array([0]))
    assert order.reads(SECOND, WGMMA) is not None
    order.meet(BOTH)
    assert order.reads(SECOND, WGMMA) is None


def test_what_wgmma_reads_may_be_written_after_a_wait_of_its_group():
    order = Block()
    order.reads(FIRST, WGMMA)
    order.commit(np.array([0]), WGMMA)
    order.meet(BOTH)
    assert order.writes(FIRST) is not None
    order.reads(FIRST, WGMMA)
    order.commit(np.array([0]), WGMMA)
    order.arrived(FIRST, 0, WGMMA)
    assert order.writes(FIRST) is None


def test_what_wgmma_reads_is_still_read_after_threads_have_read_it():
    order = Block()
    order.reads(FIRST, WGMMA)
    order.commit(np.array([0]), WGMMA)
    order.reads(FIRST)
    order.meet(BOTH)
    assert order.writes(FIRST) is not None


THREADS = 0, 1, 32, 33, 64, 96
#: Accesses, and for whom each is strong.
STRONG = {"reads": WEAK, "writes": WEAK, "adds": GRID, "adds here": BLOCK, "polls": GRID, "polls here": BLOCK}
READS = "reads", "polls", "polls here"
STEPS = st.tuples(
    st.sampled_from([*STRONG, "meet", "lanes", "fence", "tells", "releases", "hears", "acquires"]),
    st.sampled_from(THREADS),
    st.integers(0, 1),
)


@examples(600)
@example([("releases", 32, 0), ("releases", 0, 0), ("tells", 32, 0)])
@given(st.lists(STEPS, min_size=2, max_size=20))
def test_threads_race_as_sets_of_what_happened_before_say(steps):
    """Against a definition: two blocks of two warps, of which two lanes each do something; each knows a set of events.

    What is known to a lane of a warp is so to the other where it is of another warp. A race that is found is one; one
    that is not found is with a read of which another one is kept, or with what another write has hidden.
    """
    history = History(np.arange(2), 2)
    order = Order(history, np.arange(128) // 64, np.arange(128) % 32 < 2, 0)
    lanes, told, released = {thread: set() for thread in THREADS}, {0: set(), 1: set()}, {}
    fenced, pending = ({thread: set() for thread in THREADS} for _ in range(2))
    done, last = [], {}  # each event has a thread, a byte, and a kind
    for kind, thread, byte in steps:
        order.begin(0)
        warp, block = thread // 32, thread // 64
        same = {
            "meet": [each for each in THREADS if each // 64 == block],
            "lanes": [each for each in THREADS if each // 32 == warp],
        }.get(kind, [thread])
        who, place = np.array([thread]), np.array([[byte]])
        if kind in ("meet", "lanes"):
            union = set().union(*(lanes[each] for each in same))
            mask = np.isin(np.arange(128) // (64 if kind == "meet" else 32), block if kind == "meet" else warp)
            (order.meet if kind == "meet" else order.meet_lanes)(mask & order.launched.reshape(-1))
            for table in (fenced, pending) if kind == "meet" else ():
                behind = set().union(*(table[each] for each in same))
                table.update({each: set(behind) for each in same})
            for each in same:
                lanes[each] = set(union)
        elif kind in ("fence", "tells", "releases", "hears", "acquires"):
            of_warp = [each for each in THREADS if each // 32 == warp]
            if kind == "fence":  # for all of a warp, as what is behind it
                order.fence(who, GRID)
                lanes[thread] |= pending[thread]
                for each in of_warp:
                    lanes[each] |= {event for event in pending[each] if done[event][0] // 32 != warp}
                for each in of_warp:
                    fenced[each] = set().union(*(lanes[other] for other in of_warp))
            elif kind in ("tells", "releases"):
                if kind == "releases":  # for all of a warp, as what it writes there later
                    released[warp, byte] = set().union(*(lanes[other] for other in of_warp))
                words = ["red", "release"] if kind == "releases" else ["red"]
                order.synchronize("global", np.array([8 + 4 * byte]), who, GRID, words)
                told[byte] |= fenced[thread] | released.get((warp, byte), set())
            else:
                order.synchronize("global", np.array([8 + 4 * byte]), who, GRID, ["ld", kind.removesuffix("s")])
                lanes[thread] |= told[byte] if kind == "acquires" else set()
                from_others = {event for event in told[byte] if done[event][0] // 32 != warp}
                for each in of_warp:
                    if kind == "acquires":
                        lanes[each] |= from_others
                    else:
                        pending[each] |= told[byte]
        else:
            writes, strong = kind not in READS, STRONG[kind]
            races = [
                number
                for number, (other, at, how) in enumerate(done)
                if at == byte
                and other != thread
                and number not in lanes[thread]
                and (writes or how not in READS)
                and min(strong, STRONG[how]) < (BLOCK if other // 64 == block else GRID)
            ]
            changed = np.ones((1, 1), bool)
            if writes:
                race = order.writes(history.globe, place, who, changed, ~changed, Manner(strong=strong))
            else:
                race = order.reads(history.globe, place, who, Manner(strong=strong))
            assert race is None or races, (steps, done)
            if races and race is None:
                assert all(done[number][2] in READS or last[byte] != number for number in races), (steps, done)
            if races:
                return
            lanes[thread].add(len(done))
            if writes:
                last[byte] = len(done)
            done.append((thread, byte, kind))

"""What races in shared memory: two warps of a block and one byte."""

import numpy as np

from lanemap.capture.machine.order import COPIES, WGMMA, Order

BYTE, FIRST, SECOND, BOTH = np.array([0]), np.array([0]), np.array([32]), np.array([0, 1])
WORD = np.ones((1, 4), bool)


def test_a_meeting_orders_what_was_before_it_and_nothing_after():
    order = Order(2, 2, 4)
    assert order.writes(BYTE, WORD, FIRST, 1) is None
    assert order.reads(BYTE, 4, SECOND, 2) is not None
    order.meet(BOTH)
    assert order.reads(BYTE, 4, SECOND, 3) is None
    assert order.writes(BYTE, WORD, FIRST, 4) is not None
    order.meet(BOTH)
    assert order.writes(BYTE, WORD, FIRST, 5) is None
    assert order.reads(BYTE, 4, SECOND, 6) is not None


def test_a_copy_is_there_for_others_after_its_wait_and_a_meeting():
    order = Order(2, 2, 4)
    order.writes(BYTE, WORD, FIRST, 1, COPIES)
    order.commit(np.array([0]))
    assert order.reads(BYTE, 4, FIRST, 2) is not None
    order.arrived(np.array([0]), 1)
    assert order.reads(BYTE, 4, FIRST, 3) is not None
    order.arrived(np.array([0]), 0)
    assert order.reads(BYTE, 4, FIRST, 4) is None
    assert order.reads(BYTE, 4, SECOND, 5) is not None
    order.meet(BOTH)
    assert order.reads(BYTE, 4, SECOND, 6) is None


def test_the_async_proxy_sees_what_a_fence_carried_there_before_or_after_a_meeting():
    for fenced in (FIRST, SECOND):
        order = Order(2, 2, 4)
        order.writes(BYTE, WORD, FIRST, 1)
        if fenced is FIRST:
            order.fence(np.array([0]))
        order.meet(BOTH)
        assert (order.reads(BYTE, 4, SECOND, 2, WGMMA) is None) == (fenced is FIRST)
        if fenced is SECOND:
            order.fence(np.array([1]))
        assert order.reads(BYTE, 4, SECOND, 3, WGMMA) is None


def test_what_wgmma_reads_may_be_written_after_a_wait_of_its_group():
    order = Order(2, 2, 4)
    order.reads(BYTE, 4, FIRST, 1, WGMMA)
    order.commit(np.array([0]), WGMMA)
    order.meet(BOTH)
    assert order.writes(BYTE, WORD, FIRST, 2) is not None
    order.reads(BYTE, 4, FIRST, 3, WGMMA)
    order.commit(np.array([0]), WGMMA)
    order.arrived(np.array([0]), 0, WGMMA)
    assert order.writes(BYTE, WORD, FIRST, 4) is None

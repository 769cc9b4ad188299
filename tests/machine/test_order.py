"""What races in shared memory: two warps of a block and one byte."""

import numpy as np

from lanemap.capture.machine.order import COPIES, Order

BYTE, FIRST, SECOND, BOTH = np.array([0]), np.array([0]), np.array([32]), np.array([0, 1])


def test_a_meeting_orders_what_was_before_it_and_nothing_after():
    order = Order(2, 2, 4)
    assert order.writes(BYTE, 4, FIRST, 1) is None
    assert order.reads(BYTE, 4, SECOND, 2) is not None
    order.meet(BOTH)
    assert order.reads(BYTE, 4, SECOND, 3) is None
    assert order.writes(BYTE, 4, FIRST, 4) is not None
    order.meet(BOTH)
    assert order.writes(BYTE, 4, FIRST, 5) is None
    assert order.reads(BYTE, 4, SECOND, 6) is not None


def test_a_copy_is_there_for_others_after_its_wait_and_a_meeting():
    order = Order(2, 2, 4)
    order.writes(BYTE, 4, FIRST, 1, COPIES)
    order.commit(np.array([0]))
    assert order.reads(BYTE, 4, FIRST, 2) is not None
    order.arrived(np.array([0]), 1)
    assert order.reads(BYTE, 4, FIRST, 3) is not None
    order.arrived(np.array([0]), 0)
    assert order.reads(BYTE, 4, FIRST, 4) is None
    assert order.reads(BYTE, 4, SECOND, 5) is not None
    order.meet(BOTH)
    assert order.reads(BYTE, 4, SECOND, 6) is None

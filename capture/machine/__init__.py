"""A machine of simulated threads that runs PTX, and says which element of which argument every register holds.

``parse`` reads PTX. ``values`` are the registers of all threads of some blocks, each byte with its origin, and
``memory`` holds such bytes in state spaces. ``schedule`` runs threads; ``order`` knows what happens before what. What
instructions do is in ``arithmetic``, ``moves``, ``barriers``, ``bulk``, ``tensor``, which takes layouts from fragments,
and ``warpgroup``. ``product`` says what a kernel must compute, ``arguments`` what it is given, and ``findings`` what is
wrong. ``trace`` puts all together.
"""

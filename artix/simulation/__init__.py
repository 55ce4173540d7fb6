"""Steps in time: ``step`` chooses among the solvers in ``implicit`` and ``projected``, and ``continuous``."""

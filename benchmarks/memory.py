"""Pages of memory: alike for every library that is measured, and said in the record.

The GNU C library returns blocks of more than 32 MB to the system when they are freed, so that a program with larger
results finds all their pages missing in every call. With pages of 4 kB that takes most of its time: the dense Jacobian
of a 29-DOF humanoid with a floating base 8.5 us a state, and 2.8 with pages of 2 MB.

Keeping the blocks instead (``glibc.malloc.mmap_threshold``, ``trim_threshold`` or ``mmap_max``) is as fast in some
processes and three times slower than the default in others. With ``arena_max=1``, too, no page is ever missing, and
derivatives of a 29-DOF humanoid take 4.6 us instead of 5.6 to 11.8, but those of constrained dynamics 64 instead of 29.
"""

from __future__ import annotations

import os

VARIABLE = "GLIBC_TUNABLES"

#: Large blocks in huge pages where the kernel has them; from glibc 2.35 on, and ignored by others.
HUGE_PAGES = "glibc.malloc.hugetlb=1"


def ask_for_huge_pages() -> None:
    """Gives huge pages to the processes that are started from now on; what the user has set stands.

    The C library reads the variable when a process starts: this one remains as it is.
    """
    os.environ.setdefault(VARIABLE, HUGE_PAGES)


def setting() -> str:
    """What the record says of it."""
    return f"{VARIABLE}={os.environ.get(VARIABLE, '')}"

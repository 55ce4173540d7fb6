"""Memory pages: the same for every measured library, and stated in the record.

The GNU C library returns blocks of more than 32 MB to the system when they are freed, so a program
with larger results page-faults in every call. With 4 kB pages, this takes most of its time: the
dense Jacobian of a 29-DOF humanoid with a floating base takes 8.5 us per state, and 2.8 us with 2
MB pages.

Keeping the blocks instead (``glibc.malloc.mmap_threshold``, ``trim_threshold`` or ``mmap_max``) is
as fast in some processes and three times slower than the default in others. With ``arena_max=1`` as
well, there are no page faults: derivatives of a 29-DOF humanoid take 4.6 us instead of 5.6 to 11.8,
but those of constrained dynamics 64 instead of 29.
"""

from __future__ import annotations

import os

VARIABLE = "GLIBC_TUNABLES"

#: Large blocks in huge pages where the kernel has them; from glibc 2.35 on, and ignored by others.
HUGE_PAGES = "glibc.malloc.hugetlb=1"


def ask_for_huge_pages() -> None:
    """Requests huge pages for processes started from now on, unless the user has set the variable.

    The C library reads the variable when a process starts, so this process does not change.
    """
    os.environ.setdefault(VARIABLE, HUGE_PAGES)


def setting() -> str:
    """The setting, as stated in the record."""
    return f"{VARIABLE}={os.environ.get(VARIABLE, '')}"

"""Runs GPU kernels without a GPU: a CPU executes the same functions, one thread after another.

Where several threads share a robot, they run at the same time and exchange scalars through a list.
Asynchronous copies are missing.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from artix.compiler.kernels.gpu import GpuModule
from artix.compiler.kernels.gpu_layout import THREADS, Layout
from artix.compiler.kernels.machine import RELOCATION, binding, compile_modules, process_triple

_PHASES = {
    False: ("artix_load_0", "artix_compute_0", "artix_write"),
    True: ("artix_load_1", "artix_compute_1"),
}
_PHASES_OF_ITEMS = ("artix_load_2", "artix_compute_2", "artix_write")


def run_threads(
    layout: Layout, arrays: Sequence[np.ndarray], robots: int = 1, items: int = 1
) -> list[np.ndarray]:
    """The results of a kernel.

    Args:
      layout: its layout.
      arrays: its arguments, with their mapped axes.
      robots, items: the size of the batch.
    """
    program = layout.program
    sizes = (robots, items) if layout.has_items else (robots,)
    arrays = [np.ascontiguousarray(array) for array in arrays]
    types = zip(program.results, program.result_types, strict=True)
    # What a kernel must not leave as it is.
    results = [np.full((*sizes, *result.shape), 77, dtype) for result, dtype in types]
    exchange = _Exchange(layout.lanes)
    library, functions = _functions(layout, exchange)
    rows = robots if layout.loops_over_items else robots * items
    lengths = np.array([rows, items], np.int32)
    pointers = [array.ctypes.data for array in (lengths, *arrays, *results)]
    shared = np.zeros(layout.shared_size + 16, np.uint8)
    kept = np.zeros((THREADS, layout.kept_size + 8), np.uint8)

    def run(name: str, thread: int, first: int, item: int) -> None:
        functions[name](
            thread, first, item, shared.ctypes.data, kept[thread].ctypes.data, *pointers
        )

    def phase(name: str, first: int, item: int) -> None:
        if layout.lanes == 1 or "compute" not in name:
            for thread in range(THREADS):
                run(name, thread, first, item)
            return
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda thread: run(name, thread, first, item), range(THREADS)))
        assert not exchange.is_broken, "a thread asks what not all of its warp do"

    for first in range(0, rows, layout.rows_of_block):
        shared[:] = 0xAB
        for name in _PHASES[layout.loops_over_items]:
            phase(name, first, 0)
        for item in range(items if layout.loops_over_items else 0):
            for name in _PHASES_OF_ITEMS:
                phase(name, first, item)
    del library
    return results


class _Exchange:
    """What the threads of a warp tell each other, all at the same instruction.

    A function of Python with a ``threading.Barrier`` took 147 of the 149 s of a quadruped's step on
    the ground.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        #: What each thread said; how many have, how often all have, whether one waited too long.
        self._words = np.zeros(THREADS + 3, np.int32)
        # A mutex, a condition and the time until which threads wait [s, ns].
        self._lock = np.zeros((2, 16), np.int64)
        self._deadline = np.array([int(time.time()) + 300, 0], np.int64)
        library = ctypes.CDLL(None)
        library.pthread_mutex_init(ctypes.c_void_p(self._lock[0].ctypes.data), None)
        library.pthread_cond_init(ctypes.c_void_p(self._lock[1].ctypes.data), None)

    @property
    def is_broken(self) -> bool:
        """Whether a thread waited for others that did not come."""
        return bool(self._words[-1])

    def text(self) -> str:
        """The function in LLVM IR."""
        places = [
            f"inttoptr (i64 {self._words.ctypes.data + 4 * k} to ptr)"
            for k in range(len(self._words))
        ]
        *said, count, turns, broken = places
        mutex, condition, deadline = (
            f"inttoptr (i64 {part.ctypes.data} to ptr)" for part in (*self._lock, self._deadline)
        )
        words = "\n".join(f"  %w{k} = load i32, ptr {said[k]}" for k in range(THREADS))
        either = "\n".join(
            f"  %o{k} = or i32 %{f'o{k - 1}' if k > 1 else 'w0'}, %w{k}" for k in range(1, THREADS)
        )
        return f"""
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)

define internal void @meet() noinline {{
begin:
  %locked = call i32 @pthread_mutex_lock(ptr {mutex})
  %turn = load i32, ptr {turns}
  %before = load i32, ptr {count}
  %here = add i32 %before, 1
  store i32 %here, ptr {count}
  %is_last = icmp eq i32 %here, {THREADS}
  br i1 %is_last, label %open, label %wait
open:
  store i32 0, ptr {count}
  %next = add i32 %turn, 1
  store i32 %next, ptr {turns}
  %told = call i32 @pthread_cond_broadcast(ptr {condition})
  br label %done
wait:
  %now = load i32, ptr {turns}
  %is_open = icmp ne i32 %now, %turn
  br i1 %is_open, label %done, label %again
again:
  %error = call i32 @pthread_cond_timedwait(ptr {condition}, ptr {mutex}, ptr {deadline})
  %is_late = icmp ne i32 %error, 0
  br i1 %is_late, label %late, label %wait
late:
  store i32 1, ptr {broken}
  br label %done
done:
  %unlocked = call i32 @pthread_mutex_unlock(ptr {mutex})
  ret void
}}

define i32 @artix_exchange(i64 %thread, i32 %word, i32 %question, i32 %place) {{
  %base = add i64 {self._words.ctypes.data}, 0
  %offset = shl i64 %thread, 2
  %own = add i64 %base, %offset
  %own_pointer = inttoptr i64 %own to ptr
  store i32 %word, ptr %own_pointer
  call void @meet()
{words}
{either}
  %any = icmp ne i32 %o{THREADS - 1}, 0
  %any_word = zext i1 %any to i32
  %wide_place = zext i32 %place to i64
  %first = and i64 %thread, {-self._lanes}
  %of_lane = add i64 %first, %wide_place
  %shuffled = xor i64 %thread, %wide_place
  %is_shuffle = icmp eq i32 %question, 1
  %asked = select i1 %is_shuffle, i64 %shuffled, i64 %of_lane
  %in_warp = and i64 %asked, {THREADS - 1}
  %asked_offset = shl i64 %in_warp, 2
  %other = add i64 %base, %asked_offset
  %other_pointer = inttoptr i64 %other to ptr
  %other_word = load i32, ptr %other_pointer
  %is_any = icmp eq i32 %question, 2
  %result = select i1 %is_any, i32 %any_word, i32 %other_word
  call void @meet()
  ret i32 %result
}}
"""


def _functions(layout: Layout, exchange: _Exchange) -> tuple[Any, dict[str, Any]]:
    code, shared = compile_modules([GpuModule(layout, is_host=True).text(), exchange.text()])
    llvm = binding()
    names = (
        *_PHASES[layout.loops_over_items],
        *(_PHASES_OF_ITEMS if layout.loops_over_items else ()),
    )
    library = llvm.JITLibraryBuilder().add_object_img(code).add_object_img(shared)
    library = library.add_current_process()
    for name in names:
        library = library.export_symbol(name)
    target = llvm.Target.from_triple(process_triple()).create_target_machine(**RELOCATION)
    linked = library.link(
        llvm.create_lljit_compiler(target, use_jit_link=True), f"gpu_threads_{id(layout)}"
    )
    arrays = 1 + len(layout.program.arguments) + len(layout.program.results)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * (2 + arrays))
    return linked, {name: kind(linked[name]) for name in names}

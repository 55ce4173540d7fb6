"""Runs GPU kernels without a GPU: a CPU executes the same functions, one thread after another.

Where several threads share a robot, they run at the same time and exchange scalars through a list.
Asynchronous copies are missing.
"""

from __future__ import annotations

import ctypes
import threading
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
    exchange = _exchange(layout.lanes)
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

    for first in range(0, rows, layout.rows_of_block):
        shared[:] = 0xAB
        for name in _PHASES[layout.loops_over_items]:
            phase(name, first, 0)
        for item in range(items if layout.loops_over_items else 0):
            for name in _PHASES_OF_ITEMS:
                phase(name, first, item)
    del library
    return results


def _exchange(lanes: int) -> Any:
    """What the threads of a warp tell each other, all at the same instruction."""
    said, barrier = [0] * THREADS, threading.Barrier(THREADS)

    def answer(thread: int, word: int, question: int, place: int) -> int:
        said[thread] = word
        barrier.wait(60)
        first = thread - thread % lanes
        result = (said[first + place], said[thread ^ place], int(any(said)))[question]
        barrier.wait(60)
        return result

    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, *[ctypes.c_int32] * 3)(answer)


def _functions(layout: Layout, exchange: Any) -> tuple[Any, dict[str, Any]]:
    (code,) = compile_modules([GpuModule(layout, is_host=True).text()])
    llvm = binding()
    names = (
        *_PHASES[layout.loops_over_items],
        *(_PHASES_OF_ITEMS if layout.loops_over_items else ()),
    )
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    library = library.import_symbol("artix_exchange", ctypes.cast(exchange, ctypes.c_void_p).value)
    for name in names:
        library = library.export_symbol(name)
    target = llvm.Target.from_triple(process_triple()).create_target_machine(**RELOCATION)
    linked = library.link(
        llvm.create_lljit_compiler(target, use_jit_link=True), f"gpu_threads_{id(layout)}"
    )
    arrays = 1 + len(layout.program.arguments) + len(layout.program.results)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * (2 + arrays))
    return linked, {name: kind(linked[name]) for name in names}

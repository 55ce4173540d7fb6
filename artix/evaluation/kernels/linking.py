"""Links object code into the process and registers it with XLA."""

from __future__ import annotations

import ctypes
import functools
import itertools
from typing import Any

import jax

from artix.evaluation.kernels.machine import LOCK, RELOCATION, KernelError, binding, process_triple, require, unpack

#: Libraries, kept alive as long as the process, since XLA keeps the addresses of handlers.
_LINKED: dict[str, Any] = {}

_attempts = itertools.count()


def load(object_code: bytes, name: str) -> None:
    """Links object code and registers its kernel as a target of XLA's foreign function interface for CPUs.

    Args:
      object_code: the result of :func:`artix.evaluation.kernels.build` on a machine with the same key.
      name: the name of the target; nothing happens if it is already loaded.

    Raises:
      KernelError: the code does not link, or XLA does not support the version of the interface.
    """
    require()
    with LOCK:
        if name in _LINKED:
            return
        try:
            linked, address = _link(object_code, name)
        except Exception as error:
            raise KernelError(f"object code does not link: {error}") from error
        if not address:
            raise KernelError("object code without a kernel")
        _register(name, address)
        _LINKED[name] = linked


@functools.cache
def _linker() -> Any:
    llvm = binding()
    target = llvm.Target.from_triple(process_triple()).create_target_machine(**RELOCATION)
    # LLVM's older linker does not ensure that constants are within 2 GB of the code, but asserts it.
    return llvm.create_lljit_compiler(target, use_jit_link=True)


def _link(object_code: bytes, name: str) -> tuple[Any, int]:
    """The library, which keeps the code alive, and the address of its handler."""
    library = binding().JITLibraryBuilder()
    for part in unpack(object_code):
        library.add_object_img(part)
    library.add_current_process()
    # LLVM aborts the process if a name is used twice, even if the first library did not link.
    linked = library.export_symbol("artix_handler").link(_linker(), f"{name}_{next(_attempts)}")
    return linked, linked["artix_handler"]


def _register(name: str, address: int) -> None:
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    try:
        jax.ffi.register_ffi_target(name, capsule(address, None, None), platform="cpu", api_version=1)
    except Exception as error:
        raise KernelError(f"XLA does not accept the kernel: {error}") from error

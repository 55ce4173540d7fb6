"""Links object code into the process and registers it with XLA."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from artix.compiler.kernels.machine import LOCK, RELOCATION, KernelError, binding, process_triple, require, unpack

#: Libraries, kept alive as long as the process, since XLA keeps the addresses of handlers.
_LINKED: dict[str, Any] = {}

_attempts = itertools.count()


def load(object_code: bytes, name: str, addresses: Mapping[str, int] | None = None) -> None:
    """Links object code and registers its kernel as a target of XLA's foreign function interface for CPUs.

    Args:
      object_code: the result of :func:`artix.compiler.kernels.build` on a machine with the same key.
      name: the name of the target; nothing happens if it is already loaded.
      addresses: those of functions that the code calls and does not have, by their names.

    Raises:
      KernelError: the code does not link, or XLA does not support the version of the interface.
    """
    require()
    with LOCK:
        if name in _LINKED:
            return
        try:
            linked = _link(unpack(object_code), name, ("artix_handler",), addresses or {})
            address = linked["artix_handler"]
        except Exception as error:
            raise KernelError(f"object code does not link: {error}") from error
        if not address:
            raise KernelError("object code without a kernel")
        _register(name, address)
        _LINKED[name] = linked


def link_functions(objects: Sequence[bytes], name: str, functions: Sequence[str]) -> list[int]:
    """Links object code for the rest of the process.

    Args:
      objects: the code.
      name: a name for it that is not in use.
      functions: the names of functions.

    Returns:
      The addresses of these functions.

    Raises:
      KernelError: the code does not link, or lacks one of them.
    """
    require()
    with LOCK:
        try:
            _LINKED[name] = linked = _link(objects, name, functions, {})
            return [linked[function] for function in functions]
        except Exception as error:
            raise KernelError(f"object code does not link: {error}") from error


@functools.cache
def _linker() -> Any:
    llvm = binding()
    target = llvm.Target.from_triple(process_triple()).create_target_machine(**RELOCATION)
    # LLVM's older linker does not ensure that constants are within 2 GB of the code, but asserts it.
    return llvm.create_lljit_compiler(target, use_jit_link=True)


def _link(objects: Sequence[bytes], name: str, exported: Sequence[str], addresses: Mapping[str, int]) -> Any:
    """The library, which keeps the code alive and has the addresses of the exported functions."""
    library = binding().JITLibraryBuilder()
    for part in objects:
        library.add_object_img(part)
    library.add_current_process()
    for symbol, address in addresses.items():
        library.import_symbol(symbol, address)
    for symbol in exported:
        library.export_symbol(symbol)
    # LLVM aborts the process if a name is used twice, even if the first library did not link.
    return library.link(_linker(), f"{name}_{next(_attempts)}")


def _register(name: str, address: int) -> None:
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    try:
        jax.ffi.register_ffi_target(name, capsule(address, None, None), platform="cpu", api_version=1)
    except Exception as error:
        raise KernelError(f"XLA does not accept the kernel: {error}") from error

"""The machine that kernels run on: its target, vector width and compiler, and how code is linked
into this process; and its GPUs as another target.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import platform
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

#: Part of :func:`machine_key`; increase it with every change to the generated code.
FORMAT = 21

#: LLVM's optimisation level. No passes run before instruction selection, since the code, without
#: its loops, is straight-line and already simplified. With ``ARTIX_KERNEL_LEVEL=0`` in the
#: environment, kernels compile in a third of the time and run twice as long, which suits tests.
_OPTIMISATION = int(os.environ.get("ARTIX_KERNEL_LEVEL", "1"))

#: Constants are addressed relative to the code.
RELOCATION: dict[str, Any] = {"reloc": "pic", "codemodel": "small", "jit": True}

#: Guards LLVM's global tables.
LOCK = threading.RLock()


class KernelError(RuntimeError):
    """A kernel cannot be built or loaded; XLA can still evaluate the function."""


@functools.cache
def _binding() -> Any:
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    llvmlite.binding.initialize_native_asmparser()
    return llvmlite.binding


def binding() -> Any:
    """The module ``llvmlite.binding``, initialised.

    Raises:
      KernelError: it cannot be loaded, or is too old.
    """
    try:
        with LOCK:
            module = _binding()
    except Exception as error:  # a library that does not load raises various errors
        raise KernelError(f"llvmlite does not load: {error}") from error
    if module.llvm_version_info[0] < 20:
        raise KernelError(
            f"llvmlite has LLVM {module.llvm_version_info[0]}; 20 or newer is needed (llvmlite >= "
            "0.45)"
        )
    return module


@functools.cache
def features() -> str:
    """The processor's features, as LLVM names them."""
    return binding().get_host_cpu_features().flatten()


def has_feature(feature: str) -> bool:
    """Whether the processor has a feature, by LLVM's name."""
    return f"+{feature}" in features().split(",")


@functools.cache
def vector_bytes() -> int:
    """Bytes of the widest vector registers."""
    if has_feature("avx512f"):
        return 64
    return 32 if has_feature("avx2") else 16


@functools.cache
def available() -> str | None:
    """Why there are no kernels on this machine; ``None`` if there are."""
    try:
        binding()
        processor = platform.machine().lower()
        if processor in ("x86_64", "amd64"):
            if not (has_feature("fma") and has_feature("avx2")):
                return "the processor has no fused multiply-add (AVX2 and FMA)"
        elif processor not in ("aarch64", "arm64"):
            return f"processors {processor!r} are not supported"
    except KernelError as error:
        return str(error)
    return None


def require() -> None:
    """Raises a :class:`KernelError` if there are no kernels on this machine."""
    reason = available()
    if reason is not None:
        raise KernelError(reason)


@functools.cache
def machine_key() -> str:
    """Everything that object code depends on besides the program."""
    require()
    version = ".".join(map(str, binding().llvm_version_info))
    parts = (
        binding().get_default_triple(),
        binding().get_host_cpu_name(),
        features(),
        f"llvm {version}",
    )
    return "; ".join(
        (*parts, f"{vector_bytes()} bytes", f"level {_OPTIMISATION}", f"format {FORMAT}")
    )


def function_attributes() -> str:
    """Attributes of all functions: vectors as wide as the registers, even if LLVM prefers narrower
    ones.
    """
    bits = 8 * vector_bytes()
    widths = f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    return f"attributes #0 = {{ nounwind {widths} }}"


def process_triple() -> str:
    """The target triple of this process; on Windows with ELF, the only format that LLVM's linker
    reads there.
    """
    return binding().get_process_triple() + ("-elf" if os.name == "nt" else "")


class SharedText(str):
    """A module that many kernels have: it is compiled once in a process."""


class RunsOnce(str):
    """A module that runs once a call: LLVM does not optimise it, which takes three times as
    long.
    """


def compile_modules(modules: Iterable[str | bytes]) -> list[bytes]:
    """Object code of modules in LLVM IR, compiled in parallel, the first ones while the next are
    being written; what is object code already stays as it is.
    """
    (objects,) = compile_groups([modules])
    return objects


def compile_groups(groups: Iterable[Iterable[str | bytes]]) -> Iterator[list[bytes]]:
    """The same for several groups of modules, one after the other.

    While a group is being written, which Python does alone, LLVM compiles the ones before; few of
    them wait, since modules take much memory.
    """
    require()
    count = os.cpu_count() or 1
    compiler = _Compiler()
    pending = deque[list[Future[bytes]]]()
    with LOCK:
        try:
            for modules in groups:
                group: list[Future[bytes]] = []
                pending.append(group)
                for module in modules:
                    group.append(_submitted(compiler, module))
                if len(pending) > count:
                    yield [each.result() for each in pending.popleft()]
            while pending:
                yield [each.result() for each in pending.popleft()]
        finally:
            for group in pending:
                for each in group:
                    if each not in _shared.values():
                        each.cancel()


_shared: dict[str, Future[bytes]] = {}


def _submitted(compiler: _Compiler, text: str | bytes) -> Future[bytes]:
    """The object code of a module, which a thread compiles."""
    if isinstance(text, bytes):
        done = Future[bytes]()
        done.set_result(text)
        return done
    if not isinstance(text, SharedText):
        return _threads().submit(compiler.compile, text)
    code = _shared.get(text)
    if code is None or (code.done() and code.exception() is not None):
        code = _shared[text] = _threads().submit(compiler.compile, text)
    return code


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Threads for LLVM, the same ones for the whole process.

    glibc gives new threads new arenas until there are eight for each core. Every arena keeps the
    pages of the largest module compiled in it, which took gigabytes when each kernel started
    threads of its own.
    """
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="artix-llvm")


# A forked child has none of these threads, and would wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)
    os.register_at_fork(after_in_child=_shared.clear)


class _Compiler:
    """Compiles modules, each with a context of its own, in any thread; needs no lock.

    LLVM compiles contexts in parallel, but llvmlite's lock admits one thread at a time, so its
    library is called directly where it takes long.
    """

    def __init__(self) -> None:
        self._llvm, self._library, self._triple = binding(), _unlocked_library(), process_triple()
        cpu = self._llvm.get_host_cpu_name()
        self._traits: dict[str, Any] = {
            "cpu": cpu,
            "features": features(),
            "opt": _OPTIMISATION,
            **RELOCATION,
        }

    def compile(self, text: str) -> bytes:
        """Object code of a module in LLVM IR.

        Raises:
          KernelError: LLVM emits none.
        """
        module = self._llvm.parse_assembly(text, self._llvm.create_context())
        module.triple = self._triple
        traits = self._traits | ({"opt": 0} if isinstance(text, RunsOnce) else {})
        target = self._llvm.Target.from_triple(self._triple).create_target_machine(**traits)
        error = ctypes.c_char_p()
        buffer = self._library.LLVMPY_TargetMachineEmitToMemory(
            target, module, 1, ctypes.byref(error)
        )
        if not buffer:
            raise KernelError(f"LLVM emits no code: {(error.value or b'').decode()}")
        try:
            start, size = (
                self._library.LLVMPY_GetBufferStart(buffer),
                self._library.LLVMPY_GetBufferSize(buffer),
            )
            return ctypes.string_at(start, size)
        finally:
            self._library.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _unlocked_library() -> Any:
    """The library behind llvmlite, without its lock."""
    library, pointer = ctypes.CDLL(binding().ffi.lib._name), ctypes.c_void_p
    emit = library.LLVMPY_TargetMachineEmitToMemory
    emit.restype, emit.argtypes = (
        pointer,
        (pointer, pointer, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
    )
    library.LLVMPY_GetBufferStart.restype, library.LLVMPY_GetBufferStart.argtypes = (
        pointer,
        (pointer,),
    )
    library.LLVMPY_GetBufferSize.restype, library.LLVMPY_GetBufferSize.argtypes = (
        ctypes.c_size_t,
        (pointer,),
    )
    library.LLVMPY_DisposeMemoryBuffer.restype, library.LLVMPY_DisposeMemoryBuffer.argtypes = (
        None,
        (pointer,),
    )
    return library


def pack(objects: Sequence[bytes]) -> bytes:
    """Concatenates pieces of object code, each after its length in 8 bytes."""
    return b"".join(len(code).to_bytes(8, "little") + code for code in objects)


def unpack(packed: bytes) -> list[bytes]:
    """The pieces that :func:`pack` concatenated.

    Raises:
      KernelError: the bytes are not the result of :func:`pack`.
    """
    objects, start = [], 0
    while start < len(packed):
        size = int.from_bytes(packed[start : start + 8], "little")
        objects.append(packed[start + 8 : start + 8 + size])
        start += 8 + size
    if start != len(packed):
        raise KernelError("object code ends before it should")
    return objects


#: Libraries, kept alive as long as the process, since XLA keeps the addresses of handlers.
_LINKED: dict[str, Any] = {}

_attempts = itertools.count()


def load(object_code: bytes, name: str, addresses: Mapping[str, int] | None = None) -> None:
    """Links object code and registers its kernel as a target of XLA's foreign function interface
    for CPUs.

    Args:
      object_code: the result of :func:`artix.compiler.kernels.build` on a machine with the same
        key.
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
    # LLVM's older linker does not ensure that constants are within 2 GB of the code, but asserts
    # it.
    return llvm.create_lljit_compiler(target, use_jit_link=True)


def _link(
    objects: Sequence[bytes], name: str, exported: Sequence[str], addresses: Mapping[str, int]
) -> Any:
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
    capsule.restype, capsule.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    try:
        jax.ffi.register_ffi_target(
            name, capsule(address, None, None), platform="cpu", api_version=1
        )
    except Exception as error:
        raise KernelError(f"XLA does not accept the kernel: {error}") from error


# NVIDIA GPUs: LLVM compiles to PTX, which the driver compiles for the actual device.

_GPU_TRIPLE = "nvptx64-nvidia-cuda"

#: The oldest devices supported: Ampere, the first with asynchronous copies to shared memory.
_GPU_PROCESSOR, _PTX_FEATURES = "sm_80", "+ptx80"

#: Part of :func:`gpu_key`; increase it with every change to the generated code.
GPU_FORMAT = 6

_GPU_OPTIMISATION = 2


@functools.cache
def _gpu_target() -> Any:
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(_GPU_TRIPLE)


@functools.cache
def gpu_available() -> str | None:
    """Why there are no kernels for GPUs; ``None`` if there are."""
    try:
        binding()
        with LOCK:
            _gpu_target()
    except KernelError as error:
        return str(error)
    except RuntimeError as error:  # a build of LLVM for one processor only
        return f"llvmlite has no target {_GPU_TRIPLE}: {error}"
    return None


@functools.cache
def gpu_key() -> str:
    """Everything that PTX depends on besides the program."""
    version = ".".join(map(str, binding().llvm_version_info))
    return (
        f"{_GPU_TRIPLE}; {_GPU_PROCESSOR}; {_PTX_FEATURES}; llvm {version}; "
        f"level {_GPU_OPTIMISATION}; format {GPU_FORMAT}"
    )


def compile_to_ptx(text: str) -> str:
    """PTX of a module in LLVM IR, with all functions inlined into its kernel.

    Raises:
      KernelError: this LLVM has no GPU target.
    """
    reason = gpu_available()
    if reason is not None:
        raise KernelError(reason)
    with LOCK:
        llvm = binding()
        machine = _gpu_target().create_target_machine(
            cpu=_GPU_PROCESSOR, features=_PTX_FEATURES, opt=_GPU_OPTIMISATION
        )
        with llvm.parse_assembly(text, llvm.create_context()) as module:
            module.triple = _GPU_TRIPLE
            module.data_layout = str(machine.target_data)
            passes = llvm.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.run(module, llvm.create_pass_builder(machine, llvm.PipelineTuningOptions()))
            return machine.emit_assembly(module)

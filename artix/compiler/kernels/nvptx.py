"""NVIDIA GPUs as a target of LLVM: PTX, which the driver compiles for the actual device."""

from __future__ import annotations

import functools
from typing import Any

from artix.compiler.kernels.machine import LOCK, KernelError, binding

TRIPLE = "nvptx64-nvidia-cuda"

#: The oldest devices supported: Ampere, the first with asynchronous copies to shared memory.
PROCESSOR, PTX_FEATURES = "sm_80", "+ptx80"

#: Part of :func:`target_key`; increase it with every change to the generated code.
FORMAT = 5

_OPTIMISATION = 2


@functools.cache
def _target() -> Any:
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


@functools.cache
def available() -> str | None:
    """Why there are no kernels for GPUs; ``None`` if there are."""
    try:
        binding()
        with LOCK:
            _target()
    except KernelError as error:
        return str(error)
    except RuntimeError as error:  # a build of LLVM for one processor only
        return f"llvmlite has no target {TRIPLE}: {error}"
    return None


@functools.cache
def target_key() -> str:
    """Everything that PTX depends on besides the program."""
    version = ".".join(map(str, binding().llvm_version_info))
    return (
        f"{TRIPLE}; {PROCESSOR}; {PTX_FEATURES}; llvm {version}; level {_OPTIMISATION}; format "
        f"{FORMAT}"
    )


def compile_to_ptx(text: str) -> str:
    """PTX of a module in LLVM IR, with all functions inlined into its kernel.

    Raises:
      KernelError: this LLVM has no GPU target.
    """
    reason = available()
    if reason is not None:
        raise KernelError(reason)
    with LOCK:
        llvm = binding()
        machine = _target().create_target_machine(
            cpu=PROCESSOR, features=PTX_FEATURES, opt=_OPTIMISATION
        )
        with llvm.parse_assembly(text, llvm.create_context()) as module:
            module.triple = TRIPLE
            module.data_layout = str(machine.target_data)
            passes = llvm.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.run(module, llvm.create_pass_builder(machine, llvm.PipelineTuningOptions()))
            return machine.emit_assembly(module)

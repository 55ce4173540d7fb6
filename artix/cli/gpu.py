"""``artix gpu``: whether kernels run on this machine's GPU, and what that rests on."""

from __future__ import annotations

import os
from typing import Any

from artix.cli.text import CommandFailure, table
from artix.compiler.disk import cache_folder
from artix.compiler.gpu_verdict import (
    MAX_ULPS,
    Verdict,
    local_gpu,
    obtain_verdict,
    summary,
    verdict_of_process,
)


def run_gpu(again: bool = False, as_json: bool = False) -> int:
    """Prints the verdict about kernels on the GPU, after checking them if there is none.

    Args:
      again: whether to check even if there is a verdict.
      as_json: whether to print everything as JSON, for a report of a bug.

    Returns:
      0 if kernels are used on the GPU, 1 if not.

    Raises:
      CommandFailure: there is no NVIDIA GPU.
    """
    gpu = local_gpu()
    if gpu is None:
        import jax

        raise CommandFailure(
            "JAX has no NVIDIA GPU here: its devices are "
            f"{', '.join(str(device) for device in jax.devices())}; with one in the machine, "
            "install JAX for it, as in: pip install 'jax[cuda12]'"
        )
    verdict = obtain_verdict(gpu, again, logs=False)  # The report says more.
    print(verdict.to_text() if as_json else report(verdict), end="" if as_json else "\n")
    return 0 if is_used(verdict) else 1


def is_used(verdict: Verdict) -> bool:
    """Whether this process would use kernels, which the environment may decide against the
    verdict.
    """
    return os.environ.get("ARTIX_GPU_KERNELS") == "1" or (
        verdict.state == "on" and os.environ.get("ARTIX_GPU_KERNELS") != "0"
    )


def use_of_kernels() -> str | None:
    """One line that says whether this process uses kernels on its GPU and why; ``None`` without a
    GPU.
    """
    override = os.environ.get("ARTIX_GPU_KERNELS")
    if override:
        return (
            f"GPU kernels are {'on' if override == '1' else 'off'}, because ARTIX_GPU_KERNELS is "
            f"{override}"
        )
    verdict = verdict_of_process(logs=False)
    return None if verdict is None else summary(verdict)


def report(verdict: Verdict) -> str:
    """The device, the verdict, and what was compared and timed."""
    gpu = verdict.gpu
    head = [
        f"{gpu.name}, compute capability {gpu.compute_capability}, driver {gpu.driver}",
        f"jax {gpu.jax}, jaxlib {gpu.jaxlib}, artix {gpu.artix}",
        f"kernels: {verdict.state}, since {verdict.reason}",
    ]
    override = os.environ.get("ARTIX_GPU_KERNELS")
    if override:
        head.append(
            f"ARTIX_GPU_KERNELS={override} overrules this: kernels are "
            f"{'on' if override == '1' else 'off'}"
        )
    folder = cache_folder()
    if folder is not None and verdict.seconds:
        head.append(f"checked in {verdict.seconds:.0f} s; kept in {folder / gpu.file}")
    head.append(_driver_cache())
    parts = ["\n".join(head)]
    if verdict.checks:
        parts.append(_checks(verdict))
    if verdict.times:
        parts.append(_times(verdict))
    return "\n\n".join(parts)


def _driver_cache() -> str:
    """Where the driver keeps the machine code of kernels."""
    if os.environ.get("CUDA_CACHE_DISABLE", "0") != "0":
        return "CUDA_CACHE_DISABLE is set: the driver assembles kernels again in every process"
    return (
        "machine code of kernels: kept by the driver in "
        f"{os.environ.get('CUDA_CACHE_PATH', '~/.nv/ComputeCache')}"
    )


def _checks(verdict: Verdict) -> str:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for check in verdict.checks:
        rows.setdefault((check["name"], check["dtype"]), []).append(check)
    lines = [
        (
            name,
            dtype,
            ", ".join(f"{check['batch']:,}" for check in checks),
            f"{max(c['ulps'] for c in checks):.3g}",
        )
        for (name, dtype), checks in rows.items()
    ]
    title = (
        "compared with the CPU (error in units of the last place of the largest entry, at most "
        f"{MAX_ULPS}):"
    )
    return title + "\n" + table(("program", "dtype", "batches", "error"), lines, align="lll")


def _times(verdict: Verdict) -> str:
    lines = [
        (
            time["name"],
            f"{time['batch']:,}",
            f"{1e6 * time['kernel']:.1f}",
            f"{1e6 * time['xla']:.1f}",
            f"{time['xla'] / time['kernel']:.1f}",
            f"{100 * time['bandwidth_share']:.0f} %",
        )
        for time in verdict.times
    ]
    head = ("program", "batch", "kernel, us", "XLA, us", "ratio", "of the memory's bandwidth")
    return "time of a call:\n" + table(head, lines, align="l")

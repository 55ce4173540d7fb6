"""Settings of the whole suite: CPU, 64-bit types enabled, strict dtype promotion."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

#: Later versions of XLA have no other emitters and abort on the flag that chooses them.
FUSION_EMITTERS_ARE_OPTIONAL = importlib.metadata.version("jaxlib").startswith("0.10.")

os.environ["JAX_PLATFORMS"] = "cpu"
# The suite compiles much and computes little: the first three cut compile time to a third. Set
# XLA_FLAGS (to "" for XLA's defaults) to run the suite otherwise; tests of program size ask for the
# defaults themselves. Two devices, for sharding.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_force_host_platform_device_count=2"
    + (" --xla_cpu_use_fusion_emitters=false" if FUSION_EMITTERS_ARE_OPTIONAL else ""),
)

# Kernels likewise; tests of kernels ask for the default.
os.environ.setdefault("ARTIX_KERNEL_LEVEL", "0")

# Small matrices on two threads, of which one waits by spinning, take NumPy and SciPy three times the
# processor time, and the other worker of the suite its core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a test compiles does not depend on what earlier runs have compiled; tests of kernels on disk
# name folders of their own.
os.environ["ARTIX_CACHE"] = "0"

import hypothesis
import jax
import numpy as np
import pytest

# What JAX traces lives long. To search all of it after every 700 objects takes a twentieth of the
# suite's time.
gc.set_threshold(100_000, 50, 100)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seeds-from``, which finds tests that hold only for the seeds they name."""
    help_ = "add this to every seed of NumPy and JAX; examples of hypothesis are then random"
    parser.addoption("--seeds-from", type=int, default=0, metavar="N", help=help_)


def pytest_configure(config: pytest.Config) -> None:
    """Before test modules are imported, as some draw their robots at once."""
    first = config.getoption("--seeds-from")
    hypothesis.settings.register_profile(
        "artix", deadline=None, derandomize=first == 0, print_blob=True
    )
    hypothesis.settings.load_profile("artix")
    if first:
        np.random.default_rng = _moved(np.random.default_rng, first)
        jax.random.key = _moved(jax.random.key, first)


def _moved(function: Callable[..., Any], first: int) -> Callable[..., Any]:
    """``function`` of a seed, with ``first`` added where the seed is an integer."""

    @functools.wraps(function)
    def moved(seed: Any = None, *args: Any, **options: Any) -> Any:
        return function(seed + first if isinstance(seed, int) else seed, *args, **options)

    return moved


#: Modules whose slow tests together take a minute of a core or more. They begin a run with slow
#: tests, so that no worker has one left when the other is done.
LONG_MODULES = (
    "examples/test_shac.py",
    "house/test_documents.py",
    "simulation/test_contact_steps.py",
    "simulation/test_stepping.py",
    "examples/test_leg_lengths.py",
    "optimal_control/test_constrained.py",
    "fleet/test_processes.py",
    "viewer/test_recordings.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each module on one worker, since its tests share what they compile and train, in the order of
    the rooms but for ``LONG_MODULES``.
    """
    if config.option.dist != "load" or config.option.markexpr not in ("", "not slow", "slow"):
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Exhaustive tests run only when ``-m`` asks for them by name; long modules begin a run with
    slow tests.
    """
    if config.option.markexpr in ("", "slow"):
        items.sort(key=lambda item: not item.nodeid.split("::")[0].endswith(LONG_MODULES))
    if "exhaustive" not in config.option.markexpr:
        kept, left_out = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            is_kept = item.get_closest_marker("exhaustive") is None
            (kept if is_kept else left_out).append(item)
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


#: Modules that share what they compile, counted. Everything together would take gigabytes per
#: worker; to forget it after each module takes an eighth of the everyday suite's time, because all
#: of them compile the same small operations.
MODULES_THAT_SHARE = 8
_modules = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs() -> Iterator[None]:
    """Frees what some modules compiled."""
    yield
    if next(_modules) % MODULES_THAT_SHARE == 0:
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def _one_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """As most users have it; the others are for the tests of sharding."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.module.__name__.endswith("test_sharding"):
            patch.setattr(jax, "device_count", lambda *_: 1)
        yield


@pytest.fixture(autouse=True)
def _own_seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the seeds of tests with the marker ``own_seeds`` alone."""
    if request.node.get_closest_marker("own_seeds") is not None:
        for module, name in ((np.random, "default_rng"), (jax.random, "key")):
            function = getattr(module, name)
            monkeypatch.setattr(module, name, getattr(function, "__wrapped__", function))


@pytest.fixture(params=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    """Both floating-point types in turn."""
    return np.dtype(request.param)

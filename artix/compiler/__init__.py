"""How functions of an articulation are evaluated."""

from typing import TYPE_CHECKING

from artix.compiler import lowering as _lowering  # noqa: F401 (JAX is told of it.)
from artix.compiler.explain import Explanation as Explanation
from artix.compiler.explain import OperationCost as OperationCost
from artix.compiler.explain import explain as explain
from artix.compiler.quantity import quantity as quantity
from artix.compiler.quantity import use_kernels as use_kernels
from artix.math.deprecated import exports as _exports

if not TYPE_CHECKING:
    __all__, __getattr__ = _exports(__name__)

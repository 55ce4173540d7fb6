"""How functions of an articulation are evaluated."""

from artix.compiler.compilation import use_kernels
from artix.compiler.explain import Explanation, OperationCost, explain
from artix.compiler.quantity import quantity

__all__ = [
    "Explanation",
    "OperationCost",
    "explain",
    "quantity",
    "use_kernels",
]

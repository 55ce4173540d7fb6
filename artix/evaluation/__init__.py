"""How functions of an articulation are evaluated."""

from artix.evaluation.compilation import use_kernels
from artix.evaluation.explain import Explanation, OperationCost, explain
from artix.evaluation.quantity import quantity

__all__ = [
    "Explanation",
    "OperationCost",
    "explain",
    "quantity",
    "use_kernels",
]

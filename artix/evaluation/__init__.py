"""How functions of an articulation are evaluated."""

from artix.evaluation.compilation import use_kernels as use_kernels
from artix.evaluation.quantity import quantity as quantity

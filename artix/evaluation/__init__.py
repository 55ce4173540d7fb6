"""How functions of an articulation are evaluated."""

from artix.evaluation.quantity import quantity as quantity

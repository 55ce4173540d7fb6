"""How functions of an articulation are evaluated."""

from artix.evaluation.compilation import use_kernels as use_kernels
from artix.evaluation.quantity import quantity as quantity

IN_KINEMATICS, MOST_DOFS_OF_MATRICES = 20, 1000000


def in_lanes(function, articulation, *arguments, numbers_of_body=0, finish=None):
    result = function(articulation, *arguments)
    return result if finish is None else finish(result)


def in_blocks(function, articulation, *arguments):
    return function(articulation, *arguments)

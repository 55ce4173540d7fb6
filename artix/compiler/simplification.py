"""Simplifies traced programs before they are differentiated and scalarised.

Functions of a robot call each other without sharing results: each solves the kinematics again. And differentiation
writes derivatives that no result needs. Both take time wherever the program is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, Literal
from jax.interpreters.partial_eval import dce_jaxpr


def simplified(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with equal equations evaluated once, and without those that no result depends on."""
    jaxpr: Any = program.jaxpr
    new_names = _equal_constants(jaxpr.constvars, program.consts)
    first_of: dict[Any, Any] = {}
    equations = []
    for equation in jaxpr.eqns:
        renamed = equation.replace(invars=[_renamed(variable, new_names) for variable in equation.invars])
        key = _key(renamed)
        before = None if key is None else first_of.setdefault(key, renamed)
        if before is None or before is renamed:
            equations.append(renamed)
            continue
        new_names.update(zip(equation.outvars, before.outvars, strict=True))
    results = [_renamed(variable, new_names) for variable in jaxpr.outvars]
    shorter = jaxpr.replace(eqns=equations, outvars=results)
    needed, _ = dce_jaxpr(shorter, [True] * len(results), instantiate=True)
    return closed(needed, program.consts)


def closed(jaxpr: Any, constants: Any) -> ClosedJaxpr:
    """A jaxpr with its constants, which since JAX 0.12 every jaxpr has."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, constants)


def _renamed(variable: Any, new_names: dict[Any, Any]) -> Any:
    return variable if isinstance(variable, Literal) else new_names.get(variable, variable)


def _equal_constants(variables: Any, constants: Any) -> dict[Any, Any]:
    """For each constant that is the same array as one before, the variable of that one."""
    new_names: dict[Any, Any] = {}
    first_of: dict[Any, Any] = {}
    for variable, constant in zip(variables, constants, strict=True):
        is_known = isinstance(constant, np.ndarray) and not constant.dtype.hasobject
        key = (variable.aval, constant.tobytes()) if is_known else id(constant)
        before = first_of.setdefault(key, variable)
        if before is not variable:
            new_names[variable] = before
    return new_names


def _key(equation: Any) -> Any:
    """Equal for equations that compute the same; ``None`` if this one has effects or cannot be compared."""
    if equation.effects or any(isinstance(variable, DropVar) for variable in equation.outvars):
        return None
    key = (
        equation.primitive,
        tuple(map(_operand_key, equation.invars)),
        tuple(sorted((name, _parameter_key(value)) for name, value in equation.params.items())),
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _operand_key(variable: Any) -> Any:
    if not isinstance(variable, Literal):
        return variable
    value: Any = variable.val
    return variable.aval, np.asarray(value).tobytes()  # Bytes tell -0.0 from 0.0.


def _parameter_key(value: Any) -> Any:
    """Programs are the same only if they are one object, as those of functions that JAX has traced before."""
    if isinstance(value, Jaxpr | ClosedJaxpr):
        return id(value)
    if isinstance(value, tuple | list):
        return type(value), *map(_parameter_key, value)
    return type(value), value

"""Evaluates a program without computing arrays that have no elements, such as the joints of bodies
that have none, and puts together those that are known.

The former cost nothing to run, but JAX and XLA take as long to compile them as others, and JAX 0.10
loses how to call kernels and LAPACK in functions with many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from artix.compiler.array_entries import MOVEMENTS
from artix.compiler.jax_internals import scan_counts
from artix.compiler.known_arrays import numeric_rule

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "artix_linear_map": "many",
}


class Elements(NamedTuple):
    """Evaluates closed jaxprs without operations on arrays that have no elements."""

    has_kernels: bool
    """Whether kernels may evaluate the programs in them."""

    def evaluate(self, program: Any, *arguments: Any) -> list[Any]:
        """What a closed jaxpr gives, without operations on arrays that have no elements. It has no
        derivatives of its own: rules of parts are not kept.
        """
        return self._equations(
            getattr(program, "jaxpr", program), getattr(program, "consts", ()), arguments
        )

    def _equations(
        self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]
    ) -> list[Any]:
        values: dict[Any, Any] = {}
        values.update(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))

        def read(variable: Any) -> Any:
            return variable.val if isinstance(variable, Literal) else values[variable]

        for equation in jaxpr.eqns:
            if all(_is_empty(variable) for variable in equation.outvars) and not equation.effects:
                results = [_empty(variable.aval) for variable in equation.outvars]
            else:
                results = self._evaluated(equation, [*map(read, equation.invars)])
            values.update(zip(equation.outvars, results, strict=True))
        return [*map(read, jaxpr.outvars)]

    def _evaluated(self, equation: Any, operands: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in MOVEMENTS and all(isinstance(operand, np.ndarray) for operand in operands):
            return list(numeric_rule(equation.primitive, params)(operands))
        if name in _CALLS:
            return self.evaluate(params[_CALLS[name]], *operands)
        if name == "while":
            return self._while(equation, operands)
        if name == "scan":
            return self._scan(equation, operands)
        if name == "custom_linear_solve":
            return self.evaluate(params["jaxprs"].solve, *_operands_of_solve(params, operands))
        if name == "artix_program" and not self.has_kernels:
            params = params | {"program": params["program"].without_kernel()}
        results = equation.primitive.bind(*operands, **params)
        return list(results) if equation.primitive.multiple_results else [results]

    def _while(self, equation: Any, operands: list[Any]) -> list[Any]:
        params = equation.params
        test, body = params["cond_jaxpr"], params["body_jaxpr"]
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        of_test, of_body, start = operands[:first], operands[first:second], operands[second:]
        kept, whole = _parting(equation.outvars)

        def goes_on(carry: Any) -> Any:
            return self.evaluate(test, *of_test, *whole(carry))[0]

        def step(carry: Any) -> Any:
            results = self.evaluate(body, *of_body, *whole(carry))
            return [results[k] for k in kept]

        if test.out_avals[0].shape:  # vmap has made one of many loops.
            goes_on, step = _until_all_end(goes_on, step)
        return whole(jax.lax.while_loop(goes_on, step, [start[k] for k in kept]))

    def _scan(self, equation: Any, operands: list[Any]) -> list[Any]:
        params = equation.params
        body = params["jaxpr"]
        num_fixed, num_carried = scan_counts(equation)
        fixed, rest = operands[:num_fixed], operands[num_fixed:]
        start, items = rest[:num_carried], rest[num_carried:]
        inner = getattr(body, "jaxpr", body)
        kept, whole = _parting(equation.outvars[:num_carried])
        kept_items, whole_items = _parting(inner.invars[num_fixed + num_carried :])
        kept_results, _ = _parting(inner.outvars[num_carried:])

        def step(carry: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
            results = self.evaluate(body, *fixed, *whole(carry), *whole_items(parts))
            after, made = results[:num_carried], results[num_carried:]
            return [after[k] for k in kept], [made[k] for k in kept_results]

        after, made = jax.lax.scan(
            step,
            [start[k] for k in kept],
            [items[k] for k in kept_items],
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        every: list[Any] = [
            _empty(variable.aval) if _is_empty(variable) else None
            for variable in equation.outvars[num_carried:]
        ]
        for k, part in zip(kept_results, made, strict=True):
            every[k] = part
        return [*whole(after), *every]


def _until_all_end(conditions: Callable[[Any], Any], step: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The condition and the body of a loop of many, some of which end before others."""

    def step_of_some(carry: Any) -> Any:
        which = conditions(carry)

        def after(new: Any, old: Any) -> Any:
            return jnp.where(jnp.expand_dims(which, range(which.ndim, old.ndim)), new, old)

        return [after(*values) for values in zip(step(carry), carry, strict=True)]

    return (lambda carry: jnp.any(conditions(carry))), step_of_some


def _is_empty(variable: Any) -> bool:
    return 0 in getattr(variable.aval, "shape", ())


def _empty(aval: Any) -> np.ndarray:
    return np.zeros(aval.shape, aval.dtype)


def _operands_of_solve(params: Any, operands: list[Any]) -> list[Any]:
    lengths = params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    return [*operands[first : first + lengths.solve], *operands[sum(lengths) :]]


def _parting(variables: Sequence[Any]) -> tuple[list[int], Callable[[Sequence[Any]], list[Any]]]:
    """Which arrays have elements, and the function that gives all arrays from those."""
    kept = [k for k, variable in enumerate(variables) if not _is_empty(variable)]

    def whole(parts: Sequence[Any]) -> list[Any]:
        every: list[Any] = [
            _empty(variable.aval) if _is_empty(variable) else None for variable in variables
        ]
        for k, part in zip(kept, parts, strict=True):
            every[k] = part
        return every

    return kept, whole

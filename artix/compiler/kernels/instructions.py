"""Operations of scalar programs as LLVM's instructions on vectors of any width."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from artix.compiler.kernels.code import Code, constant, suffix_of, type_of
from artix.compiler.kernels.elementary import FUNCTIONS, definition, name_of
from artix.compiler.kernels.machine import KernelError, function_attributes
from artix.compiler.kernels.program_lists import SCALARS, ProgramLists
from artix.compiler.scalar_program import Kind, Op, array_operand

_ELEMENTARY = {Op[name.upper()]: name for name in FUNCTIONS}
_INTRINSICS = {Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "roundeven"}
_COMPARISONS = {  # of floats, integers and bools
    Op.LT: ("olt", "slt", "ult"),
    Op.LE: ("ole", "sle", "ule"),
    Op.EQ: ("oeq", "eq", "eq"),
    Op.NE: ("une", "ne", "ne"),
}
_OF_BITS = {
    Op.AND: "and",
    Op.OR: "or",
    Op.XOR: "xor",
    Op.SHIFT_LEFT: "shl",
    Op.SHIFT_RIGHT: "lshr",
}


class ElementaryFunctions:
    """The elementary functions that a module calls."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str, int], None] = {}
        self.linkage = "internal"
        """Who can call them."""

    def name(self, function: str, scalar: str, width: int) -> str:
        """The name of a function, which is added to the module."""
        self._used[function, scalar, width] = None
        return name_of(function, scalar, width)

    def text(self, declarations: dict[str, str]) -> str:
        """The definitions of all functions used."""
        return "\n".join(definition(*key, declarations, self.linkage) for key in self._used)


class Module:
    """Functions that LLVM compiles together, with the elementary functions that they call."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}
        self.elementary = ElementaryFunctions()

    def text(self, functions: Sequence[str]) -> str:
        """The module's text."""
        definitions = "\n".join([*functions, self.elementary.text(self.declarations)])
        signatures = "\n".join(
            line for line in definitions.splitlines() if line.startswith("define")
        )
        declarations = [
            text for name, text in self.declarations.items() if f"@{name}(" not in signatures
        ]
        return "\n".join([*declarations, definitions, function_attributes()])


#: What appends the instructions that load a scalar computed elsewhere, by its number, and returns
#: its name.
Load: TypeAlias = Callable[[Code, int], str]

#: The same for what threads of a robot exchange: an operation and its operands.
Exchange: TypeAlias = Callable[[Op, list[int], Kind], str]

#: The same for the address of an array (one pointer, or one per lane), which returns its name and
#: type.
Address: TypeAlias = Callable[[Code, int], tuple[str, str]]


class Instructions:
    """Instructions that compute a part of a program.

    Args:
      code: the function to which they are appended.
      lists: the program.
      width: lanes of the vectors.
      functions: the elementary functions of the module.
      load: loads a scalar that the function does not compute; called once for each.
      address: gives the address of an array from which entries are loaded.
      exchange: appends what threads of a robot exchange, where several share its work.
    """

    def __init__(
        self,
        code: Code,
        lists: ProgramLists,
        width: int,
        functions: ElementaryFunctions,
        load: Load,
        address: Address,
        exchange: Exchange | None = None,
    ) -> None:
        self.code = code
        self._exchange = exchange
        self._lists, self._width, self._functions = lists, width, functions
        self._load, self._address = load, address
        self._append = code.instruction
        self._addresses: dict[int, tuple[str, str]] = {}
        self._names: dict[int, str] = {}  # by reference
        self._sincos: dict[int, str] = {}  # pairs of sine and cosine, by reference of the angle
        self._types = {kind: type_of(scalar, width) for kind, scalar in SCALARS.items()}

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A block that may be passed over: what it computes has no names after the context."""
        before = self._names.copy(), self._sincos.copy(), self._addresses.copy()
        yield
        self._names, self._sincos, self._addresses = before

    def operand(self, reference: int) -> str:
        """The name of a scalar or of its negative."""
        name = self._names.get(reference)
        if name is None:
            name = self._names[reference] = self._resolve(reference)
        return name

    def _resolve(self, reference: int) -> str:
        number, lists = reference >> 1, self._lists
        if lists.operations[number] == Op.CONSTANT:
            value = lists.constants[number]
            return constant(-value if reference & 1 else value, lists.scalar(number), self._width)
        if reference & 1:
            return self._append(
                f"fneg {self._types[Kind(lists.kinds[number])]} {self.operand(reference - 1)}"
            )
        return self._load(self.code, number)

    def _intrinsic(self, name: str, scalar: str, *operands: str) -> str:
        kind = type_of(scalar, self._width)
        full = f"llvm.{name}.{suffix_of(scalar, self._width)}"
        types, values = [kind] * len(operands), [f"{kind} {operand}" for operand in operands]
        if name == "abs":  # Of the smallest integer it is that integer.
            types, values = [*types, "i1"], [*values, "i1 false"]
        self.code.calls[full] = f"declare {kind} @{full}({', '.join(types)})"
        return f"call {kind} @{full}({', '.join(values)})"

    def operation(self, number: int) -> str:
        """Appends the instructions for a scalar, and returns its name."""
        lists = self._lists
        name = self._names[2 * number] = self._result(
            Op(lists.operations[number]), lists.operands[number], lists.kinds[number], number
        )
        return name

    def _result(self, op: Op, operands: list[int], kind: int, number: int) -> str:
        a, b, _ = operands
        type_ = self._types[Kind(kind)]
        floating = kind >= Kind.FLOAT32
        if Op.ADD <= op <= Op.DIV:
            return self._arithmetic(op, a, b, type_, floating)
        if op in _ELEMENTARY:
            return self._elementary(op, operands, self._lists.scalar(number), type_)
        if op in _INTRINSICS:
            return self._append(
                self._intrinsic(_INTRINSICS[op], self._lists.scalar(number), self.operand(a))
            )
        if op in _COMPARISONS:
            return self._comparison(op, a, b)
        if op in _OF_BITS:
            return self._append(f"{_OF_BITS[op]} {type_} {self.operand(a)}, {self.operand(b)}")
        if op in (Op.MIN, Op.MAX):
            return self._extremum(op, a, b, number)
        if op is Op.SELECT:
            condition, mask = self.operand(a), self._types[Kind.BOOL]
            return self._append(
                f"select {mask} {condition}, {type_} {self.operand(b)}, {type_} "
                f"{self.operand(operands[2])}"
            )
        if op is Op.NOT:
            return self._append(
                f"xor {type_} {self.operand(a)}, "
                f"{constant(-1, self._lists.scalar(number), self._width)}"
            )
        if op is Op.CONVERT:
            return self._conversion(a, number)
        if op is Op.BITCAST:
            source = self._types[Kind(self._lists.kinds[a >> 1])]
            return self._append(f"bitcast {source} {self.operand(a)} to {type_}")
        if op is Op.LOAD:
            return self._entry(a, array_operand(b), number)
        if op >= Op.LANE and self._exchange is not None:
            return self._exchange(op, operands, Kind(kind))
        return self._unary(op, a)

    def _arithmetic(self, op: Op, a: int, b: int, type_: str, floating: bool) -> str:
        """A sum, difference, product or quotient, chosen so that negated operands need no
        instruction.
        """
        if not floating:
            if op is Op.DIV:
                raise KernelError("integers are not divided")
            return self._append(f"{op.name.lower()} {type_} {self.operand(a)}, {self.operand(b)}")
        if op in (Op.ADD, Op.SUB):
            if op is Op.SUB:
                b ^= 1
            if a & 1 and not b & 1:
                a, b = b, a
            name = "fadd"
            if b & 1 and not self._is_constant(b):
                name, b = "fsub", b ^ 1
        else:
            name = "fmul" if op is Op.MUL else "fdiv"
            if a & b & 1:
                a, b = a ^ 1, b ^ 1
        return self._append(f"{name} contract {type_} {self.operand(a)}, {self.operand(b)}")

    def _is_constant(self, reference: int) -> bool:
        return self._lists.operations[reference >> 1] == Op.CONSTANT

    def _elementary(self, op: Op, operands: list[int], scalar: str, type_: str) -> str:
        if op in (Op.SIN, Op.COS) and operands[0] >> 1 in self._lists.sincos_angles:
            return self._sine_or_cosine(op, operands[0], scalar, type_)
        function = self._functions.name(_ELEMENTARY[op], scalar, self._width)
        names = [self.operand(reference) for reference in operands if reference >= 0]
        return self._append(f"call {type_} @{function}({', '.join(f'{type_} {x}' for x in names)})")

    def _sine_or_cosine(self, op: Op, reference: int, scalar: str, type_: str) -> str:
        """The sine or cosine, both from one call."""
        angle = reference & ~1
        pair = f"{{ {type_}, {type_} }}"
        if angle not in self._sincos:
            function = self._functions.name("sincos", scalar, self._width)
            self._sincos[angle] = self._append(
                f"call {pair} @{function}({type_} {self.operand(angle)})"
            )
        result = self._append(f"extractvalue {pair} {self._sincos[angle]}, {int(op is Op.COS)}")
        return self._append(f"fneg {type_} {result}") if reference & 1 and op is Op.SIN else result

    def _comparison(self, op: Op, a: int, b: int) -> str:
        kind = Kind(self._lists.kinds[a >> 1])
        names = _COMPARISONS[op]
        text = (
            f"fcmp {names[0]}"
            if kind >= Kind.FLOAT32
            else f"icmp {names[1 if kind == Kind.INT32 else 2]}"
        )
        return self._append(f"{text} {self._types[kind]} {self.operand(a)}, {self.operand(b)}")

    def _extremum(self, op: Op, a: int, b: int, number: int) -> str:
        """The minimum or maximum of two, NaN if one is NaN."""
        kind = Kind(self._lists.kinds[number])
        type_, mask = self._types[kind], self._types[Kind.BOOL]
        if kind == Kind.INT32:
            return self._append(
                self._intrinsic(f"s{op.name.lower()}", "i32", self.operand(a), self.operand(b))
            )
        if kind == Kind.BOOL:
            return self._append(
                f"{'and' if op is Op.MIN else 'or'} {type_} {self.operand(a)}, {self.operand(b)}"
            )
        if self._is_constant(b):
            a, b = b, a
        # Processors return the second operand if one is NaN: the one that is not constant.
        first, second = self.operand(a), self.operand(b)
        test = self._append(f"fcmp {'olt' if op is Op.MIN else 'ogt'} {type_} {first}, {second}")
        result = self._append(f"select {mask} {test}, {type_} {first}, {type_} {second}")
        if self._is_constant(a):
            return result
        test = self._append(f"fcmp uno {type_} {first}, {first}")
        return self._append(f"select {mask} {test}, {type_} {first}, {type_} {result}")

    def _entry(self, index: int, array: int, number: int) -> str:
        """An entry of an array; the index is clamped to the array."""
        kind, width = Kind(self._lists.kinds[number]), self._width
        scalar = "i8" if kind == Kind.BOOL else SCALARS[kind]
        last = constant(self._lists.array_sizes[array] - 1, "i32", width)
        clamped = self._append(self._intrinsic("umin", "i32", self.operand(index), last))
        if array not in self._addresses:
            self._addresses[array] = self._address(self.code, array)
        base, base_type = self._addresses[array]
        type_ = type_of(scalar, width)
        pointer = self._append(
            f"getelementptr {scalar}, {base_type} {base}, {type_of('i32', width)} {clamped}"
        )
        align = {"i8": 1, "double": 8}.get(scalar, 4)
        if width == 1:
            value = self._append(f"load {scalar}, ptr {pointer}, align {align}")
        else:
            name, pointers, mask = (
                suffix_of(scalar, width),
                type_of("ptr", width),
                type_of("i1", width),
            )
            name = f"llvm.masked.gather.{name}.v{width}p0"
            self.code.calls[name] = (
                f"declare {type_} @{name}({pointers}, i32 immarg, {mask}, {type_})"
            )
            all_lanes = constant(1, "i1", width)
            value = self._append(
                f"call {type_} @{name}({pointers} {pointer}, i32 {align}, {mask} {all_lanes}, "
                f"{type_} poison)"
            )
        return (
            value
            if kind != Kind.BOOL
            else self._append(f"icmp ne {type_} {value}, {constant(0, 'i8', width)}")
        )

    def _conversion(self, a: int, number: int) -> str:
        source, kind = Kind(self._lists.kinds[a >> 1]), Kind(self._lists.kinds[number])
        value, old, new = self.operand(a), self._types[source], self._types[kind]
        if source == kind:
            self._names[2 * number] = value
            return value
        if kind == Kind.BOOL:
            if source == Kind.INT32:
                return self._append(f"icmp ne {old} {value}, {constant(0, 'i32', self._width)}")
            return self._append(
                f"fcmp une {old} {value}, {constant(0.0, SCALARS[source], self._width)}"
            )
        if source == Kind.BOOL:
            return self._append(
                f"{'zext' if kind < Kind.FLOAT32 else 'uitofp'} {old} {value} to {new}"
            )
        if source == Kind.INT32:
            return self._append(f"sitofp {old} {value} to {new}")
        if kind == Kind.INT32:
            name = ".".join(suffix_of(scalar, self._width) for scalar in ("i32", SCALARS[source]))
            name = f"llvm.fptosi.sat.{name}"
            self.code.calls[name] = f"declare {new} @{name}({old})"
            return self._append(f"call {new} @{name}({old} {value})")
        return self._append(
            f"{'fpext' if kind == Kind.FLOAT64 else 'fptrunc'} {old} {value} to {new}"
        )

    def _unary(self, op: Op, a: int) -> str:
        kind = Kind(self._lists.kinds[a >> 1])
        scalar, type_, mask = SCALARS[kind], self._types[kind], self._types[Kind.BOOL]
        if op is Op.ABS:
            if kind == Kind.INT32:
                return self._append(self._intrinsic("abs", scalar, self.operand(a)))
            return self._append(self._intrinsic("fabs", scalar, self.operand(a & ~1)))
        x = self.operand(a)
        if op is Op.RSQRT:
            root = self._append(self._intrinsic("sqrt", scalar, x))
            return self._append(f"fdiv {type_} {constant(1.0, scalar, self._width)}, {root}")
        if op is Op.IS_FINITE:
            size = self._append(self._intrinsic("fabs", scalar, self.operand(a & ~1)))
            return self._append(
                f"fcmp olt {type_} {size}, {constant(float('inf'), scalar, self._width)}"
            )
        if op is not Op.SIGN:
            raise KernelError(f"unknown operation {op!r}")
        zero, one = constant(0, scalar, self._width), constant(1, scalar, self._width)
        if kind == Kind.INT32:
            at_most_one = self._append(self._intrinsic("smin", scalar, x, one))
            return self._append(
                self._intrinsic("smax", scalar, at_most_one, constant(-1, scalar, self._width))
            )
        one = self._append(self._intrinsic("copysign", scalar, one, x))
        is_nonzero = self._append(f"fcmp one {type_} {x}, {zero}")  # zero and NaN are unchanged
        return self._append(f"select {mask} {is_nonzero}, {type_} {one}, {type_} {x}")

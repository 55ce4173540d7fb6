"""Compares numbers of examples: a docstring shows a few digits, and those must be right."""

import doctest
import re

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?!\w)")


class NumberChecker(doctest.OutputChecker):
    """Accepts a number within one unit of its last shown digit, integers exactly; spaces do not
    count."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether the printed text matches the shown text."""
        if super().check_output(want, got, optionflags):
            return True
        shapes = ["".join(_NUMBER.sub("#", text).split()) for text in (want, got)]
        if shapes[0] != shapes[1]:
            return False
        pairs = zip(_NUMBER.findall(want), _NUMBER.findall(got), strict=True)
        return all(abs(float(shown) - float(printed)) <= _unit(shown) for shown, printed in pairs)


def _unit(number: str) -> float:
    """One unit of the last digit after the point, plus a little for binary rounding; 0 for
    integers."""
    mantissa, _, exponent = number.partition("e")
    if "." not in mantissa:
        return 0.0
    return 1.01 * 10.0 ** (
        int(exponent or 0) - max(len(mantissa.partition(".")[2]), 3 if mantissa[-1] == "." else 0)
    )

"""Issues that readers report about a description: one per mistake, each with its location and a suggested fix."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Sequence
from typing import Literal, Protocol

from artix.io.common.names import listed

Severity = Literal["error", "warning", "note"]


@dataclasses.dataclass(frozen=True)
class Issue:
    """One error or warning about a description; ``str(issue)`` is a single line in the style of a compiler message.

    Attributes:
      severity: ``"error"`` if the description is refused, ``"warning"`` if something is read otherwise than it is
        written or will surprise, ``"note"`` for what is only worth knowing. Readers raise their warnings as
        :class:`DescriptionWarning`; checkers list everything.
      file: the file's name as passed by the caller, ``"<text>"`` for a description passed as text.
      line: line in the file, counted from 1; also 1 where the line is not known.
      element: the element concerned, such as ``<link name="forearm">``.
      message: what is wrong.
      fix: what to do about it.

    Examples:
      >>> (issue,) = artix.io.check_urdf('<robot name="r"><link name="a"/><link name="a"/></robot>')[:1]
      >>> print(issue.severity, issue.line, issue.element)
      error 1 <link name="a">
    """

    severity: Severity
    file: str
    line: int
    element: str
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.severity}: {self.element}: {self.message}; fix: {self.fix}"


class DescriptionError(ValueError):
    """A description was refused; ``issues`` holds every error that was found, not only the first.

    Args:
      issues: the errors, in the order of the file.

    Examples:
      >>> try:
      ...     artix.load_urdf('<robot name="r"><link name="a"/><link name="a"/></robot>')
      ... except artix.DescriptionError as error:
      ...     print(len(error.issues), error.issues[0].severity)
      1 error
    """

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__(issues)
        self.issues = tuple(issues)

    def __str__(self) -> str:
        count = len(self.issues)
        heading = "1 error" if count == 1 else f"{count} errors"
        return "\n".join([f"the description has {heading}:", *map(str, self.issues)])


class DescriptionWarning(UserWarning):
    """A reader changed or left out something, on request or because nothing else makes sense; the message names it.

    Examples:
      >>> import warnings
      >>> text = artix.robots.path("arm7").read_text().replace('ixx="', 'ixx="1')  # physically impossible
      >>> with warnings.catch_warnings(record=True) as caught:
      ...     warnings.simplefilter("always")
      ...     arm = artix.load_urdf(text, fixed_base=True)
      ...
      >>> print([warning.category.__name__ for warning in caught])
      ['DescriptionWarning']
    """


class Place(Protocol):
    """Anything an issue can point at."""

    @property
    def line(self) -> int:
        """Line in the file, counted from 1."""

    @property
    def label(self) -> str:
        """The element as messages show it, such as ``<link name="forearm">``."""


@dataclasses.dataclass(frozen=True)
class Location:
    """A :class:`Place` by its label alone, or with the line, and the file if that is not the report's."""

    label: str
    line: int = 1
    file: str | None = None


class Report:
    """Collects the issues of one file while it is read or written.

    Args:
      file: the file's name.
      strict: whether :meth:`changed` records errors.
    """

    def __init__(self, file: str, *, strict: bool = False) -> None:
        self.file = file
        self.strict = strict
        self.issues: list[Issue] = []
        self._of_kind: dict[int, str] = {}
        self._to_raise: list[Issue] = []
        self.num_errors = 0

    def error(self, place: Place, message: str, fix: str) -> None:
        """Records a mistake for which the description is refused."""
        self.num_errors += 1
        self.issues.append(Issue("error", self._file(place), place.line, place.label, message, fix))

    def warning(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records something that is read but deserves a look.

        Args:
          place: the element.
          message: what is wrong with it.
          fix: what to do about it.
          several: what :meth:`summary` says of several such elements, where ``{count}`` is their number; ``message`` if
            that is the same for all.
        """
        self._of_kind[len(self.issues)] = several or message
        self.issues.append(Issue("warning", self._file(place), place.line, place.label, message, fix))

    def note(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records what is only worth knowing; the arguments are those of :meth:`warning`."""
        self._of_kind[len(self.issues)] = several or message
        self.issues.append(Issue("note", self._file(place), place.line, place.label, message, fix))

    def changed(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records what is read otherwise than it is written: a warning, or an error if the report is ``strict``."""
        if self.strict:
            self.error(place, message, fix)
        else:
            self.warning(place, message, fix, several)

    def left_out(self, place: Place, message: str, fix: str) -> None:
        """Records what was left out on request: a warning that the reader also raises as a Python warning."""
        self.warning(place, f"left out: {message}", fix)
        self._to_raise.append(self.issues[-1])

    def repaired(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records a mistake that was repaired on request: a warning that the reader also raises as a Python warning."""
        self.warning(place, f"repaired: {message}", fix, several and f"repaired: {several}")
        self._to_raise.append(self.issues[-1])

    def announce(self, place: Place, message: str, fix: str) -> None:
        """Summarizes warnings in a Python warning that the reader raises; it is not an issue of its own."""
        self._to_raise.append(Issue("warning", self._file(place), place.line, place.label, message, fix))

    def _file(self, place: Place) -> str:
        """The place's own file, for descriptions made of several files; otherwise the report's."""
        return getattr(place, "file", None) or self.file

    def summary(self) -> list[Issue]:
        """The issues by line, with one warning and one note for each kind, which name the elements concerned."""
        kinds: dict[tuple[str, str, str], list[Issue]] = {}
        alone: list[Issue] = []
        for index, issue in enumerate(self.issues):
            kind = self._of_kind.get(index)
            if kind is None:
                alone.append(issue)
            else:
                kinds.setdefault((issue.severity, kind, issue.fix), []).append(issue)
        return sorted([*alone, *(_joined(key[1], same) for key, same in kinds.items())], key=lambda issue: issue.line)

    def warn(self, stacklevel: int = 3) -> None:
        """Raises :class:`DescriptionError` with all errors; without errors, the warnings of :meth:`summary`.

        Args:
          stacklevel: as for :func:`warnings.warn`; 3 is the caller's caller.
        """
        self.raise_errors()
        for issue in self.summary():
            if issue.severity == "warning":
                warnings.warn(str(issue), DescriptionWarning, stacklevel=stacklevel)

    @property
    def errors(self) -> list[Issue]:
        """The errors so far, by line."""
        return sorted((issue for issue in self.issues if issue.severity == "error"), key=lambda issue: issue.line)

    def raise_errors(self) -> None:
        """Raises :class:`DescriptionError` with all errors, if there are any."""
        if self.num_errors:
            raise DescriptionError(self.errors)

    def finish(self, stacklevel: int = 3) -> None:
        """Raises :class:`DescriptionError` with all errors; without errors, issues the Python warnings.

        Args:
          stacklevel: as for :func:`warnings.warn`; 3 is the caller's caller.
        """
        self.raise_errors()
        for issue in self._to_raise:
            warnings.warn(str(issue), DescriptionWarning, stacklevel=stacklevel)


#: An element as messages show it, or one that contains it: its tag or kind, and its name.
_NAMED = re.compile("(?:.* of )?(?:<(?P<tag>[^ <>]+) name=\"(?P<quoted>.*)\">|(?P<kind>[a-z][a-z ]*) '(?P<name>.*)')", re.DOTALL)


def _joined(kind: str, issues: Sequence[Issue]) -> Issue:
    """One issue for several of a kind, at the place of the first."""
    first = min(issues, key=lambda issue: issue.line)
    labels = list(dict.fromkeys(issue.element for issue in issues))
    if len(issues) == 1:
        return first
    named = [_NAMED.fullmatch(label) for label in labels]
    kinds = {None if match is None else match["tag"] or match["kind"] for match in named}
    if None not in kinds and len(kinds) == 1:
        names = dict.fromkeys(match["quoted"] or match["name"] for match in named if match is not None)
        element = f"{kinds.pop()}{'s' if len(names) > 1 else ''} {listed(map(repr, names))}"
        labels = list(names)
    else:
        element = listed(labels)
    element += f" ({len(labels)} in all)" if len(labels) > 10 else ""
    return dataclasses.replace(first, element=element, message=kind.replace("{count}", str(len(labels))))

"""Issues that readers report about a description: one per mistake, each with its location and a
suggested fix.
"""

from __future__ import annotations

import dataclasses
import re
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

Severity = Literal["error", "warning", "note"]


@dataclasses.dataclass(frozen=True)
class Issue:
    """One error or warning about a description; ``str(issue)`` is a single line in the style of a
    compiler message.

    Attributes:
      severity: ``"error"`` if the description is refused, ``"warning"`` if something is read
        otherwise than it is written or deserves a look, ``"note"`` if it is only worth knowing.
        Checkers list all, and readers raise the warnings.
      file: the file's name as passed by the caller, ``"<text>"`` for a description passed as text.
      line: line in the file, counted from 1; also 1 where the line is not known.
      element: the element concerned, such as ``<link name="forearm">``.
      message: what is wrong.
      fix: what to do about it.

    Examples:
      >>> (issue,) = artix.io.check_urdf(
      ...     '<robot name="r"><link name="a"/><link name="a"/></robot>'
      ... )[:1]
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
        return (
            f"{self.file}:{self.line}: {self.severity}: {self.element}: {self.message}; fix: "
            f"{self.fix}"
        )


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
    """A reader changed, repaired or left out something, or accepted what deserves a look.

    Examples:
      >>> import warnings
      >>> # physically impossible
      >>> text = artix.robots.path("arm7").read_text().replace('ixx="', 'ixx="1')
      >>> with warnings.catch_warnings(record=True) as caught:
      ...     warnings.simplefilter("always")
      ...     arm = artix.load_urdf(text, fixed_base=True)
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
    """A :class:`Place` by its label alone, or with the line, and the file if that is not the
    report's.
    """

    label: str
    line: int = 1
    file: str | None = None


class Report:
    """Collects the issues of one file while it is read or written.

    Readers raise every warning that their checkers list, so loading a file says all that checking
    it says.

    Args:
      file: the file's name.
      strict: whether :meth:`changed` records errors.
    """

    def __init__(self, file: str, *, strict: bool = False) -> None:
        self.file = file
        self.strict = strict
        self._issues: list[Issue] = []
        self._several: dict[Issue, str] = {}
        self.num_errors = 0

    def error(self, place: Place, message: str, fix: str) -> None:
        """Records a mistake for which the description is refused."""
        self.num_errors += 1
        self._issues.append(self._issue("error", place, message, fix))

    def warning(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records something that is read but deserves a look; those that differ in their element
        only become one.

        Args:
          place: the element.
          message: what is wrong with it.
          fix: what to do about it.
          several: what to say of several such elements if ``message`` differs among them;
            ``{count}`` is their number.
        """
        self._add("warning", place, message, fix, several)

    def note(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records what is only worth knowing, and no reader raises; for the arguments see
        :meth:`warning`.
        """
        self._add("note", place, message, fix, several)

    def changed(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records what is read otherwise than it is written: a warning, or an error if the report
        is ``strict``.
        """
        if self.strict:
            self.error(place, message, fix)
        else:
            self.warning(place, message, fix, several)

    def left_out(self, place: Place, message: str, fix: str) -> None:
        """Records something that is not read."""
        self.warning(place, f"left out: {message}", fix)

    def repaired(self, place: Place, message: str, fix: str, several: str | None = None) -> None:
        """Records a mistake that was repaired."""
        self.warning(place, f"repaired: {message}", fix, several and f"repaired: {several}")

    def include(self, other: Report) -> None:
        """Adds the issues of another report."""
        self._issues += other._issues
        self._several |= other._several
        self.num_errors += other.num_errors

    def _add(
        self, severity: Severity, place: Place, message: str, fix: str, several: str | None
    ) -> None:
        self._issues.append(self._issue(severity, place, message, fix))
        if several is not None:
            self._several[self._issues[-1]] = several

    def _issue(self, severity: Severity, place: Place, message: str, fix: str) -> Issue:
        # Some descriptions are made of several files.
        file = getattr(place, "file", None) or self.file
        return Issue(severity, file, place.line, place.label, message, fix)

    @property
    def issues(self) -> list[Issue]:
        """All errors, and one warning or note for all elements of which the same is said."""
        return group_issues(self._issues, self._several)

    @property
    def errors(self) -> list[Issue]:
        """The errors so far, by line."""
        return sorted(
            (issue for issue in self._issues if issue.severity == "error"),
            key=lambda issue: issue.line,
        )

    def raise_errors(self) -> None:
        """Raises :class:`DescriptionError` with all errors, if there are any."""
        if self.num_errors:
            raise DescriptionError(self.errors)

    def finish(self) -> None:
        """Raises :class:`DescriptionError` with all errors; without errors, warns where the caller
        was called.
        """
        self.raise_errors()
        for issue in sorted(self.issues, key=lambda issue: issue.line):
            if issue.severity == "warning":
                warnings.warn(str(issue), DescriptionWarning, stacklevel=3)


def group_issues(
    issues: Sequence[Issue], several: Mapping[Issue, str] = types.MappingProxyType({})
) -> list[Issue]:
    """The issues with one warning or note for all elements of a kind of which a file's reader or
    writer says the same.

    Args:
      issues: the issues.
      several: what to say of several issues of a kind whose messages differ, by the issue.

    Examples:
      >>> from artix.io.common.diagnostics import group_issues
      >>> said = [
      ...     artix.Issue("warning", "a.urdf", line, f"joint {name!r}", "no limit", "add it")
      ...     for line, name in ((3, "hip"), (5, "knee"))
      ... ]
      >>> print(*group_issues(said))
      a.urdf:3: warning: 2 joints ('hip', 'knee'): no limit; fix: add it
    """
    kinds: dict[Any, list[Issue]] = {}
    for number, issue in enumerate(issues):
        said = several.get(issue, issue.message)
        alike = (issue.severity, issue.file, _noun_and_name(issue.element)[0], said, issue.fix)
        kinds.setdefault(number if issue.severity == "error" else alike, []).append(issue)
    return [_join(kind, several.get(kind[0], kind[0].message)) for kind in kinds.values()]


def _join(alike: Sequence[Issue], message: str) -> Issue:
    names = dict.fromkeys(_noun_and_name(issue.element) for issue in alike)
    first = min(alike, key=lambda issue: issue.line)
    if len(names) == 1:
        return first
    (noun, _), *_ = names
    nouns = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    element = f"{len(names)} {nouns} ({listed(name for _, name in names)})"
    return dataclasses.replace(
        first, element=element, message=message.replace("{count}", str(len(names)))
    )


#: Elements as messages name them: of XML, of an articulation, and prims of USD or their properties.
_XML = re.compile(
    r'<([\w:]+)(?: name="(?P<name>.*)")?>'
    r'(?: of <[\w:]+ name="(?P<around>.*)">| number (?P<number>\d+))?'
)
_PART = re.compile(r"([a-z][a-z ]*) '(.*)'")
_PRIM = re.compile(r"<(/[^>.]*)(\.[^>]*)?>")


def _noun_and_name(element: str) -> tuple[str, str]:
    """What kind of thing an element is, and which one of its kind; the latter is empty if there is
    only one.
    """
    if match := _XML.fullmatch(element):
        name = match["around"] if match["name"] is None else match["name"]
        number = "" if match["number"] is None else f"number {match['number']}"
        return f"<{match[1]}> element", number if name is None else repr(name)
    if match := _PART.fullmatch(element):
        return match[1], repr(match[2])
    if match := _PRIM.fullmatch(element):
        return f"{match[2][1:]} property" if match[2] else "prim", f"<{match[1]}>"
    return element, ""


def counted(number: int, one: str, several: str) -> str:
    """A number and what there is of it, for a message: ``1 pair is``, ``2 pairs are``."""
    return f"{number} {one if number == 1 else several}"


def listed(names: Iterable[str], limit: int = 10) -> str:
    """The names separated by commas, for a message; after the first ``limit``, an ellipsis."""
    names = list(names)
    return ", ".join([*names[:limit], *(["..."] if len(names) > limit else [])])

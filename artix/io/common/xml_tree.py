"""XML: elements with their lines and typed attributes for readers, and what the writers of URDF and
MJCF share.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection
from pathlib import Path
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from artix.io.common.diagnostics import Issue, Location, Report
from artix.io.common.meshes import LFS_FIX, LFS_POINTER, is_lfs_pointer
from artix.io.common.values import shortest, unsupported_features, writable_topology
from artix.math.arrays import host_arrays
from artix.model.articulation import Articulation

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
#: A tag, the values in it, and an ampersand that begins no entity of XML.
_TAG = re.compile(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>""")
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
_NOT_FINITE = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)

#: Characters that XML does not allow.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: Larger numbers are treated as mistakes: the product of a few would overflow.
LARGEST_NUMBER = 1e30


@dataclasses.dataclass(slots=True, eq=False)
class Element:
    """One XML element.

    Attributes:
      tag: its tag, including any namespace prefix.
      attributes: its attributes.
      line: the line on which it starts, counted from 1.
      parent: the element around it, ``None`` for the outermost.
      children: the elements in it, in the order of the file.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    parent: Element | None = dataclasses.field(default=None, repr=False)
    children: list[Element] = dataclasses.field(default_factory=list, repr=False)

    @property
    def label(self) -> str:
        """The element as messages show it: with its name, or with the nearest named element around
        it.
        """
        label = self._tag_and_name
        if "name" in self.attributes:
            return label
        around = self.parent
        while around is not None and "name" not in around.attributes:
            around = around.parent
        return (
            label
            if around is None or around.parent is None
            else f"{label} of {around._tag_and_name}"
        )

    @property
    def _tag_and_name(self) -> str:
        name = self.attributes.get("name")
        return f"<{self.tag}>" if name is None else f'<{self.tag} name="{name}">'

    def all(self, tag: str) -> list[Element]:
        """The children with the given tag."""
        return [child for child in self.children if child.tag == tag]


class _Refused(Exception):
    """Aborts parsing from within an expat handler."""


def is_text(path_or_text: str | Path) -> bool:
    """Whether the argument is a description itself (a string whose first visible character is
    ``<``) or a path.

    Raises:
      TypeError: it is neither a string nor a path.
    """
    if not isinstance(path_or_text, (str, Path)):
        raise TypeError(
            f"expected a path or the text of a description, found {type(path_or_text).__name__}"
        )
    return isinstance(path_or_text, str) and path_or_text.lstrip("\ufeff \t\r\n").startswith("<")


class ExpandedText(str):
    """The text that a file expands to; messages name the file, and paths in it are relative to the
    file's folder.
    """

    file: Path
    issues: tuple[Issue, ...]
    """What there is to say of its expansion."""

    @classmethod
    def of(cls, text: str, file: Path, *issues: Issue) -> ExpandedText:
        """The text of a file."""
        expanded = cls(text)
        expanded.file, expanded.issues = file, issues
        return expanded


def origin(path_or_text: str | Path) -> tuple[str, Path]:
    """What messages call a description, and the folder that paths in it are relative to.

    Raises:
      TypeError: it is neither a string nor a path.
    """
    if isinstance(path_or_text, ExpandedText):
        path_or_text = path_or_text.file
    elif is_text(path_or_text):
        return "<text>", Path(".")
    return str(path_or_text), Path(path_or_text).parent


def read_xml(path_or_text: str | Path, report: Report) -> Element | None:
    """Reads an XML document.

    Args:
      path_or_text: a path, or the document itself; see :func:`is_text`.
      report: receives an error if this is not XML or has a document type declaration, and a warning
        if it is XML for lenient parsers only, such as MuJoCo's and Pinocchio's.

    Returns:
      The outermost element, ``None`` if there was an error.

    Raises:
      OSError: the file cannot be read.
    """
    if is_text(path_or_text):
        # An XML declaration must come first; the encoding it names does not apply to a Python
        # string.
        text = str(path_or_text).lstrip("\ufeff \t\r\n")
        skipped = str(path_or_text)[: -len(text)].count("\n")
        return _parse(text.encode("utf-8", "surrogatepass"), "utf-8", skipped, report)
    data = Path(path_or_text).read_bytes()
    if is_lfs_pointer(data):
        report.error(Location("file"), LFS_POINTER, LFS_FIX)
        return None
    return _parse(data, None, 0, report)


def _parse(data: bytes, encoding: str | None, skipped: int, report: Report) -> Element | None:
    try:
        return _parse_strictly(data, encoding, skipped, report)
    except expat.ExpatError as problem:
        place = Location("XML", problem.lineno + skipped)
        message = f"not well-formed XML ({expat.ErrorString(problem.code)})"
    except (ValueError, LookupError) as problem:
        report.error(
            Location("XML", 1 + skipped),
            f"unreadable encoding ({problem})",
            "save the file as UTF-8",
        )
        return None
    mended = _mend(data)
    fix = "correct the XML at this line"
    try:
        root = (
            None
            if mended is None
            else _parse_strictly(mended.encode("utf-8"), "utf-8", skipped, report)
        )
    except (expat.ExpatError, ValueError):
        mended = root = None
    if mended is None:
        report.error(place, message, fix)
    else:
        report.warning(place, f"{message}; read as lenient parsers read it", fix)
    return root


def _mend(data: bytes) -> str | None:
    """A document as well-formed XML if lenient parsers accept it; every element stays on its line.

    It may have blanks before its declaration and after ``<``, none between attributes, ``--`` in
    comments, ``&`` and ``<`` in values, and characters that XML does not allow. ``None`` if there
    are other faults.
    """
    text = NOT_XML.sub("\ufffd", data.decode("utf-8-sig", "replace"))
    parts = list[str]()
    at = 0
    while (start := text.find("<", at)) >= 0:
        parts.append(_BARE_AMPERSAND.sub("&amp;", text[at:start]))
        closing = {"<!--": "-->", "<?": "?>", "<![CDATA[": "]]>"}
        opening = next((mark for mark in closing if text.startswith(mark, start)), None)
        if opening is not None:
            end = text.find(closing[opening], start + len(opening))
            at = end + len(closing[opening])
            part = text[start:at] if opening == "<![CDATA[" else "\n" * text.count("\n", start, at)
        else:
            tag = _TAG.match(text, start)
            end, at = (-1, 0) if tag is None else (start, tag.end())
            part = "" if tag is None else "<" + _QUOTED.sub(_add_space, tag[0])[1:].lstrip(" \t")
        if end < 0:
            return None
        parts.append(part)
    return "".join([*parts, text[at:]])


def _add_space(value: re.Match[str]) -> str:
    """An attribute's value in its quotes, escaped, and a blank after it."""
    return _BARE_AMPERSAND.sub("&amp;", value[0]).replace("<", "&lt;") + " "


def _parse_strictly(
    data: bytes, encoding: str | None, skipped: int, report: Report
) -> Element | None:
    parser = expat.ParserCreate(encoding)
    outermost: list[Element] = []
    stack: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        parent = stack[-1] if stack else None
        element = Element(tag, attributes, parser.CurrentLineNumber + skipped, parent)
        (outermost if parent is None else parent.children).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        stack.pop()

    def doctype(*_) -> None:
        report.error(
            Location("<!DOCTYPE>", parser.CurrentLineNumber + skipped),
            "document type declarations and entities are refused, as they can make a small file "
            "arbitrarily large",
            "delete the <!DOCTYPE ...> declaration and write out what its entities stand for",
        )
        raise _Refused

    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = (
        start,
        end,
        doctype,
    )
    try:
        parser.Parse(data, True)
    except _Refused:
        return None
    return outermost[0]


def read_child(
    report: Report, element: Element, tag: str, *, required: bool = False
) -> Element | None:
    """The first child with the given tag; ``None`` if there is none, which is an error if it is
    ``required``.

    Others of the same tag are ignored, as urdfdom ignores them, and reported.
    """
    children = element.all(tag)
    if required and not children:
        report.error(element, f"it has no <{tag}>", f"add a <{tag}> element")
    if len(children) > 1:
        message = f"a second <{tag}>; the first is on line {children[0].line}, and it alone is read"
        report.changed(
            children[1], message, "keep one of them", f"a second <{tag}>; the first alone is read"
        )
    return children[0] if children else None


def read_name(report: Report, element: Element, attribute: str = "name") -> str | None:
    """The attribute's text; ``None``, and an error, if it is missing or empty."""
    value = element.attributes.get(attribute, "")
    if not value.strip():
        report.error(
            element, f"the attribute {attribute!r} is missing or empty", f'write {attribute}="..."'
        )
        return None
    return value


def read_numbers(
    report: Report,
    element: Element | None,
    attribute: str,
    fallback: tuple[float, ...],
    *,
    required: bool = False,
) -> tuple[float, ...]:
    """The finite numbers in an attribute, separated by white space.

    Args:
      report: receives an error if they are malformed, not finite, of the wrong count, or missing
        though ``required``.
      element: the element; ``None`` for an absent one, which has no attributes.
      attribute: the attribute's name.
      fallback: the value of an absent attribute, also returned after an error; its length is the
        expected count.
      required: whether the attribute must be present.
    """
    text = None if element is None else element.attributes.get(attribute)
    if element is None or text is None:
        if required and element is not None:
            report.error(
                element, f"the attribute {attribute!r} is missing", f'write {attribute}="..."'
            )
        return fallback
    words = text.split()
    shown = f"{attribute}={text[:60]!r}"
    expected = (
        "one number" if len(fallback) == 1 else f"{len(fallback)} numbers separated by spaces"
    )
    for word in words:
        if _NOT_FINITE.fullmatch(word):
            report.error(
                element,
                f"{shown} is not finite",
                "write a finite number, or leave out an optional attribute",
            )
            return fallback
        if not _NUMBER.fullmatch(word):
            report.error(
                element, f"{shown} is malformed: {word[:30]!r} is not a number", f"write {expected}"
            )
            return fallback
        if not math.fabs(float(word)) <= LARGEST_NUMBER:
            report.error(
                element,
                f"{shown} is beyond {LARGEST_NUMBER:g}, which no robot needs",
                "correct the number",
            )
            return fallback
    if len(words) != len(fallback):
        report.error(
            element, f"{shown} is malformed: found {len(words)} numbers", f"write {expected}"
        )
        return fallback
    return tuple(map(float, words))


def read_number(
    report: Report,
    element: Element | None,
    attribute: str,
    fallback: float,
    *,
    required: bool = False,
) -> float:
    """One finite number; see :func:`read_numbers`."""
    return read_numbers(report, element, attribute, (fallback,), required=required)[0]


# --- writing ------------------------------------------------------------------------------------


class XmlWriter:
    """Writes one articulation in a format made of XML.

    Args:
      articulation: a single articulation.
      format_name: the format's name in messages.
      path: the file being written.
      supported: the features that the format expresses or the writer handles; see
        :func:`unsupported_features`.

    Attributes:
      articulation: the articulation, with NumPy arrays.
      topology: its topology.
      report: what the format cannot express, and why it cannot describe the articulation at all.
    """

    def __init__(
        self,
        articulation: Articulation,
        format_name: str,
        path: str | Path,
        supported: Collection[str],
    ) -> None:
        self.articulation = host_arrays(articulation)
        self.topology = writable_topology(self.articulation)
        self.report = Report(str(path))
        self._refuse_names()
        for element, what in unsupported_features(self.articulation, supported):
            self.warn(element, f"{format_name} cannot express {what}")

    def warn(self, element: str, message: str, fix: str = "keep it in an .npz archive") -> None:
        """Reports what the format cannot express."""
        self.report.warning(Location(element), message, fix)

    def refuse(
        self, element: str, message: str, fix: str = "write an .npz archive instead"
    ) -> None:
        """Reports why the articulation cannot be written."""
        self.report.error(Location(element), message, fix)

    def pose(self, field: str, index: int) -> np.ndarray:
        """A pose out of one of the articulation's arrays, [7]."""
        return np.asarray(getattr(self.articulation, field)[index], float)

    def numbers(self, values: npt.ArrayLike) -> str:
        """Numbers as by :meth:`number`, separated by spaces."""
        return " ".join(map(self.number, np.asarray(values, float)))

    def number(self, value: npt.ArrayLike) -> str:
        """The shortest number that reads back as this one in the articulation's dtype; never
        ``-0.0``.
        """
        dtype = np.promote_types(self.articulation.dtype, np.float32)
        return repr(float(shortest(np.asarray(value, dtype))) + 0.0).removesuffix(".0")

    def _refuse_names(self) -> None:
        topology = self.topology
        names = (topology.name, *topology.link_names, *topology.joint_names, *topology.frame_names)
        for name in (*names, *(shape.name for shape in topology.geometries)):
            if NOT_XML.search(name):
                fix = "rename it, or write an .npz archive instead"
                self.refuse(repr(name)[:60], "its name has characters that XML does not allow", fix)
        self.report.raise_errors()

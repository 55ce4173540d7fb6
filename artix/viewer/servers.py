"""Viser servers: ports, addresses, and silence on the terminal."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from artix.model.validation import is_index

FIRST_PORT = 8080


def import_viser() -> Any:
    """Imports the package ``viser``.

    Raises:
      ImportError: it is not installed, or too old; the message names the extra that brings it.
    """
    try:
        import viser
    except ImportError as error:
        raise ImportError("the viewer shows scenes with viser: pip install 'artix[viewer]'") from error
    if int(viser.__version__.partition(".")[0]) < 1:
        raise ImportError(
            f"the viewer needs viser 1.0 or later; found {viser.__version__}: pip install 'artix[viewer]'"
        )
    return viser


def open_server(host: str, port: int | None, title: str) -> Any:
    """Starts a viser server.

    Args:
      host: the address to listen on: ``"127.0.0.1"`` for browsers on this machine only, ``"0.0.0.0"`` for all.
      port: the port, or 0 for any free one; by default the first free one from 8080.
      title: the title of the browser's window and of the panel.

    Raises:
      ValueError: the port is not one from 0 to 65535.
      OSError: the port is in use, or the host is not an address of this machine.
      ImportError: viser is not installed.
    """
    viser = import_viser()
    if port is not None and not (is_index(port) and 0 <= port < 2**16):
        raise ValueError(f"port must be from 0 to 65535; found {port!r}")
    _check_host(host)
    if port != 0:
        port = _free_port(host, range(FIRST_PORT, FIRST_PORT + 100) if port is None else (port,))
    with _quiet():
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    if hasattr(server.gui, "main_panel"):  # viser 1.1: beside the robots instead of over them
        server.gui.main_panel.dock_right()
    _name_window(server, title)
    return server


def _name_window(server: Any, title: str) -> None:
    """Gives the browser's window a title, for which viser has no public function."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from viser._messages import RunJavascriptMessage

        script = RunJavascriptMessage(f"document.title = {json.dumps(title)};")
        server.gui._websock_interface.queue_message(script)


def close_server(server: Any) -> None:
    """Stops a server and its threads."""
    with _quiet():
        server.stop()


def wait_for(closed: threading.Event, close: Callable[[], None]) -> None:
    """Waits until a server is closed or the process is interrupted (Ctrl-C), and then closes it."""
    try:
        while not closed.wait(0.2):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        close()


@contextlib.contextmanager
def private_server(title: str) -> Iterator[Any]:
    """A server for recordings only, which no browser visits."""
    server = open_server("127.0.0.1", 0, title)
    try:
        yield server
    finally:
        close_server(server)


def address(server: Any) -> str:
    """The URL of a server for browsers on this machine."""
    host = server.get_host()
    return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{server.get_port()}"


def _check_host(host: str) -> None:
    """Refuses a foreign address, for which viser would wait for ever."""
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            mend = "give 127.0.0.1, or 0.0.0.0 for all addresses of this machine"
            message = f"host {host!r} is not an address of this machine ({error.strerror}); {mend}"
            raise OSError(error.errno, message) from error


def _free_port(host: str, ports: range | tuple[int, ...]) -> int:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if len(ports) > 1:
                    continue
                mend = "choose another, or 0 for any free one"
                message = f"port {port} of {host} cannot be used ({error.strerror}); {mend}"
                raise OSError(error.errno, message) from error
            return port
    raise OSError(f"no port from {ports[0]} to {ports[-1]} is free; choose another, or 0 for any free one")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences viser, which prints with rich."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before

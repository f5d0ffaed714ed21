"""What agents of one run say to each other: one line of JSON asked, one answered, on a TCP connection of its own.

A question names the run's token; one without it gets no answer. Nothing that is asked is ever run as a command: the
commands come from the control node alone.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading

_LINE_BYTES = 65536
_SECONDS = 5.0


class Listener:
    """Answers questions until closed. ``answer`` takes the question and returns the answer, both dictionaries."""

    def __init__(self, address, port, token, answer):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((address, port))
        self._socket.listen(128)
        self._token, self._answer = token, answer
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        """Take no more questions."""
        self._socket.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        try:
            with connection:
                connection.settimeout(_SECONDS)
                question = _read_line(connection)
                if isinstance(question, dict) and hmac.compare_digest(str(question.get("token")), self._token):
                    connection.sendall(json.dumps(self._answer(question)).encode() + b"\n")
        except (OSError, ValueError):
            return  # whoever asked hears nothing, and asks again


def ask(address, port, question, seconds=3.0):
    """Ask an agent. Raises OSError where nobody answers in time."""
    with socket.create_connection((address, port), timeout=seconds) as connection:
        connection.settimeout(seconds)
        connection.sendall(json.dumps(question).encode() + b"\n")
        try:
            answer = _read_line(connection)
        except ValueError as error:
            raise OSError("what answers there is not an agent of this run") from error
    if not isinstance(answer, dict):
        raise OSError("what answers there is not an agent of this run")
    return answer


def _read_line(connection):
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(4096)
        data += more
        if not more or len(data) > _LINE_BYTES:
            raise ValueError("no whole line came")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("what came is nested too deeply") from error

"""A receiver of webhooks: a real server on this machine, which does what it is told to do with each request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = Callable[["Handler"], None]


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """What came, and what is done with what comes next; then everything is taken."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    connections: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """List the rows of all requests that were taken, each request once."""
        by_key = {request.headers["idempotency-key"]: request for request in self.taken}
        return [{"query_name": r.json["query"], **row} for r in by_key.values() for row in r.json["rows"]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver
    request_now: Request

    def setup(self) -> None:
        super().setup()
        self.receiver.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):  # the sender was killed
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.request_now = Request(self.path, headers, body)
        self.receiver.requests.append(self.request_now)
        act = self.receiver.acts.pop(0) if self.receiver.acts else taking()
        act(self)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def taking(status: int = 204) -> Act:
    def act(handler: Handler) -> None:
        handler.receiver.taken.append(handler.request_now)
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return act


def refusing(status: int, text: str = "", **headers: str) -> Act:
    def act(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(text.encode())))
        handler.end_headers()
        handler.wfile.write(text.encode())

    return act


def breaking_off(handler: Handler) -> None:
    """Take the request, say yes, and end in the middle of the answer."""
    handler.receiver.taken.append(handler.request_now)
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True


def hanging_up(handler: Handler) -> None:
    """Take the request, and end without an answer."""
    handler.receiver.taken.append(handler.request_now)
    handler.close_connection = True


def taking_and_closing(handler: Handler) -> None:
    """Take the request, and end the connection after the answer without saying so."""
    taking()(handler)
    handler.close_connection = True


def dripping(seconds: float) -> Act:
    """Send a byte of the answer now and then, so that no single wait is long."""

    def act(handler: Handler) -> None:
        end = time.monotonic() + seconds
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while time.monotonic() < end:
                handler.wfile.write(b".")
                time.sleep(0.05)
        except OSError:
            handler.close_connection = True

    return act


class QuietServer(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, *_: Any) -> None:
        """Say nothing of senders that were killed."""


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """Receive on this machine."""
    receiver = Receiver()

    class Bound(Handler):
        pass

    Bound.receiver = receiver
    server = QuietServer(("127.0.0.1", port), Bound)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/hooks/T0/secret-path"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

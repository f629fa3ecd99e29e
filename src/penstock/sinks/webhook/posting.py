"""Posts one request after the other to a host whose address was checked, each within a time."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import SinkError
from penstock.sinks.webhook.addresses import Network, checked_addresses

MOST_READ: Final = 64 << 10  # bytes of an answer's body; what is behind them is not waited for
LONGEST_PAUSE_S: Final = 3600.0  # that a receiver may ask for
PORTS: Final = {"http": 80, "https": 443}
SECRET_SIGNS: Final = 8  # at least, of a part of a secret
_TOLD: Final = 200  # characters of a refusal that are shown
_BETWEEN: Final = re.compile(r"[\s/?&=:,;]+")


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where requests go: scheme, host and port of an address."""

    scheme: str
    host: str
    port: int

    @property
    def shown(self) -> str:
        """Name it without what may be secret: path and query of an address often are."""
        standing = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{standing}"


def receiver_of(url: str) -> Receiver:
    """Find who gets the requests to an address."""
    parts = urlsplit(url)
    return Receiver(parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme])


def target_of(url: str) -> str:
    """Return path and query of an address."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def parts_of(secrets: Sequence[str]) -> tuple[str, ...]:
    """List texts that must not be shown, and their parts, if they are long enough to be secrets; longest first."""
    parts = {part for secret in secrets for part in (secret, *_BETWEEN.split(secret))}
    return tuple(sorted((part for part in parts if len(part) >= SECRET_SIGNS), key=len, reverse=True))


class Poster:
    """Posts to one receiver, over one connection as long as that holds."""

    def __init__(
        self, receiver: Receiver, allowed: Sequence[Network], timeout_s: float, secrets: Sequence[str] = ()
    ) -> None:
        """Prepare; the connection is made with the first request. ``secrets`` are shown in no error."""
        self.receiver, self.allowed, self.timeout_s = receiver, allowed, timeout_s
        self.secrets = parts_of(secrets)
        self._connection: http.client.HTTPConnection | None = None

    def post(self, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Post a body; whatever is not a whole answer that says yes is an error."""
        begun_before = self._connection is not None
        try:
            self._exchange(target, body, headers)
        except ConnectionError as error:
            if not begun_before:
                raise self._failed(error) from None
            self._again(target, body, headers)

    def _again(self, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Post over a new connection: a receiver may end one between two requests."""
        try:
            self._exchange(target, body, headers)
        except ConnectionError as error:
            raise self._failed(error) from None

    def _exchange(self, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Post a body and read what is answered; a connection that ends is left to the caller."""
        with within(self.timeout_s) as limit:
            try:
                answered, text = self._answered(limit, target, body, headers)
                self._judge(answered, text)
            except (OSError, HTTPException, ValueError) as error:
                self.close()
                if isinstance(error, ConnectionError) and not limit.is_over:
                    raise
                raise self._failed(TimeoutError() if limit.is_over else error) from None
            except BaseException:
                self.close()
                raise
        if answered.will_close or not answered.isclosed():
            self.close()

    def _answered(
        self, limit: TimeLimit, target: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[HTTPResponse, bytes]:
        """Send a request, and read what is answered, or the beginning of it if that is long."""
        connection = self._connected(limit)
        limit.watch(connection.sock)
        connection.request("POST", target, body, dict(headers))
        answered = connection.getresponse()
        text = answered.read(MOST_READ)
        if answered.length and len(text) < MOST_READ:
            raise IncompleteRead(text, answered.length)
        return answered, text

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, limit: TimeLimit) -> http.client.HTTPConnection:
        """Return the connection, made to an address that was checked."""
        if self._connection is None or self._connection.sock is None:
            to = self.receiver
            addresses = checked_addresses(to.host, to.port, self.allowed)
            connection = http.client.HTTPConnection(to.host, to.port, timeout=self.timeout_s)
            connection.auto_open = 0  # else it would look up the name once more
            connection.default_port = PORTS[to.scheme]
            connection.sock = self._socket(addresses, limit)
            self._connection = connection
        return self._connection

    def _socket(self, addresses: Sequence[str], limit: TimeLimit) -> socket.socket:
        """Connect to the first address that answers; who answers must be who the name says."""
        plain = _first_that_answers(addresses, self.receiver.port, limit)
        plain.settimeout(self.timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a body does not wait for its head to arrive
        if self.receiver.scheme == "http":
            return plain
        context = ssl.create_default_context()
        encrypted = context.wrap_socket(plain, server_hostname=self.receiver.host, do_handshake_on_connect=False)
        try:
            limit.watch(encrypted)
            encrypted.do_handshake()
        except BaseException:
            encrypted.close()
            raise
        return encrypted

    def _judge(self, answered: HTTPResponse, body: bytes) -> None:
        """Raise unless the receiver has taken the request."""
        status = answered.status
        if 200 <= status < 300:
            return
        what = f"{self.receiver.shown} answered {status} {answered.reason}".strip()
        detail = self._without_secrets(body.decode(errors="replace").strip()[:_TOLD]) or None
        hint = None
        if 300 <= status < 400:
            hint = "Redirects are not followed: write the address that answers go to."
        elif status == 413:
            hint = "Let a request have fewer answers: batch_rows."
        raise SinkError(self._without_secrets(what), detail=detail, hint=hint, wait_s=_asked_for(answered))

    def _failed(self, error: Exception) -> SinkError:
        """Word what went wrong on the way."""
        if isinstance(error, TimeoutError):
            return SinkError(f"{self.receiver.shown} did not answer within {self.timeout_s:g} s")
        if isinstance(error, HTTPException) and not isinstance(error, ConnectionError):
            return SinkError(f"{self.receiver.shown} broke its answer off, or it is no answer of HTTP")
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return SinkError(self._without_secrets(f"{self.receiver.shown} cannot be reached: {reason}"))

    def _without_secrets(self, text: str) -> str:
        """Take secrets out of what another party said."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _first_that_answers(addresses: Sequence[str], port: int, limit: TimeLimit) -> socket.socket:
    """Connect to one address after the other."""
    failure: OSError = OSError("it has no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=max(0.001, limit.left_s))
        except OSError as error:
            failure = error
    raise failure


def _asked_for(answered: HTTPResponse) -> float:
    """Return for how many seconds a receiver asks to be left alone."""
    text = (answered.headers.get("Retry-After") or "").strip()
    try:
        wait_s = float(text) if text.isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(wait_s, 0.0), LONGEST_PAUSE_S)


class TimeLimit:
    """Ends what goes over a socket when its time is up: one that sends a byte now and then never times out itself."""

    def __init__(self, seconds: float) -> None:
        """Begin to count."""
        self._end = time.monotonic() + seconds
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self.is_over = False

    @property
    def left_s(self) -> float:
        """Return how much time is left."""
        return self._end - time.monotonic()

    def watch(self, connected: socket.socket | None) -> None:
        """End this socket when the time is up."""
        with self._lock:
            self._socket = connected
            if self.is_over and connected is not None:
                raise TimeoutError

    def end(self) -> None:
        """End the socket, below any encryption: whoever reads from it is woken."""
        with self._lock:
            self.is_over = True
            if self._socket is not None:
                try:
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    return  # it has ended


@contextmanager
def within(seconds: float) -> Iterator[TimeLimit]:
    """Allow so much time."""
    limit = TimeLimit(seconds)
    timer = threading.Timer(seconds, limit.end)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        timer.cancel()
        limit.watch(None)

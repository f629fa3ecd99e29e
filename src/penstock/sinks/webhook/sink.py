"""Posts answers as JSON to an address, query by query: signed, with a key that tells a repeated request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import pyarrow as pa

from penstock.errors import SinkError
from penstock.sinks.parquet_by_query import each_query
from penstock.sinks.protocol import Progressing
from penstock.sinks.recorded import RecordedWriter
from penstock.sinks.settings import TextForm, WholeForm, chosen_names
from penstock.sinks.webhook.addresses import networks_of
from penstock.sinks.webhook.bodies import PostedAnswers, plain_body, template_of
from penstock.sinks.webhook.posting import Poster, receiver_of, target_of
from penstock.store.faults import reached

MOST_BYTES: Final = 1 << 20  # of a request; one answer that is larger goes alone
ENCODED_SECRET: Final = "whsec_"  # a secret that begins so is Base64
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+\Z")
_OWN_HEADERS: Final = ("content-length", "content-type", "host", "idempotency-key", "transfer-encoding", "connection")


def _checked(read: Callable[[str], object]) -> Callable[[str], str | None]:
    """Make a check of what reads a text or says with a ValueError what is wrong."""

    def wrong(text: str) -> str | None:
        try:
            read(text)
        except ValueError as error:
            return str(error)
        return None

    return wrong


def _read_url(text: str) -> str:
    """Read an address; what is wrong is told without it: it may hold a secret."""
    try:
        parts = urlsplit(text)
        usable = parts.port != 0
    except ValueError:
        raise ValueError("has no usable host or port") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as https://example.com/hooks")
    if not usable:
        raise ValueError("has no usable host or port")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must have no name and password in it: use headers, such as Authorization: Basic …")
    if not text.isascii() or any(sign.isspace() or not sign.isprintable() for sign in text):
        raise ValueError("has a sign that must be written with %")
    if "{" in parts.netloc or "{" in text.replace("{query}", ""):
        raise ValueError("has a place other than {query}, which may stand in its path")
    return text


def _read_headers(text: str) -> dict[str, str]:
    """Read headers, a line each."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon or not _HEADER.match(name) or not value.strip().isprintable() or not value.isascii():
            raise ValueError("must be lines such as Authorization: Bearer …")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-"):
            raise ValueError(f"cannot have {name}, which Penstock writes")
        found[name] = value.strip()
    return found


def _read_secret(text: str) -> bytes:
    """Read the key of signatures."""
    if not text.startswith(ENCODED_SECRET):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(ENCODED_SECRET), validate=True)
    except ValueError:
        raise ValueError(f"is not Base64 behind {ENCODED_SECRET}") from None


class WebhookSink:
    """Posts each query's answers to an address as JSON; see docs/webhooks.md.

    At least once: what was posted and not recorded when the process died is posted again, under the same key.
    """

    kind = "webhook"

    def __init__(
        self,
        url: Annotated[str, TextForm("https://example.com/hooks", _checked(_read_url), secret=True)],
        *,
        queries: Annotated[str, TextForm("names of queries with commas between them; all if left out")] = "",
        secret: Annotated[str, TextForm("key of the signatures", _checked(_read_secret), secret=True)] = "",
        headers: Annotated[str, TextForm("more headers, a line each", _checked(_read_headers), secret=True)] = "",
        body: Annotated[str, TextForm("JSON with places such as {text}", _checked(template_of), secret=True)] = "",
        batch_rows: Annotated[int, WholeForm("answers in one request")] = 500,
        timeout_seconds: Annotated[int, WholeForm("seconds that a request may take")] = 10,
        allow_networks: Annotated[str, TextForm("networks that are not public", _checked(networks_of))] = "",
    ) -> None:
        """Post to an address; texts that cannot be are refused here."""
        try:
            for name, read, text in (
                ("url", _read_url, url),
                ("secret", _read_secret, secret),
                ("headers", _read_headers, headers),
                ("allow_networks", networks_of, allow_networks),
            ):
                setting = name
                read(text)
            setting = "body"
            self.template = template_of(body) if body else None
        except ValueError as error:
            raise SinkError(f"the {setting} of the webhook sink {error}") from None
        self.url, self.secret, self.headers, self.body = url, secret, headers, body
        self.queries, self.allow_networks = queries, allow_networks
        self.batch_rows, self.timeout_seconds = batch_rows, timeout_seconds
        self.place = f"{receiver_of(url).shown} {hashlib.sha256(url.encode()).hexdigest()[:8]}"
        self._names, self._taken = chosen_names(queries), dict[str, set[str]]()

    def __repr__(self) -> str:
        """Show it without secrets."""
        return f"WebhookSink({self.place})"

    def open(self, stream: str, memory: Progressing) -> WebhookWriter:
        """Open the writer of one stream; it knows what one before it, in this process, has posted."""
        return WebhookWriter(self, stream, memory, self._taken.setdefault(stream, set()))

    def wants(self, query: str) -> bool:
        """Tell whether answers of a query are posted."""
        return not self._names or query.lower() in self._names

    def poster(self) -> Poster:
        """Prepare to post."""
        fixed = self.template.fixed() if self.template is not None else ()
        secrets = (self.secret, target_of(self.url), *_read_headers(self.headers).values(), *fixed)
        return Poster(receiver_of(self.url), networks_of(self.allow_networks), float(self.timeout_seconds), secrets)

    def signed(self, key: str, body: bytes, now_s: int) -> Mapping[str, str]:
        """Write the headers of a request; signed as Standard Webhooks has it."""
        found = {
            "Content-Type": "application/json",
            "User-Agent": "penstock",
            "Idempotency-Key": key,
            "webhook-id": key,
            "webhook-timestamp": str(now_s),
            **_read_headers(self.headers),
        }
        if self.secret:
            told = hmac.digest(
                _read_secret(self.secret), b".".join([key.encode(), str(now_s).encode(), body]), "sha256"
            )
            found["webhook-signature"] = f"v1,{base64.b64encode(told).decode()}"
        return found


class WebhookWriter(RecordedWriter):
    """Posts one stream's answers."""

    def __init__(self, sink: WebhookSink, stream: str, memory: Progressing, taken: set[str]) -> None:
        """Go on where the last record stands; ``taken`` has the keys of the batch under way that were posted."""
        super().__init__(memory)
        self.sink, self.stream, self._taken = sink, stream, taken

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Post a batch's answers, request by request, and remember its number."""
        if number <= self._delivered:
            return
        poster = self.sink.poster()
        try:
            for answers, place in self._requests(number, tables):
                self._post(poster, answers, place)
        finally:
            poster.close()
        reached("sink.webhook.after")
        self.memory.write({"delivered": number})
        self._delivered = number
        self._taken.clear()

    def roll(self) -> None:
        """Do nothing: what is posted is there."""

    def _requests(self, number: int, tables: Sequence[pa.Table]) -> Iterator[tuple[PostedAnswers, int]]:
        """Part answers into requests of one query each; places count the answers of a query before."""
        before: dict[str, int] = {}
        for query, rows in each_query(tables):
            if not self.sink.wants(query):
                continue
            for at in range(0, rows.num_rows, self.sink.batch_rows):
                part = PostedAnswers(self.stream, number, query, rows.slice(at, self.sink.batch_rows))
                for fitting in _fitting(part):
                    yield fitting, before.get(query, 0)
                    before[query] = before.get(query, 0) + fitting.rows.num_rows

    def _post(self, poster: Poster, answers: PostedAnswers, place: int) -> None:
        """Post one request, unless this process has."""
        key = self._key(answers, place)
        if key in self._taken:
            return
        template = self.sink.template
        body = plain_body(answers, key) if template is None else template.write(answers, key)
        target = target_of(self.sink.url).replace("{query}", quote(answers.query, safe="", errors="surrogatepass"))
        reached("sink.webhook.before")
        poster.post(target, body, self.sink.signed(key, body, int(time.time())))
        self._taken.add(key)
        reached("sink.webhook.torn")

    def _key(self, answers: PostedAnswers, place: int) -> str:
        """Name a request as no other is named: whatever comes under one key holds the same answers."""
        told: list[Any] = [self.memory.owner, self.stream, answers.number, answers.query, place]
        return hashlib.sha256(json.dumps(told).encode() + answers.lines).hexdigest()[:40]


def _fitting(answers: PostedAnswers) -> Iterator[PostedAnswers]:
    """Part answers until each part fits into a request."""
    if len(answers.lines) <= MOST_BYTES or answers.rows.num_rows == 1:
        yield answers
        return
    for half in answers.halves():
        yield from _fitting(half)

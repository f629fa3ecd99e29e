"""Answers are posted signed and by query, again only under the same key, and never into a network unasked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import SinkError
from penstock.project.folder import read_project
from penstock.sinks.outlet import Outlet
from penstock.sinks.protocol import names_of
from penstock.sinks.row_values import plain_rows
from penstock.sinks.webhook.addresses import checked_addresses, may_be_reached, networks_of
from tests.project.making import TRADES, write_project
from tests.sinks.receiving import (
    Receiver,
    breaking_off,
    dripping,
    hanging_up,
    receiving,
    refusing,
    taking_and_closing,
)
from tests.sinks.remembering import Died, Remembering, answers
from tests.sinks.values import every_type

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes or so.").decode()
LOCAL = "127.0.0.0/8"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def hook(receiver: Receiver, **settings: Any) -> ps.WebhookSink:
    given: dict[str, Any] = {"allow_networks": LOCAL, "timeout_seconds": 1} | settings
    return ps.WebhookSink(receiver.url, **given)


def test_answers_come_by_query_signed_and_with_a_key(receiver: Receiver) -> None:
    writer = hook(receiver, secret=SECRET, headers="X-Team: ops\nAuthorization: Bearer t").open("s", Remembering())
    table = pa.concat_tables([answers(1), answers(2, query="p"), answers(3)])
    writer.deliver(7, [table])
    assert [(r.json["query"], r.json["rows"]) for r in receiver.taken] == [
        ("q", [{"query_name": "q", "n": 1}, {"query_name": "q", "n": 3}]),
        ("p", [{"query_name": "p", "n": 2}]),
    ]
    assert writer.delivered == 7
    assert receiver.connections == 1
    for request in receiver.taken:
        headers = request.headers
        signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), request.body])
        told = hmac.new(b"a key of thirty-two bytes or so.", signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(told).decode()}"
        assert headers["idempotency-key"] == headers["webhook-id"] == request.json["key"]
        assert (headers["x-team"], headers["authorization"]) == ("ops", "Bearer t")
        assert {"stream": "s", "number": 7}.items() <= request.json.items()


def test_values_of_every_type_arrive_as_json_has_them(receiver: Receiver) -> None:
    table = every_type()
    hook(receiver).open("s", Remembering()).deliver(0, [table])
    sent = receiver.taken[0].json["rows"]
    assert sent == json.loads(json.dumps(plain_rows(table)))
    assert sent[0]["amount"] == "12345678901234567890.123456789"
    assert [row["x"] for row in sent] == [1.5, "NaN", None]


def test_many_answers_are_parted_by_rows_and_bytes(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    hook(receiver, batch_rows=400).open("s", Remembering()).deliver(0, [answers(*range(1000))])
    assert [len(r.json["rows"]) for r in receiver.taken] == [400, 400, 200]
    assert [row["n"] for r in receiver.taken for row in r.json["rows"]] == list(range(1000))
    monkeypatch.setattr("penstock.sinks.webhook.sink.MOST_BYTES", 200)
    receiver.taken.clear()
    names = pa.array(["q"] * 5).dictionary_encode()
    long = pa.table({"query_name": names, "t": ["x" * 90, "y" * 300, "z", "a", "b"]})
    hook(receiver).open("s", Remembering()).deliver(1, [long])
    sent = [[row["t"][0] for row in r.json["rows"]] for r in receiver.taken]
    assert [t for part in sent for t in part] == ["x", "y", "z", "a", "b"]
    assert ["y"] in sent
    assert len({r.headers["idempotency-key"] for r in receiver.taken}) == len(receiver.taken)


def test_only_the_queries_that_are_asked_for_are_posted_each_to_its_path(receiver: Receiver) -> None:
    receiver.url = receiver.url.replace("T0", "{query}")
    table = pa.concat_tables([answers(1, query="a/../b?c"), answers(2, query="p"), answers(3)])
    writer = hook(receiver, queries="p, a/../b?c").open("s", Remembering())
    writer.deliver(0, [table])
    writer.deliver(1, [answers(4)])
    assert [r.path for r in receiver.taken] == ["/hooks/a%2F..%2Fb%3Fc/secret-path", "/hooks/p/secret-path"]
    assert writer.delivered == 1


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (refusing(500, "down for now"), "answered 500"),
        (refusing(404), "answered 404"),
        (refusing(302, Location="http://169.254.169.254/"), "answered 302"),
        (breaking_off, "broke its answer off"),
        (dripping(3), "did not answer within 1 s"),
    ],
    ids=["500", "404", "redirect", "cut", "slow"],
)
def test_what_was_not_answered_with_yes_comes_again_under_its_key(receiver: Receiver, act: Any, told: str) -> None:
    memory, sink = Remembering(), hook(receiver, batch_rows=1)
    receiver.acts += [refusing(200), act]
    with pytest.raises(SinkError, match=told):
        sink.open("s", memory).deliver(0, [answers(1, 2, 3)])
    assert memory.progress == {}
    sink.open("s", memory).deliver(0, [answers(1, 2, 3)])
    assert [r.json["rows"][0]["n"] for r in receiver.requests] == [1, 2, 2, 3]  # what was taken does not come again
    assert receiver.requests[1].headers["idempotency-key"] == receiver.requests[2].headers["idempotency-key"]
    assert memory.progress == {"delivered": 0}


def test_a_connection_that_ends_between_two_requests_is_made_anew(receiver: Receiver) -> None:
    receiver.acts += [taking_and_closing] * 3
    hook(receiver, batch_rows=1).open("s", Remembering()).deliver(0, [answers(1, 2, 3)])
    assert [row["n"] for row in receiver.rows()] == [1, 2, 3]


def test_a_receiver_that_hangs_up_has_not_taken_what_it_got(receiver: Receiver) -> None:
    receiver.acts += [hanging_up]
    writer = hook(receiver).open("s", Remembering())
    with pytest.raises(SinkError, match="cannot be reached"):
        writer.deliver(0, [answers(1)])
    assert writer.delivered == -1
    with pytest.raises(SinkError, match="cannot be reached: Connection refused"):
        ps.WebhookSink("http://127.0.0.1:9/", allow_networks=LOCAL).open("s", Remembering()).deliver(0, [answers(1)])


def test_a_process_that_died_posts_its_batch_again_under_the_same_keys(receiver: Receiver) -> None:
    memory = Remembering()
    memory.dies = True
    with pytest.raises(Died):
        hook(receiver, batch_rows=2).open("s", memory).deliver(0, [answers(1, 2, 3)])
    hook(receiver, batch_rows=2).open("s", memory).deliver(0, [answers(1, 2, 3)])
    keys = [r.headers["idempotency-key"] for r in receiver.taken]
    assert keys[:2] == keys[2:]
    hook(receiver, batch_rows=1).open("s", Remembering()).deliver(0, [answers(1, 2, 3)])  # cut otherwise
    assert not set(keys) & {r.headers["idempotency-key"] for r in receiver.taken[4:6]}


class Hand:
    """A clock that is set by hand."""

    now_us = 1_000_000_000

    def __call__(self) -> int:
        return self.now_us


def test_a_receiver_that_is_down_is_tried_again_when_it_asks_to(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    clock, sink = Hand(), hook(receiver, secret=SECRET, headers="Authorization: Bearer tok-123456789")
    echo = f"{SECRET} tok-123456789 secret-path"
    outlet = Outlet(names_of([sink])[0], sink, "s", Remembering(), lambda after: iter([(0, [answers(1)])]), clock)
    receiver.acts += [refusing(429, echo, Retry_After="90"), refusing(503, echo, Retry_After="nonsense")]
    with caplog.at_level(logging.INFO, "penstock"):
        outlet.attempt()
        assert outlet.failing is not None
        assert outlet.failing.next_try_us == clock.now_us + 90_000_000
        clock.now_us += 89_000_000
        outlet.attempt()
        assert len(receiver.requests) == 1
        clock.now_us += 2_000_000
        outlet.attempt()
        assert outlet.failing.next_try_us == clock.now_us + 2_000_000
        shown = f"{outlet.failing.error} {sink!r} {outlet.name} {caplog.text}"
        clock.now_us += 2_000_000
        outlet.attempt()
    assert outlet.failing is None
    assert outlet.taken == 0
    assert not [secret for secret in (SECRET, "tok-123456789", "secret-path", "T0") if secret in shown]
    assert "answered 503" in shown
    assert "answered 429" in caplog.text


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe",
     "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "ff02::1"],
)  # fmt: skip
def test_an_address_inside_a_network_is_refused(address: str) -> None:
    assert not may_be_reached(address, ())


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_is_taken(address: str) -> None:
    assert may_be_reached(address, ())


def test_a_network_that_is_allowed_is_no_other_one() -> None:
    allowed = networks_of("127.0.0.0/8, 10.1.0.0/16,")
    assert may_be_reached("10.1.2.3", allowed)
    assert may_be_reached("::ffff:10.1.2.3", allowed)
    assert not may_be_reached("10.2.0.1", allowed)
    assert not may_be_reached("::1", allowed)


def look_up_names(monkeypatch: pytest.MonkeyPatch, *turns: list[str]) -> list[str]:
    """Let every name have other addresses each time it is looked up."""
    asked: list[str] = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        found = [host]
        if host[-1].isalpha():
            asked.append(host)
            found = turns[len(asked) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_one_address_inside_refuses_a_name_that_has_public_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up_names(monkeypatch, ["8.8.8.8", "10.0.0.7"])
    with pytest.raises(SinkError, match=r'"hooks.example" is at 10.0.0.7') as caught:
        checked_addresses("hooks.example", 443, ())
    assert caught.value.hint is not None
    assert "allow_networks: 10.0.0.7" in caught.value.hint


def test_a_name_is_looked_up_once_and_its_checked_address_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is looked up once more, by whoever connects, may mean another machine by then."""
    port = receiver.url.split(":")[2].split("/")[0]
    asked = look_up_names(monkeypatch, ["127.0.0.1"], ["10.0.0.7"])
    sink = ps.WebhookSink(f"http://hooks.example:{port}/", allow_networks=LOCAL, timeout_seconds=1)
    writer = sink.open("s", Remembering())
    writer.deliver(0, [answers(1)])
    assert asked == ["hooks.example"]
    assert receiver.taken[0].headers["host"] == f"hooks.example:{port}"
    with pytest.raises(SinkError, match=r"at 10.0.0.7, inside a network"):
        writer.deliver(1, [answers(2)])
    assert len(receiver.requests) == 1


def test_this_machine_is_not_reached_unless_it_is_allowed(receiver: Receiver) -> None:
    writer = ps.WebhookSink(receiver.url).open("s", Remembering())
    with pytest.raises(SinkError, match=r'"127.0.0.1" is at 127.0.0.1, inside a network'):
        writer.deliver(0, [answers(1)])
    assert receiver.requests == []


# -- bodies ------------------------------------------------------------------------------------------------------------


def test_a_body_of_ones_own_holds_whatever_answers_say(receiver: Receiver) -> None:
    names = pa.array(['<!channel> "} {rows}'] * 2).dictionary_encode()
    table = pa.table({"query_name": names, "symbol": ["A&B", '"}, {"x": 1'], "n": [1, 2]})
    body = '{"text": "*{query}*: {html}", "subject": "{count} of {query}", "rows": "{rows}", "deep": [{"k": "{key}"}]}'
    hook(receiver, body=body).open("s", Remembering()).deliver(0, [table])
    sent = receiver.taken[0].json
    assert sent["subject"] == '2 of <!channel> "} {rows}'
    assert sent["text"].endswith('symbol=A&amp;B n=1\n–   symbol="\\"}, {\\"x\\": 1" n=2')
    assert [row["n"] for row in sent["rows"]] == [1, 2]
    assert sent["deep"] == [{"k": receiver.taken[0].headers["webhook-id"]}]


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("url", "ftp://example.com/", "must be an address such as https"),
        ("url", "https://name:pass-word@example.com/", "must have no name and password"),
        ("url", "https://example.com:99999/secret", "has no usable host or port"),
        ("url", "https://{query}.example.com/", "has a place other than"),
        ("secret", "whsec_???", "is not Base64"),
        ("headers", "Host: elsewhere", "cannot have Host"),
        ("headers", "no colon", "must be lines such as"),
        ("body", '{"text": {text}}', "must be JSON"),
        ("body", '{"text": "{txt}"}', "has no place {txt}; places: {query}"),
        ("allow_networks", "10.0.0.1/8", 'has no network or address in "10.0.0.1/8"'),
        ("allow_networks", "localhost", "has no network or address"),
    ],
)
def test_a_setting_that_cannot_be_is_told_with_its_line_and_without_secrets(
    setting: str, value: str, told: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"url": "https://example.com/", setting: value}
    lines = "".join(f"\n      {name}: '{text}'" for name, text in given.items())
    (problem,) = read_project(write_project(tmp_path, f"{TRADES}\nsinks:\n  - webhook:{lines}\n")).problems
    assert f"the {setting} of the webhook sink {told}" in str(problem).split("\n")[0]
    with pytest.raises(SinkError, match=f"the {setting} of the webhook sink"):
        ps.WebhookSink(**given)
    assert "pass-word" not in str(problem).split("\n")[0]


def test_secrets_come_from_the_environment_and_are_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "https://hooks.example/T0/B0/hidden-path")
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    text = "\nsinks:\n  - webhook: {url: '${HOOK}', secret: '${HOOK_SECRET}', queries: spikes}\n"
    project = read_project(write_project(tmp_path, TRADES + text))
    assert project.problems == ()
    (declared,) = project.settings.sinks
    sink = declared.make()
    shown = f"{declared.shown()} {sink!r} {names_of([sink])}"
    assert "hidden-path" not in shown
    assert SECRET not in shown
    assert "https://hooks.example" in shown

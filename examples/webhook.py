"""Alerts as messages: a webhook sink posts them in the form that Slack takes, signed, to a receiver on this machine."""

import base64
import hashlib
import hmac
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import penstock as ps

SECRET = "whsec_" + base64.b64encode(b"in a project: ${ALERTS_SECRET}").decode()
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
MESSAGE = (
    '{"text": "*{query}* ({count})\\n{html}"}'  # for e-mail: {"To": "…", "Subject": "{query}", "TextBody": "{text}"}
)
SCRIPT = """
    CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{path}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
    CREATE QUERY huge AS SELECT symbol, volume FROM trades WHERE volume > 150000;
    CREATE QUERY busy AS
        SELECT symbol, count(*) AS n FROM trades [RANGE 10 MIN SLIDE 10 MIN] GROUP BY symbol HAVING n > 4000;
"""


taken: dict[str, str] = {}  # by key: one that comes again is there


class Receiver(BaseHTTPRequestHandler):
    """What a receiver does: it checks the signature, and keeps what has a new key."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        told = hmac.digest(KEY, f"{key}.{at}.".encode() + body, hashlib.sha256)
        genuine = hmac.compare_digest(self.headers["webhook-signature"], f"v1,{base64.b64encode(told).decode()}")
        if genuine:
            taken.setdefault(key, json.loads(body)["text"])
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
hook = ps.WebhookSink(
    f"http://127.0.0.1:{server.server_port}/services/T0/B0",
    queries="huge, busy",
    secret=SECRET,
    body=MESSAGE,
    allow_networks="127.0.0.1",  # of a network that is not public, nothing is reached unless it is allowed
)
with tempfile.TemporaryDirectory() as folder, ps.Engine(sinks=[hook]) as engine:
    ps.write_trades(engine.session, ps.Market(rows=40_000, symbols=4, rate=20.0), folder, files=1)
    engine.execute(SCRIPT.format(path=folder))
    engine.process_available(flush=True)
for text in sorted(taken.values()):
    print(*text.splitlines()[:3], sep="\n")
server.shutdown()
server.server_close()

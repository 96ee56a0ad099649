"""A small HTTP server for one page and its data: for this machine, behind a token, gone when closed."""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from time import monotonic, thread_time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sapwood.errors import ValueRangeError
from sapwood.viz.live.page import page
from sapwood.viz.live.record import Record

__all__ = ["Server"]

# A request for news is answered after so many seconds at the latest, so that dead connections are noticed.
PATIENCE = 15.0
# A page that has asked within so many seconds is still open, and is told that the run has ended.
PRESENT = 3.0
CONNECTIONS = 32
NOTHING = "default-src 'none'"


class Server(socketserver.ThreadingTCPServer):
    """Serves a Record on 127.0.0.1.

    Args:
        port: 0 for any that is free.
        spent: called with the seconds of processor time that a request took.

    Raises:
        ValueRangeError: the port cannot be had.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, record: Record, port: int, spent: Callable[[float], None]) -> None:
        self.record, self.spent = record, spent
        self.token = secrets.token_urlsafe(24)
        self.asked, self.told_of_end, self._stopping = 0.0, False, False
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as problem:
            raise ValueRangeError(
                f"watch: port {port} cannot be had ({problem}); give another, or 0 for any that is free"
            ) from problem
        self.port = int(self.server_address[1])
        self.hosts = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        self.url = f"http://127.0.0.1:{self.port}/{self.token}/"
        self._workers: set[threading.Thread] = set()
        name = "sapwood-watch-server"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, which `close` waits for."""
        with self._guard:
            full = self._stopping or len(self._open) >= CONNECTIONS
            if not full:
                self._open.add(request)
        if full:
            self.shutdown_request(request)
            return
        worker = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="sapwood-watch-answer", daemon=True
        )
        with self._guard:
            self._workers = {w for w in self._workers if w.is_alive()}
            try:
                # Inside, so that nobody finds it before it runs.
                worker.start()
                self._workers.add(worker)
                return
            except RuntimeError:
                # Python 3.12 and later start no threads when the program ends, but a page may want to hear of that.
                pass
        self.process_request_thread(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away in the middle of an answer is no news to the program that trains."""

    def own_threads(self) -> set[threading.Thread]:
        with self._guard:
            return {self._thread, *self._workers}

    def _serve(self) -> None:
        """Take connections until told to stop; between them this thread sleeps and disturbs nobody."""
        while not self._stopping:
            self.handle_request()

    def _stop(self) -> None:
        """End the serving thread, which notices at the next connection."""
        self._stopping = True
        while self._thread.is_alive():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                self._thread.join(0.1)

    def close(self) -> None:
        """Let pages that are open hear of the end, then free the port and wait for the threads."""
        if threading.current_thread() not in self.own_threads():
            with self.record.changed:
                self.record.changed.wait_for(
                    lambda: self.told_of_end or monotonic() - self.asked > PRESENT, timeout=1.0
                )
            self._stop()
        self.server_close()
        with self._guard:
            connections = list(self._open)
        for connection in connections:
            # Wakes a thread that waits for a request that never comes.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread in self.own_threads() - {threading.current_thread()}:
            thread.join(2.0)


class Handler(BaseHTTPRequestHandler):
    """Answers GET for the page and for its data; anything without token and right host is refused."""

    server: Server
    timeout = 5.0
    server_version, sys_version = "sapwood", ""

    def do_GET(self) -> None:
        begin = thread_time()
        try:
            self._answer()
        finally:
            self.server.spent(thread_time() - begin)

    def _answer(self) -> None:
        # A page elsewhere that has its name point to this machine sends its own name here.
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            return self._send(403, b"refused: wrong host\n")
        where = urlsplit(self.path)
        parts = where.path.split("/")
        token = parts[1] if len(parts) > 1 and not parts[0] else ""
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return self._send(403, b"refused: wrong token\n")
        rest = "/".join(parts[2:])
        if rest == "" and len(parts) > 2:
            text, policy = page()
            return self._send(200, text.encode(), "text/html; charset=utf-8", policy)
        if rest != "data":
            return self._send(404, b"not found\n")
        query = parse_qs(where.query)
        since = query.get("since", ["0"])[0]
        if not (since.isascii() and since.isdigit() and len(since) < 16):
            return self._send(400, b"since: a number was expected\n")
        return self._news(int(since))

    def _news(self, since: int) -> None:
        record, server = self.server.record, self.server
        server.asked = monotonic()
        record.wait(since, PATIENCE)
        news = record.since(since)
        # Again: a page that waited long without news is present all the same.
        server.asked = monotonic()
        text = json.dumps(news, allow_nan=False, separators=(",", ":"))
        self._send(200, text.encode(), "application/json")
        if news["ended"] is not None:
            with record.changed:
                server.told_of_end = True
                record.changed.notify_all()

    def _send(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8", policy: str = NOTHING) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", policy),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing to the terminal of the program that trains."""

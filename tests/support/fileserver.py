"""A web server of files on this machine that can be told to go wrong."""

import contextlib
import hashlib
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answered:
    """One request: path, its Range header, the status, and the bytes of the body that were sent."""

    path: str
    range: str | None
    status: int = 0
    sent: int = 0


@dataclass
class Files:
    """What is served (path -> bytes), and per path the faults of the next answers, first to last.

    A fault is a status (500), ``("cut", n)``: n bytes of the body and the connection is closed, ``("drip", n, pause)``:
    the same, but then silence for ``pause`` seconds, ``("slow", pause)``: a byte each pause, ``("sleep", pause)``:
    silence before the answer, ``("go", address)``: a redirect, ``"plain"``: Range ignored, ``"shifted"``: another range
    than asked for, ``"unsized"``: no length, ``"chunked"`` and ``("chopped", n)``: in chunks, the latter
    without their end, ``"good"``.
    """

    served: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list] = field(default_factory=dict)
    validators: bool = True
    heed_if_range: bool = True
    log: list[Answered] = field(default_factory=list)
    address: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def tag(self, path):
        return f'"{hashlib.md5(self.served[path]).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Files

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ssl.SSLError):
            super().handle()

    def do_GET(self):
        with contextlib.suppress(ConnectionError):
            self._answer()
        self.close_connection = True

    def _answer(self):
        files, path = self.files, self.path
        answered = Answered(path, self.headers["Range"])
        files.log.append(answered)
        faults = files.faults.get(path, [])
        fault = faults.pop(0) if faults else "good"
        kind = fault[0] if isinstance(fault, tuple) else fault
        if kind == "sleep":
            files.stop.wait(fault[1])
        if isinstance(fault, int) or path not in files.served:
            return self._head(answered, fault if isinstance(fault, int) else 404, {"Content-Length": "0"})
        if kind == "go":
            return self._head(answered, 302, {"Location": fault[1], "Content-Length": "0"})
        body, first, headers = files.served[path], 0, {}
        if files.validators:
            headers["ETag"] = files.tag(path)
        asked = answered.range
        if asked and self.headers["If-Range"] not in (None, headers.get("ETag")) and files.heed_if_range:
            asked = None
        status = 200
        if asked and kind != "plain":
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                return self._head(answered, 416, {"Content-Length": "0", "Content-Range": f"bytes */{len(body)}"})
            first -= 1 if kind == "shifted" else 0
            headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            status = 206
        if kind in ("chunked", "chopped"):
            headers["Transfer-Encoding"] = "chunked"
        elif kind != "unsized":
            headers["Content-Length"] = str(len(body) - first)
        self._head(answered, status, headers)
        last = first + fault[1] if kind in ("cut", "drip") else len(body)
        if kind == "slow":
            for at in range(first, len(body)):
                self._send(answered, body[at : at + 1])
                if files.stop.wait(fault[1]):
                    return None
        if kind in ("chunked", "chopped"):
            last = fault[1] if kind == "chopped" else len(body)
            for at in range(first, last, 65536):
                piece = body[at : min(at + 65536, last)]
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n" if kind == "chunked" else b"ffff\r\nabc")
            return None
        self._send(answered, body[first:last])
        if kind == "drip":
            files.stop.wait(fault[2])
        return None

    def _head(self, answered, status, headers):
        answered.status = status
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, answered, data):
        self.wfile.write(data)
        self.wfile.flush()
        answered.sent += len(data)


@contextlib.contextmanager
def serving(certificate=None):
    """Yield `Files` that are served at ``files.address`` until the end of the block; with a certificate over https."""
    files = Files()
    handler = type("Handler", (_Handler,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    files.address = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        files.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


def until(condition, seconds=20.0):
    """Wait until ``condition()`` holds; say so if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)

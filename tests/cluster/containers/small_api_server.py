"""A small server that speaks the few paths of the Kubernetes API that the provider uses, over real HTTP.

Not Kubernetes: it keeps objects, checks RayClusters against KubeRay's schema, and runs commands of `exec` on this
machine. Tests that need no pod run against a real kube-apiserver, too, where there is one.

    python small_api_server.py [--schema FILE] [--without-kuberay]      prints its port
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import itertools
import json
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KINDS = {
    ("/api/v1", "pods"): "Pod",
    ("/api/v1", "secrets"): "Secret",
    ("/apis/networking.k8s.io/v1", "networkpolicies"): "NetworkPolicy",
    ("/apis/ray.io/v1", "rayclusters"): "RayCluster",
}
PATH = re.compile(r"(/api/v1|/apis/[^/]+/v1)/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?")
TOKENS = {"Bearer admin": "admin", "Bearer nobody": "nobody"}
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

store: dict[tuple[str, str, str], dict[str, Any]] = {}
lock = threading.RLock()
numbers = itertools.count(1)
validator: Any = None


class RefusedError(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message,
            "code": code,
        }


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), value)
    return found


def selected(document: dict[str, Any], selector: str) -> bool:
    labels = document["metadata"].get("labels", {})
    return all(
        labels.get(name) == value for name, _, value in (part.partition("=") for part in selector.split(","))
    )


def check(kind: str, document: dict[str, Any]) -> None:
    if kind == "RayCluster" and validator is not None:
        problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
        if problems:
            raise RefusedError(422, "Invalid", "; ".join(problems))


def fresh(kind: str, namespace: str, document: dict[str, Any]) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = {
        "namespace": namespace,
        "creationTimestamp": now,
        "uid": f"u{next(numbers)}",
        "resourceVersion": "1",
    }
    waiting = {"status": {"phase": "Pending"}} if kind == "Pod" else {}
    return {**document, **waiting, "kind": kind, "metadata": {**document["metadata"], **made}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names that http.server looks for

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            user = TOKENS.get(self.headers.get("Authorization", ""))
            if user is None:
                raise RefusedError(401, "Unauthorized", "Unauthorized")
            match = PATH.fullmatch(url.path)
            kind = KINDS.get((match[1], match[3])) if match else None
            if match is None or kind is None:
                return self.send(404, b"404 page not found\n", "text/plain")
            if user != "admin":
                what = f"{match[3]} is forbidden: User {user!r} cannot do that in the namespace {match[2]!r}"
                raise RefusedError(403, "Forbidden", what)
            if match[5] in ("exec", "portforward"):
                return self.stream(match[5], parse_qs(url.query))
            with lock:
                found = self.act(kind, match, query, body)
            return self.send(200, json.dumps(found).encode(), "application/json")
        except RefusedError as error:
            return self.send(error.status["code"], json.dumps(error.status).encode(), "application/json")

    def act(self, kind: str, match: re.Match[str], query: dict[str, str], body: Any) -> dict[str, Any]:
        namespace, name = match[2], match[4]
        if name is None and self.command == "POST":
            key = (kind, namespace, body["metadata"]["name"])
            check(kind, body)
            if key in store:
                raise RefusedError(409, "AlreadyExists", f'{match[3]} "{key[2]}" already exists')
            store[key] = fresh(kind, namespace, body)
            return store[key]
        if name is None:
            chosen = [
                key
                for key, each in store.items()
                if key[:2] == (kind, namespace)
                and ("labelSelector" not in query or selected(each, query["labelSelector"]))
            ]
            items = [store.pop(key) if self.command == "DELETE" else store[key] for key in chosen]
            return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": items}
        key = (kind, namespace, name)
        if key not in store:
            raise RefusedError(404, "NotFound", f'{match[3]} "{name}" not found')
        if self.command == "DELETE":
            return store.pop(key)
        if self.command == "PATCH":
            changed = merge(store[key], body)
            check(kind, changed)
            store[key] = changed
        return store[key]

    def send(self, code: int, data: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, how: str, query: dict[str, list[str]]) -> None:
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest())
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept.decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        self.wfile.flush()
        self.sending = threading.Lock()
        if how == "exec":
            self.execute(query["command"], query.get("stdin") == ["True"] or query.get("stdin") == ["true"])
        else:
            self.forward(int(query["ports"][0]))
        self.close_connection = True

    def execute(self, command: list[str], stdin: bool) -> None:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        pumps = [
            threading.Thread(target=self.copy, args=(channel, pipe))
            for channel, pipe in ((1, process.stdout), (2, process.stderr))
        ]
        for pump in pumps:
            pump.start()
        if stdin:
            threading.Thread(target=self.feed, args=(process,), daemon=True).start()
        for pump in pumps:
            pump.join()
        code = process.wait()
        status: dict[str, Any] = {"status": "Success"}
        if code:
            causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": causes}
        self.frame(3, json.dumps(status).encode())
        with contextlib.suppress(OSError):
            self.connection.sendall(b"\x88\x02\x03\xe8")

    def copy(self, channel: int, pipe: Any) -> None:
        while data := pipe.read1(1 << 16):
            self.frame(channel, data)

    def feed(self, process: subprocess.Popen[bytes]) -> None:
        """What comes is handed on; the stream has no way to say that there is no more."""
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (message := self.receive()) is not None:
                process.stdin.write(message[1:])
                process.stdin.flush()

    def forward(self, port: int) -> None:
        self.frame(0, port.to_bytes(2, "little"))
        self.frame(1, port.to_bytes(2, "little"))
        target = socket.create_connection(("127.0.0.1", port), 5)
        target.settimeout(None)

        def back() -> None:
            with contextlib.suppress(OSError):
                while data := target.recv(1 << 16):
                    self.frame(0, data)
            with contextlib.suppress(OSError):
                self.connection.sendall(b"\x88\x02\x03\xe8")

        threading.Thread(target=back, daemon=True).start()
        with contextlib.suppress(OSError):
            while (message := self.receive()) is not None:
                if message[0] == 0:
                    target.sendall(message[1:])
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        target.close()

    def frame(self, channel: int, data: bytes) -> None:
        data = bytes([channel]) + data
        size = len(data)
        if size < 126:
            head = bytes([size])
        else:
            head = b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big")
        with self.sending, contextlib.suppress(OSError):
            self.connection.sendall(b"\x82" + head + data)

    def receive(self) -> bytes | None:
        """The next message, or None when the other side has closed."""
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return None
            size = head[1] & 127
            if size > 125:
                size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
            mask, data = self.rfile.read(4), self.rfile.read(size)
            data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
            if head[0] & 15 == 8:
                return None
            if head[0] & 15 in (1, 2) and data:
                return data


def main() -> None:
    global validator
    if "--without-kuberay" in sys.argv:
        del KINDS[("/apis/ray.io/v1", "rayclusters")]
    if "--schema" in sys.argv:
        import jsonschema

        with open(sys.argv[sys.argv.index("--schema") + 1], encoding="utf-8") as file:
            validator = jsonschema.Draft7Validator(json.load(file))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

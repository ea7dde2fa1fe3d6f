"""A service in this process, and a plain client for it."""

import asyncio
import http.client
import io
import json
import socket
from contextlib import contextmanager
from types import SimpleNamespace

from tdlg.serve.http import Limits
from tdlg.serve.service import Service
from tdlg.serve.worker import Worker

JSON = "application/json"


def event(id, src="ann", dst="shop", time="2025-01-01T00:00:00", **more):
    return {"id": id, "src": src, "dst": dst, "time": time, **more}


def alert(id, **more):
    """An event that the stand-in for the live model makes an alert of."""
    return event(id, **{"amount": 900, **more})


def arrow(frame, **options):
    file = io.BytesIO()
    frame.write_ipc_stream(file, **options)
    return file.getvalue()


class Client:
    """Sends requests over one connection, as programs do."""

    def __init__(self, service, timeout=20, **headers):
        host, _, port = service.url.removeprefix("http://").rstrip("/").rpartition(":")
        self.host = f"{host}:{port}"
        self.connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        self.headers = headers

    def __call__(self, method, path, body=None, media=None, **headers):
        if isinstance(body, dict | list):
            body, media = json.dumps(body).encode(), media or JSON
        given = {name.replace("_", "-"): value for name, value in {**self.headers, **headers}.items()}
        if media:
            given["content-type"] = media
        self.connection.request(method, path, body, given)
        answer = self.connection.getresponse()
        content = answer.read()
        is_json = (answer.headers["content-type"] or "").startswith(JSON)
        return SimpleNamespace(
            status=answer.status,
            headers=answer.headers,
            body=content,
            json=json.loads(content) if is_json and content else None,
        )

    def get(self, path, **headers):
        return self("GET", path, **headers)

    def post(self, path, body, media=None, **headers):
        return self("POST", path, body, media, **headers)

    def close(self):
        self.connection.close()


def opened(client, start):
    """A connection over which the start of a request was sent."""
    line = socket.create_connection(client.host.split(":"), timeout=20)
    line.sendall(start)
    return line


@contextmanager
def serving(live, **options):
    """A client of a running service."""
    options.setdefault("apart", False)
    with Service(live, port=0, **options) as service:
        client = Client(service)
        client.service = service
        try:
            yield client
        finally:
            client.close()


def working(live, test, **limits):
    """Run a test, a coroutine function of a worker, and stop the worker."""

    async def run():
        sizes = []
        worker = Worker(live, Limits(**limits), sizes.append)
        worker.sizes = sizes
        worker.start()
        try:
            return await test(worker)
        finally:
            await worker.stop()

    return asyncio.run(run())

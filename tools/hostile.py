"""Attack a service with hostile requests and slow clients.

``python tools/hostile.py COLLECTION`` serves a copy of a collection and sends it random requests.
The generator reads nothing but the OpenAPI document of the service, so it does not depend on what
the code expects. It varies methods, paths, headers, bodies, encodings and sizes, and breaks the
rules of HTTP. Then honest clients search while slow ones attack. The service must answer each
complete request, and close the connection of an incomplete one, within 5 seconds, without a status
of 500 or more, in constant memory.

The limits of the service are its defaults. Clients have different addresses, all of this machine,
which requires Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).parent.parent
HANG_SECONDS = 5.0
GIVE_UP_SECONDS = 60.0
PARALLEL = 8
"""Hostile requests in progress at once."""

TOKEN = "a token for the hostile requests"
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW"]
STRINGS = [
    *("", " ", "\0", "a", "'", '"', "\\", "%", "%00", "\r\n\r\n", "\u202e", "\ufeff", "\ud83d"),
    *("../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "C:\\boot.ini", "file:///etc/passwd"),
    *("' or 1=1 --", "; drop table items", "{{7*7}}", "${jndi:ldap://x}", "<script>alert(1)"),
    *("a" * 999, "a" * 1001, "é" * 2000, "💥" * 300, "9" * 5000, "1e999", "nan", "-0", "null"),
    *("not " * 99 + "key='a'", "not (" * 30 + "key='a'" + ")" * 30, "(" * 5000, "key = 'a" * 50),
    *("a = " + "9" * 900, " or ".join(["text != 'a'"] * 60), "text > '' and " * 60 + "key = 'a'"),
    *("path >= 'a'", "'x' in labels", "labels = 'x'", "key in labels", "a = 1 or", "text = true"),
]
NUMBERS = [0, -1, 1, 100, 101, 2**31, 2**53 + 1, 2**63, 10**30, 1.5, 1e308, -1e308]
OTHERS = [None, True, False, [], {}, [[]], {"a": {"b": {}}}, [None], {"": ""}]
HEADERS = [
    ("Host", ["evil.example", "evil.example@127.0.0.1", "127.0.0.1:x", "", "[::1", "a" * 9000]),
    ("Content-Type", ["text/html", "application/json; charset=utf-16", "multipart/form-data", ""]),
    ("Content-Encoding", ["gzip", "br", "x"]),
    ("Transfer-Encoding", ["chunked", "gzip, chunked", "identity", "x"]),
    ("Content-Length", ["0", "-1", "1e3", "99999999999999999999", "5, 5", "+5", "0x10", "٣"]),
    ("Connection", ["close", "upgrade", "keep-alive, upgrade"]),
    ("Upgrade", ["websocket", "h2c"]),
    ("Expect", ["100-continue", "x"]),
    ("Authorization", ["Bearer ", "Bearer \xff", "Basic YTpi", "Bearer " + "x" * 5000]),
    ("X-Forwarded-For", ["127.0.0.1", "evil", ", , ,", "1.1.1.1, " * 500]),
    ("X-Request-ID", ["x" * 300, "a\tb", "é"]),
    ("If-None-Match", ["*", '"' * 999, "W/"]),
    ("Range", ["bytes=0-", "bytes=-1", "bytes=9-1", "x"]),
    ("Cookie", ["a=" + "b" * 8000]),
    ("X-Many", ["x"] * 40),
    ("Bad Name", ["x"]),
    ("X-Folded", ["a\r\n b"]),
]


LONG_HEAD = 60_000
"""Bytes of a request line and headers that a service may refuse to read."""

FRAMING = ("Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Bad Name", "Expect")
"""Headers that can change where a request ends, or whether it is one."""


@dataclass(frozen=True)
class Operation:
    """A method and path of the OpenAPI document, with its parameters and request bodies."""

    method: str
    path: str
    parameters: list[dict]
    bodies: dict[str, dict]


class Generator:
    """Random requests, as bytes, for the operations of an OpenAPI document."""

    def __init__(self, document: dict, seed: int = 0) -> None:
        self.document = document
        self.random = random.Random(seed)
        self.operations = [
            Operation(
                method.upper(),
                path,
                operation.get("parameters", []),
                operation.get("requestBody", {}).get("content", {}),
            )
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]

    def request(self, host: str) -> tuple[bytes, bool]:
        """Return one request, and whether it is complete, so that it must be answered."""
        rng, complete = self.random, True
        operation = rng.choice(self.operations)
        method = operation.method if rng.random() < 0.85 else rng.choice(METHODS)
        kind, body = self.body(operation)
        headers = [("Host", host)]
        if rng.random() < 0.6:
            headers.append(("Authorization", f"Bearer {TOKEN}"))
        if body:
            headers += [("Content-Type", kind), ("Content-Length", str(len(body)))]
        for _ in range(rng.choice([0, 0, 0, 1, 1, 3])):
            name, values = rng.choice(HEADERS)
            if rng.random() < 0.7:  # else it is given twice
                headers = [one for one in headers if one[0] != name]
            headers += [(name, value) for value in (values if name == "X-Many" else [""])]
            headers[-1] = name, rng.choice(values)
            complete = complete and name not in FRAMING
        if body and rng.random() < 0.15:
            headers = [one for one in headers if one[0] != "Content-Length"]
            headers.append(("Transfer-Encoding", "chunked"))
            body, complete = self.chunked(body), False
        version = rng.choice(["HTTP/1.1"] * 30 + ["HTTP/1.0", "HTTP/2.0", "HTTP/9", "x"])
        lines = [f"{method} {self.target(operation)} {version}"]
        lines += [f"{name}: {value}" for name, value in headers]
        raw = "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body
        damaged = self.damaged(raw)
        is_short = len(raw) - len(body) < LONG_HEAD
        return damaged, complete and damaged == raw and is_short

    def target(self, operation: Operation) -> str:
        """Return a path with its parameters."""
        rng, path, query = self.random, operation.path, []
        for parameter in operation.parameters:
            value = self.value(parameter.get("schema", {}))
            for one in value if isinstance(value, list) else [value]:
                text = _quoted(one)
                if parameter["in"] == "path":
                    path = path.replace(f"{{{parameter['name']}}}", text or "x")
                elif parameter["in"] == "query" and rng.random() < 0.7:
                    query.append(f"{parameter['name']}={text}")
        if rng.random() < 0.1:
            query += [f"{_quoted(rng.choice(STRINGS))}={_quoted(rng.choice(STRINGS))}"] * 3
        if rng.random() < 0.08:
            wrong = ["//", "/../", "/%2e%2e/", "/.", "*", "http://evil.example/", "/" + "a" * 3000]
            path = rng.choice([path + rng.choice(wrong), rng.choice(wrong), path.upper()])
        return path + ("?" + "&".join(query) if query else "")

    def body(self, operation: Operation) -> tuple[str, bytes]:
        """Return a media type and a body, in a random encoding."""
        rng = self.random
        if not operation.bodies:
            return "text/plain", rng.choice([b"", b"", b"", b"x" * rng.randrange(100_000)])
        kind = rng.choice(list(operation.bodies))
        schema = operation.bodies[kind].get("schema", {})
        if not kind.endswith("json"):
            return kind, self.image()
        value = self.value(schema)
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
        content = text.encode(rng.choice(["utf-8"] * 9 + ["utf-16"]), "surrogatepass")
        deep = rng.choice([1000, 30_000])
        odd = [
            b"",
            b"[" * deep,
            b'{"a":' * deep + b"1" + b"}" * deep,
            content[: rng.randrange(len(content) + 1)],
            content + content,
            b'{"text": ' + b"1" * 10_000 + b"}",
            content.replace(b"{", b'{"text": "twice", ', 1),
            gzip.compress(b" " * 1_000_000),
            rng.randbytes(rng.randrange(2000)),
            b" " * rng.choice([10_000, 70_000, 40_000_000 if rng.random() < 0.02 else 100_000]),
            content.replace(b"e", b"\xff", 1),
            b'{"k": NaN, "text": Infinity}',
        ]
        return kind, content if rng.random() < 0.7 else rng.choice(odd)

    def image(self) -> bytes:
        """Return a small image, or something that is not one."""
        rng = self.random
        data = bytearray(PNG)
        for _ in range(rng.choice([0, 1, 9])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        others = [b"", b"GIF89a", b"<svg onload=alert(1)>", rng.randbytes(5000), b"\xff\xd8" * 99]
        return bytes(data) if rng.random() < 0.6 else rng.choice(others)

    def value(self, schema: dict, depth: int = 0) -> object:
        """Return a value that matches a schema, or that does not."""
        rng = self.random
        if depth > 8 or rng.random() < 0.08:
            return rng.choice([*STRINGS, *NUMBERS, *OTHERS])
        while "$ref" in schema:
            target: dict = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            schema = target
        for name in ("anyOf", "oneOf", "allOf"):
            if name in schema:
                return self.value(rng.choice(schema[name]), depth + 1)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if schema.get("examples") and rng.random() < 0.4:
            return rng.choice(schema["examples"])
        kind = schema.get("type")
        if kind == "object":
            named = schema.get("properties", {})
            needed = schema.get("required", [])
            given = {
                name: self.value(one, depth + 1)
                for name, one in named.items()
                if name in needed or rng.random() < 0.5
            }
            further = schema.get("additionalProperties")
            for _ in range(rng.choice([0, 1, 60]) if isinstance(further, dict) else 0):
                given[f"f{rng.randrange(99)}"] = self.value(further, depth + 1)
            if rng.random() < 0.1:
                given[rng.choice(STRINGS)] = rng.choice(OTHERS)
            return given
        if kind == "array":
            length = rng.choice([0, 1, 2, schema.get("maxItems", 3), schema.get("maxItems", 3) + 1])
            items = schema.get("items", {})
            some = [self.value(items, depth + 1) for _ in range(min(length, 3))]
            return some + some[-1:] * (length - 3)
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", 0), schema.get("maximum", 1000)
            return rng.choice(
                [low, high, low - 1, high + 1, rng.choice(NUMBERS), (low + high) // 2]
            )
        if kind == "boolean":
            return rng.random() < 0.5
        longest = schema.get("maxLength", 100)
        text = rng.choice(["boat", "sea", "a", base64.b64encode(PNG).decode(), "3fa207"])
        return rng.choice([text, text, rng.choice(STRINGS), "x" * longest, "x" * (longest + 1)])

    def chunked(self, body: bytes) -> bytes:
        """Return a body in chunks, some of them malformed."""
        rng, size = self.random, self.random.choice([1, 100, 65536])
        if size == 1:
            body = body[:500]
        parts = [body[start : start + size] for start in range(0, len(body), size)]
        chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        end = [b"0\r\n\r\n"] * 9 + [
            b"",
            b"-1\r\n\r\n",
            b"fffffffffffffffff\r\n",
            b"0\r\nX: y\r\n\r\n",
        ]
        return b"".join(chunks) + rng.choice(end)

    def damaged(self, raw: bytes) -> bytes:
        """Return a request as it is, or with damage to its bytes, or several of them at once."""
        rng, chance = self.random, self.random.random()
        if chance > 0.12:
            return raw
        if chance > 0.09:
            return raw * 3  # pipelined
        if chance > 0.06:
            return raw[: rng.randrange(len(raw))]
        if chance > 0.03:
            data = bytearray(raw)
            for _ in range(5):
                data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data)
        return rng.choice([rng.randbytes(500), b"\x16\x03\x01" + rng.randbytes(200), b"\r\n" * 500])


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return quote(text[:3000].encode("utf-8", "surrogatepass"), safe="/'")


@dataclass
class Report:
    """What a service answered: how often each status, and the requests that went wrong."""

    statuses: Counter = field(default_factory=Counter)
    failures: list[tuple[str, bytes]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, raw: bytes, complete: bool, answer: bytes, seconds: float) -> None:
        """Count the answer to one request."""
        found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
        status = int(found[1]) if found else 0
        self.statuses[status or "closed"] += 1
        self.seconds.append(seconds)
        if any(int(one) >= 500 for one in re.findall(rb"^HTTP/1\.1 (\d{3})", answer, re.M)):
            self.failures.append(("server error", raw))
        if complete and not found:
            self.failures.append(("no answer", raw))
        if seconds > HANG_SECONDS:
            self.failures.append((f"{seconds:.1f} s", raw))


async def exchange(
    host: str, port: int, raw: bytes, complete: bool, address: str
) -> tuple[bytes, float]:
    """Send a request from an address, and return the answer and the seconds until it was there.

    After an incomplete request the client ends its side of the connection, so that the service has
    no reason to wait for more.
    """
    answer, began = b"", time.monotonic()
    reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(GIVE_UP_SECONDS):
            sending = asyncio.create_task(_send(writer, raw, ends=not complete))
            while not is_answer(answer, raw) and (part := await reader.read(1 << 16)):
                answer += part
            sending.cancel()
    writer.transport.abort()
    return answer, time.monotonic() - began


async def _send(writer: asyncio.StreamWriter, raw: bytes, ends: bool) -> None:
    with suppress(OSError):
        writer.write(raw)
        await writer.drain()
        if ends:
            writer.write_eof()


def is_answer(answer: bytes, request: bytes) -> bool:
    """Whether an answer is complete."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100"):
        return is_answer(body, request)
    if not found or request.startswith(b"HEAD "):
        return bool(found)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    chunked = re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head)
    return body.endswith(b"0\r\n\r\n") if chunked else len(body) >= int(length[1] if length else 0)


async def attack(url: str, n: int, seed: int = 0, memory: Callable[[], object] = int) -> Report:
    """Send ``n`` hostile requests, a few at a time; call ``memory`` a hundred times on the way."""
    with urllib.request.urlopen(f"{url}/api/v1/openapi.json") as answer:
        generator = Generator(json.load(answer), seed)
    where, report = urlsplit(url), Report()
    server = str(where.hostname), int(where.port or 80)
    for start in range(0, n, PARALLEL):
        # No time is measured while requests are generated, which can take long.
        numbers = range(start, min(start + PARALLEL, n))
        requests = [generator.request(where.netloc) for _ in numbers]
        sent = [
            exchange(*server, *request, f"127.1.1.{1 + number % 250}")
            for number, request in zip(numbers, requests, strict=True)
        ]
        for request, answer in zip(requests, await asyncio.gather(*sent), strict=True):
            report.add(*request, *answer)
        if start % max(PARALLEL, n // 100) < PARALLEL:
            memory()
    return report


async def slow_client(host: str, port: int, path: str, number: int, address: str) -> None:
    """Attack for ever: stall in the headers or in the body, trickle, or do not read the answers."""
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(
                host, port, limit=1024, local_addr=(address, 0)
            )
            try:
                await _stall(reader, writer, head, number % 5, f"{host}:{port}")
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.05)


async def _stall(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, kind: int, host: str
) -> None:
    if kind == 0:
        writer.write(head.encode())
        await reader.read()
    elif kind == 1:
        writer.write(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        await reader.read()
    elif kind == 2:
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        while not reader.at_eof() and not writer.is_closing():
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(0.5)
    elif kind == 3:
        await reader.read()
    else:  # ask, and do not read
        asking = f"GET /api/v1/openapi.json HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(asking * 10)
        await asyncio.sleep(20)


async def honest_client(
    host: str, port: int, path: str, body: dict, address: str, times: list[tuple[int, float]]
) -> None:
    """Search for ever, over a new connection each time; append status and seconds to ``times``."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    raw = f"{head}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    while True:
        began, answer = time.monotonic(), b""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
            try:
                writer.write(raw)
                answer = await reader.read()
            finally:
                writer.transport.abort()
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        times.append((status, time.monotonic() - began))
        await asyncio.sleep(0.1)


async def besiege(
    url: str, path: str, body: dict, seconds: float, n_slow: int = 64, n_honest: int = 4
) -> list[tuple[int, float]]:
    """Return status and seconds of each search by honest clients, while slow ones attack.

    Half of the slow clients share one address. Honest clients have their own, since the rate of an
    address is limited.
    """
    where, times = urlsplit(url), list[tuple[int, float]]()
    host, port = str(where.hostname), int(where.port or 80)
    addresses = [f"127.1.2.{number + 1}" for number in range(n_slow)]
    addresses[: n_slow // 2] = addresses[:1] * (n_slow // 2)
    tasks = [
        asyncio.create_task(slow_client(host, port, path, number, address))
        for number, address in enumerate(addresses)
    ]
    await asyncio.sleep(1)
    tasks += [
        asyncio.create_task(honest_client(host, port, path, body, f"127.1.3.{i + 1}", times))
        for i in range(n_honest)
    ]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.1)  # connections are closed by now
    return times


def quantile(values: list[float], share: float) -> float:
    """Return the value that a share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def resident_megabytes(pid: int) -> float:
    """Return the memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


@contextmanager
def served(collection: Path, folder: Path):
    """Serve a copy of a collection, writable, with the default limits; yield URL and process."""
    shutil.copytree(collection, folder / "copy")
    (folder / "token").write_text(TOKEN)
    options = ["--writable", "--token-file", str(folder / "token"), "--port", "0"]
    command = [sys.executable, "-m", "corrhash", "serve", str(folder / "copy"), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        for line in process.stdout or ():
            if found := re.search(r"Ready: (http://\S+)", line):
                yield found[1], process
                break
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def main() -> None:
    """Attack a collection and print what happened; fail if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the slow clients' attack")
    parser.add_argument("--text", default="boat sea", help="the text that honest clients search")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with served(given.collection, Path(folder)) as (url, process):
            used: list[float] = []

            def look() -> None:
                used.append(resident_megabytes(process.pid))

            report = asyncio.run(attack(url, given.requests, given.seed, look))
            path, body = "/api/v1/search/text", {"text": given.text}
            times = asyncio.run(besiege(url, path, body, given.seconds))
            look()
        log = (Path(folder) / "log").read_text()
    seconds = [one for _, one in times]
    n_errors = log.count('"level": "error"')
    print(f"{report.statuses.total():,} hostile requests, by status: {dict(report.statuses)}")
    print(f"longest answer {max(report.seconds):.2f} s, p99 {quantile(report.seconds, 0.99):.2f} s")
    quarter = max(1, len(used) // 4)
    quarters = [quantile(used[i * quarter : (i + 1) * quarter], 0.5) for i in range(4)]
    print(
        f"memory: median of each quarter {', '.join(f'{one:.0f}' for one in quarters)} MB, ", end=""
    )
    print(f"at most {max(used):.0f} MB, {used[-1]:.0f} MB at the end")
    print(
        f"{len(times):,} honest searches beside 64 slow clients, by status: "
        f"{dict(Counter(status for status, _ in times))}; p50 {quantile(seconds, 0.5):.3f} s, "
        f"p99 {quantile(seconds, 0.99):.3f} s, longest {max(seconds):.3f} s"
    )
    print(f"{n_errors} errors in the log")
    for problem, raw in report.failures:
        print(f"FAILED ({problem}): {raw[:300]!r}")
    if report.failures or n_errors or any(status != 200 for status, _ in times):
        sys.exit(1)


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAFElEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElF"
    "TkSuQmCC"
)

if __name__ == "__main__":
    main()

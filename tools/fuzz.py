"""Fuzz the readers of files from others: ``make fuzz``, with ``SECONDS=3600`` for an hour.

A target takes bytes and must return, or raise an error that corrhash defines. Inputs are random
mutations of a small corpus, and of inputs found before that got further than others. Anything else
that a target raises, and any input that takes ten CPU-seconds, is a crash: its input is written to
the folder ``fuzz-crashes`` and belongs into the corpus of ``tests/fuzz_corpus.py``.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.fuzz_corpus import TARGETS, Target  # noqa: E402

from corrhash.errors import InputError, StorageError  # noqa: E402

HANG_SECONDS = 10  # of the processor; a stalled one ends after six times as long
MOST_KEPT = 500  # inputs with different answers
CRASHES = Path("fuzz-crashes")

TOKENS = (
    *(b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"-1", b"0", b"9" * 400, b"1e999"),
    *(b"NaN", b"null", b"true", b"{}", b"[]", b"[" * 2000, b'{"a":' * 2000, b'"', b"'", b"\\"),
    *(b"not ", b"(", b")", b" and ", b" or ", b"in labels", b"\xed\xb3\xbf", b"\xc3\xa9", b"../"),
    *(b"\r\n", b",", b"\t", b";", b"%s", b"\xef\xbb\xbf", b"key", b"image", b"features"),
)


def mutate(content: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Return a random change of some bytes."""
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(content) + 1)
        n = min(rng.choice([1, 1, 2, 4, 8, 64, 512]), len(content) - at)
        match rng.randrange(8):
            case 0 if content:
                at = rng.randrange(len(content))
                changed = bytes([content[at] ^ 1 << rng.randrange(8)])
                content = content[:at] + changed + content[at + 1 :]
            case 1:
                content = content[:at] + rng.randbytes(n) + content[at + n :]
            case 2:
                content = content[:at] + content[at + n :]
            case 3:
                content = (
                    content[:at] + content[at : at + n] * rng.choice([2, 3, 50]) + content[at:]
                )
            case 4:
                content = content[:at] + rng.choice(TOKENS) + content[at:]
            case 5:
                content = content[:at] + rng.choice(TOKENS) + content[at + n :]
            case 6:
                other = rng.choice(others)
                cut = rng.randrange(len(other) + 1)
                content = content[:at] + other[cut : cut + 1024]
            case _:
                content = content[:at] + bytes(n) + content[at + n :]
    return content[: 1 << 20]


class Fuzzer:
    """Mutations of the corpus of one target."""

    def __init__(self, name: str, target: Target, seed: int = 0) -> None:
        self.name, self.target, self.rng = name, target, random.Random(f"{name} {seed}")
        self.pool = list(target.corpus())
        self.n_tried = self.n_accepted = 0
        self.seen: set[str] = set()
        self.crashes: dict[str, bytes] = {}

    def run(self, seconds: float, *, most: int | None = None) -> None:
        """Try inputs until the time is over, or until ``most`` were tried."""
        end = time.monotonic() + seconds
        for content in list(self.pool):
            self.try_input(content)
        while time.monotonic() < end and (most is None or self.n_tried < most):
            self.try_input(mutate(self.rng.choice(self.pool), self.rng, self.pool))

    def try_input(self, content: bytes) -> None:
        """Try one input; keep it if the target answers as it never did before."""
        self.n_tried += 1
        accepted = False
        try:
            answer = self.target.run(content)
            self.n_accepted += 1
            accepted = True
        except (InputError, StorageError) as error:
            answer = f"{type(error).__name__} {_shape(str(error))}"
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[:-4:-1])
            self.crashes.setdefault(f"{type(error).__name__} at {where}", content)
            return
        shape = hashlib.sha256(str(answer).encode("utf-8", "replace")).hexdigest()
        if shape not in self.seen and len(self.seen) < MOST_KEPT:
            self.seen.add(shape)
            # Inputs that are accepted lead further than those that are refused.
            self.pool += [content] * (5 if accepted else 1)


def _shape(message: str) -> str:
    """Return a message without numbers and quoted values, so that alike errors are equal."""
    words = [
        "#" if any(c.isdigit() or c in "'\"" for c in word) else word for word in message.split()
    ]
    return " ".join(words[:20])


def _hung(*arguments: Any) -> None:
    raise TimeoutError(f"no answer after {HANG_SECONDS} s")


def limited(run: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a target that raises an error if it hangs."""

    def call(content: bytes) -> Any:
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        signal.alarm(6 * HANG_SECONDS)
        try:
            return run(content)
        finally:
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)

    return call


def main() -> None:
    """Fuzz every target for an equal share of the time, and print what was tried."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="Time for all targets.")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="Of the mutations.")
    parser.add_argument("targets", nargs="*", help=f"Some of: {', '.join(TARGETS)}.")
    arguments = parser.parse_args()
    names = arguments.targets or list(TARGETS)
    logging.getLogger("corrhash").addHandler(logging.NullHandler())
    logging.getLogger("corrhash").propagate = False
    warnings.simplefilter("ignore")
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _hung)
    n_crashes = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            target = TARGETS[name](Path(folder))
            fuzzer = Fuzzer(name, Target(target.corpus, limited(target.run)), arguments.seed)
            fuzzer.run(arguments.seconds / len(names))
        n_crashes += len(fuzzer.crashes)
        print(
            f"{name}: {fuzzer.n_tried:,} inputs, {fuzzer.n_accepted:,} accepted, "
            f"{len(fuzzer.seen):,} different answers, {len(fuzzer.crashes)} crashes",
            flush=True,
        )
        for problem, content in fuzzer.crashes.items():
            CRASHES.mkdir(exist_ok=True)
            path = CRASHES / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
            path.write_bytes(content)
            print(f"  {problem}: {path}", flush=True)
    sys.exit(n_crashes > 0)


if __name__ == "__main__":
    main()

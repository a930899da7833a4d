"""Kill writers and servers, cut the power, and count lost items: ``make durability``.

A writer adds batches and acknowledges each one. It, or the server that it writes to, is killed with
SIGKILL at a random moment, or the folder is rebuilt as a power loss may leave it. Then every
acknowledged item must exist with its codes, text and metadata, no batch can be stored in part, and
the engine must find no damage. An item is a function of its number, so that damage is detected.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tools import power_loss  # noqa: E402
from tools.milvus_server import ADDRESS, MilvusServer, enter_namespace, why_not  # noqa: E402

from corrhash.collection.collection import Collection  # noqa: E402
from corrhash.datasets import PairedDataset, make_pairs  # noqa: E402
from corrhash.datasets.base import is_empty_text  # noqa: E402
from corrhash.datasets.records import Record  # noqa: E402
from corrhash.errors import StorageError  # noqa: E402
from corrhash.index.items import FIELDS  # noqa: E402
from corrhash.methods import METHODS  # noqa: E402
from corrhash.model import Model  # noqa: E402

BATCH = 20
READY = b"ready"
REQUEST_SECONDS = 10
"""How long a server may take for a request whose client was killed."""
ACKNOWLEDGED = "acknowledged"
"""The file in which a writer whose power is cut acknowledges batches."""

# Writers are forked from a process that has imported slow modules, but no engine: its threads and
# connections would not survive a fork.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["corrhash.collection.collection", "corrhash.methods.cvh"])


@dataclass
class Count:
    """Results of some rounds."""

    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    damaged: int = 0
    torn: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, n) + getattr(other, n) for n in vars(self)))

    @property
    def clean(self) -> bool:
        return self.lost == self.damaged == self.torn == 0


def make_model(folder: Path) -> None:
    """Save a model that encodes fast."""
    hasher = METHODS["cvh"](n_bits=64).fit(_pairs())
    Model(hasher).save(folder)


def record(number: int) -> Record:
    """Return the item with a number."""
    rng = np.random.default_rng(number)
    pairs = _pairs()
    row = number % len(pairs)
    image = pairs.images[row] + rng.normal(size=pairs.images.shape[1])
    return Record(
        f"item {number}",
        image,
        f"text of {number}",
        term_vector=pairs.texts[[row]],
        labels=[f"label {number % 7}"],
        metadata={"number": number},
    )


@cache
def _pairs() -> PairedDataset:
    """Return pairs whose texts contain known terms."""
    pairs = make_pairs(400, seed=0)
    return pairs.take(~is_empty_text(pairs.texts))


def write(uri: str, model: str, first_batch: int, pipe: Connection) -> None:
    """Wait for the signal to start, then add batches forever and acknowledge each one."""
    collection = Collection.open(uri, model)
    pipe.send_bytes(READY)
    pipe.recv_bytes()
    batch = first_batch
    while True:
        collection.add([record(batch * BATCH + i) for i in range(BATCH)])
        pipe.send_bytes(str(batch).encode())
        batch += 1


def write_some(uri: str, model: str, first_batch: int, n: int) -> None:
    """Add ``n`` batches and acknowledge each one in a file; close the database now and then."""
    collection = Collection.open(uri, model)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    acknowledged = os.open(Path(uri) / ACKNOWLEDGED, flags)
    for batch in range(first_batch, first_batch + n):
        collection.add([record(batch * BATCH + i) for i in range(BATCH)])
        os.write(acknowledged, f"{batch}\n".encode())
        if batch % 5 == 0:
            collection.index.close()  # type: ignore[attr-defined]


@dataclass
class Batches:
    """Batches that were acknowledged."""

    first: int
    acknowledged: list[int]


class Writer:
    """A writing process and the batches that it has acknowledged."""

    def __init__(self, uri: str, model: Path, first_batch: int) -> None:
        self.first = first_batch
        self.acknowledged: list[int] = []
        self._pipe, theirs = PROCESSES.Pipe()
        arguments = (uri, str(model), first_batch, theirs)
        self.process = PROCESSES.Process(target=write, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def go(self) -> None:
        """Start writing."""
        if not self._pipe.poll(300) or self._pipe.recv_bytes() != READY:
            raise RuntimeError("The writer did not start.")
        self._pipe.send_bytes(b"go")

    def listen(self, seconds: float) -> None:
        """Record acknowledgements for some seconds."""
        end = time.monotonic() + seconds
        while self._pipe.poll(max(0, end - time.monotonic())):
            self.acknowledged.append(int(self._pipe.recv_bytes()))

    def wait_for(self, n: int, seconds: float = 400) -> None:
        """Wait until ``n`` batches are acknowledged."""
        end = time.monotonic() + seconds
        while len(self.acknowledged) < n:
            if time.monotonic() > end or not self.process.is_alive():
                raise RuntimeError(f"The writer stopped after {len(self.acknowledged)} batches.")
            self.listen(0.01)

    def kill(self) -> None:
        """Kill the process; earlier acknowledgements count."""
        self.process.kill()
        self.process.join()
        with suppress(EOFError, OSError):
            self.listen(0)
        self._pipe.close()
        self.process.close()


def check(uri: str, model: Path, writers: Iterable[Writer | Batches]) -> Count:
    """Compare the stored items with the acknowledged and the expected ones."""
    collection = Collection.open(uri, model)
    count = Count(rounds=1)
    try:
        collection.index.verify()
    except StorageError as error:
        print(error)
        count.damaged += 1
    for writer in writers:
        count.acknowledged += len(writer.acknowledged) * BATCH
        last = max(writer.acknowledged, default=writer.first - 1)
        for batch in range(writer.first, last + 2):  # one more can have been committed
            there = _stored(collection, batch)
            if batch in writer.acknowledged:
                count.lost += BATCH - len(there)
            elif len(there) not in (0, BATCH):
                count.torn += 1
            count.damaged += _damaged(collection, there)
    return count


def _stored(collection: Collection, batch: int) -> dict[str, int]:
    """Return the ids of the stored items of a batch.

    A server can still be busy with the last request of a killed client, so a batch that is stored
    in part is read again for some seconds.
    """
    keys = [f"item {number}" for number in range(batch * BATCH, (batch + 1) * BATCH)]
    end = time.monotonic() + REQUEST_SECONDS
    while True:
        there = collection.index.ids_of(keys)
        if len(there) in (0, BATCH) or time.monotonic() > end:
            return there
        time.sleep(0.2)


def _damaged(collection: Collection, ids: dict[str, int]) -> int:
    """Count the items that differ from the expected ones."""
    wanted = [record(int(key.split()[1])) for key in ids]
    if not wanted:
        return 0
    items = collection.index.get(list(ids.values()), FIELDS)
    wrong = np.zeros(len(wanted), dtype=bool)
    codes = {
        "image": collection.model.hasher.encode_image(np.stack([r.image for r in wanted])),
        "text": collection.model.hasher.encode_text(
            sp.vstack([sp.csr_array(r.term_vector) for r in wanted])
        ),
    }
    for modality, expected in codes.items():
        rows, found = collection.index.codes_of(list(ids.values()), modality)
        if len(rows) < len(wanted):
            return len(wanted)
        wrong |= (found.packed != expected.packed).any(axis=1)
    for row, (item, one) in enumerate(zip(items, wanted, strict=True)):
        wrong[row] |= item != one.item(stamp=one.stamp(""))
    return int(wrong.sum())


def kill_writers(uri: str, model: Path, rounds: int, seed: int = 0) -> Count:
    """Kill one writer after another at a random moment."""
    rng, total, batch = random.Random(seed), Count(), 0
    following = Writer(uri, model, batch)
    for round_ in range(rounds):
        writer = following
        writer.go()
        writer.wait_for(1)
        writer.listen(rng.uniform(0, 0.3))
        writer.kill()
        batch = max(writer.acknowledged) + 2
        if round_ + 1 < rounds:
            following = Writer(uri, model, batch)  # starts during the check of this round
        total += check(uri, model, [writer])
        if total.rounds % 10 == 0:
            show("so far", total)
    return total


def kill_one_of_two(uri: str, model: Path, rounds: int, seed: int = 0) -> Count:
    """Kill one of two writers while the other one and a reader continue.

    The reader must never see a batch in part, nor fewer items than before.
    """
    rng, total, first = random.Random(seed), Count(), 0
    reader = Collection.open(uri, model)
    query = reader.model.hasher.encode_image(record(0).image[None])
    for _ in range(rounds):
        writers = [Writer(uri, model, first), Writer(uri, model, first + 1_000_000)]
        for writer in writers:
            writer.go()
        victim, survivor = rng.sample(writers, 2)
        end = time.monotonic() + rng.uniform(0, 0.3)
        torn, size = 0, len(reader)
        while min(len(writer.acknowledged) for writer in writers) < 1 or time.monotonic() < end:
            # On Milvus this holds for one shard, the default: the rows of a request become visible
            # at one timestamp of their shard. Several shards do so one after another.
            for count in (lambda: len(reader), lambda: reader.nearest(query, 10**6).rows.shape[1]):
                found = count()
                if found % BATCH or found < size:
                    print(f"The reader has seen {size} items, then {found}.", flush=True)
                    torn += 1
                size = max(size, found)
            for writer in writers:
                writer.listen(0.005)
        victim.kill()
        survivor.wait_for(len(survivor.acknowledged) + 2)
        survivor.kill()
        first += max(max(writer.acknowledged) - writer.first for writer in writers) + 2
        total += check(uri, model, writers) + Count(torn=torn)
        if total.rounds % 10 == 0:
            show("so far", total)
    return total


def lose_power(folder: Path, model: Path, rounds: int, seed: int = 0) -> Count:
    """Rebuild a collection as a power loss at a random moment may leave it, and continue with it.

    The moment is one of the writer's calls of write, fsync and so on.
    """
    rng, total, batch = random.Random(seed), Count(), 0
    folder, library = folder.resolve(), power_loss.compile_recorder(model.parent)
    journal = model.parent / "journal"
    code = f"from tools.durability import write_some; write_some({str(folder)!r}, {str(model)!r}, "
    for _ in range(rounds):
        disk = power_loss.Disk(folder)
        environment = power_loss.recording(library, folder, journal)
        environment["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
        words = [sys.executable, "-c", f"{code}{batch}, {rng.randint(2, 30)})"]
        subprocess.run(words, check=True, env=environment)
        calls = power_loss.read_journal(journal)
        journal.unlink()
        if not any(call.operation == "s" and call.path.name.endswith("-wal") for call in calls):
            raise RuntimeError("No sync was recorded.")
        lines = b""
        for call in calls[: rng.randint(0, len(calls))]:
            disk.apply(call)
            lines += call.data if call.path.name == ACKNOWLEDGED else b""
        disk.lose_power(rng)
        acknowledged = Batches(batch, [int(line) for line in lines.split()])
        total += check(str(folder), model, [acknowledged])
        batch = max([batch, *acknowledged.acknowledged]) + 2
        if total.rounds % 10 == 0:
            show("so far", total)
    return total


def kill_servers(uri: str, model: Path, server: Any, rounds: int, seed: int = 0) -> Count:
    """Kill the server of a writer that continues when the server is back."""
    rng, total, batch = random.Random(seed), Count(), 0
    for _ in range(rounds):
        writer = Writer(uri, model, batch)
        writer.go()
        writer.wait_for(2)
        writer.listen(rng.uniform(0, 0.5))
        server.kill()
        server.start()
        writer.wait_for(len(writer.acknowledged) + 3)
        writer.kill()
        batch = max(writer.acknowledged) + 2
        total += check(uri, model, [writer])
    return total


def on_folder(folder: Path, alone: int, together: int, power: int) -> dict[str, Count]:
    """Run rounds of each kind on new collections in folders."""
    model = folder / "model"
    make_model(model)
    kinds: dict[str, tuple[int, Callable[[Path], Count]]] = {
        "folder, writer killed": (alone, lambda new: kill_writers(str(new), model, alone)),
        "folder, one of two writers killed": (
            together,
            lambda new: kill_one_of_two(str(new), model, together),
        ),
        "folder, power lost": (power, lambda new: lose_power(new, model, power)),
    }
    counts = {}
    for name, (rounds, work) in kinds.items():
        if rounds:
            new = folder / secrets.token_hex(4)
            Collection.create(new, model)
            counts[name] = work(new)
            show(name, counts[name])
    return counts


def on_milvus(folder: Path, rounds: int) -> dict[str, Count]:
    """Run rounds on new collections of a private server."""
    make_model(folder / "model")
    server = MilvusServer(folder / "data")
    server.data.mkdir()
    kinds: dict[str, Callable[[str], Count]] = {
        "milvus, writer killed": lambda uri: kill_writers(uri, folder / "model", rounds),
        "milvus, server killed": lambda uri: kill_servers(uri, folder / "model", server, rounds),
    }
    counts = {}
    try:
        server.start()
        for name, work in kinds.items():
            uri = f"milvus://{ADDRESS}/durability_{secrets.token_hex(4)}"
            Collection.create(uri, folder / "model")
            counts[name] = work(uri)
            show(name, counts[name])
    finally:
        server.kill()
    return counts


def show(name: str, count: Count) -> None:
    print(
        f"{name}: {count.rounds} rounds, {count.acknowledged:,} items acknowledged, "
        f"{count.lost} lost, {count.damaged} damaged, {count.torn} batches torn",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=int, default=150, help="rounds on a folder")
    parser.add_argument("--together", type=int, default=50, help="rounds with two writers")
    parser.add_argument("--power", type=int, default=50, help="power losses")
    parser.add_argument("--milvus", type=int, default=5, help="rounds of each kind on Milvus")
    arguments = parser.parse_args()
    reason = why_not() if arguments.milvus else "0 rounds requested"
    if reason is None:
        enter_namespace([__file__, *sys.argv[1:]])
    counts = {}
    with tempfile.TemporaryDirectory(prefix="corrhash-durability-") as folder:
        (Path(folder) / "a").mkdir()
        if arguments.power and (missing := power_loss.why_not()):
            print(f"Power losses skipped: {missing}")
            arguments.power = 0
        rounds = arguments.folder, arguments.together, arguments.power
        counts |= on_folder(Path(folder) / "a", *rounds)
        if reason is None:
            (Path(folder) / "b").mkdir()
            counts |= on_milvus(Path(folder) / "b", arguments.milvus)
        else:
            print(f"Milvus skipped: {reason}")
    return 0 if all(count.clean for count in counts.values()) else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())

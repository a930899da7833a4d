"""Damage the files of collections and models, and count wrong answers: ``make corruption``.

Each round copies an intact folder, damages one of its files, and asks the same questions as before.
An answer must be equal to the one before, or an error that names the damage, or lack only items
that were reported as damaged. Anything else is a *silent* wrong answer, or a *raw* error that a
user would see as a traceback.
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from corrhash import Collection, InputError, StorageError  # noqa: E402
from corrhash.collection.repairing import repair  # noqa: E402
from corrhash.datasets import PairedDataset, Reader, Vocabulary  # noqa: E402
from corrhash.datasets.image_features import ImageFeatures  # noqa: E402
from corrhash.datasets.scenes.dataset import draw_scenes  # noqa: E402
from corrhash.index.items import FIELDS  # noqa: E402
from corrhash.methods import METHODS  # noqa: E402
from corrhash.model import Model, TrainingRun, load_model  # noqa: E402

N = 60
SECONDS = 60
"""After this long, a question counts as hung."""

Damage = Callable[[bytes, random.Random], bytes | None]


def _flip(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def _noise(content: bytes, rng: random.Random) -> bytes:
    at, n = rng.randrange(len(content)), rng.choice([1, 4, 16, 512])
    return content[:at] + rng.randbytes(len(content[at : at + n])) + content[at + n :]


def _zero(content: bytes, rng: random.Random) -> bytes:
    n = min(len(content), rng.choice([8, 512, 4096]))
    at = rng.randrange(0, len(content) - n + 1)
    return content[:at] + bytes(n) + content[at + n :]


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _append(content: bytes, rng: random.Random) -> bytes:
    return content + rng.randbytes(rng.choice([1, 100, 4096]))


def _swap_blocks(content: bytes, rng: random.Random) -> bytes:
    size = min(4096, max(1, len(content) // 4))
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    first, second = rng.sample(range(len(blocks)), 2) if len(blocks) > 1 else (0, 0)
    blocks[first], blocks[second] = blocks[second], blocks[first]
    return b"".join(blocks)


def _repeat_block(content: bytes, rng: random.Random) -> bytes:
    size = min(4096, max(1, len(content) // 4))
    source, target = (rng.randrange(0, len(content), size) for _ in range(2))
    block = content[source : source + size]
    return (content[:target] + block + content[target + len(block) :])[: len(content)]


def _remove(content: bytes, rng: random.Random) -> None:
    return None


KINDS: tuple[Damage, ...] = (
    *(_flip, _flip, _flip, _noise, _noise, _zero),
    *(_truncate, _append, _swap_blocks, _repeat_block, _remove),
)


def damage_file(path: Path, rng: random.Random, old: Path | None = None) -> str:
    """Damage a file in one of many ways, and return the name of the kind."""
    content = path.read_bytes()
    kinds = [kind for kind in KINDS if content or kind in (_append, _remove)]
    if old is not None and old.exists() and old.read_bytes() != content and rng.random() < 0.15:
        path.write_bytes(old.read_bytes())
        return "roll back"
    kind = rng.choice(kinds)
    changed = kind(content, rng)
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    return kind.__name__.strip("_").replace("_", " ")


@cache
def _scenes() -> Any:
    return draw_scenes(N, size=48)


def make_model(folder: Path, *, network: bool = False) -> None:
    """Train a small model; with ``network`` one on pixels, exported to ONNX."""
    scenes = _scenes()
    words = Vocabulary.fit(scenes.captions, min_count=2)
    raw = PairedDataset(scenes.images, scenes.captions, scenes.labels)
    training = TrainingRun("scenes", 0, {"n": N}, "labels")
    if not network:
        reader = Reader(words, ImageFeatures("simple"))
        Model(METHODS["cvh"](n_bits=24).fit(reader.read(raw)), reader, training).save(folder)
        return
    from corrhash import Networks, Training
    from corrhash.methods.onnx_export import export_onnx

    small = {"networks": Networks(image_size=32, width=16), "training": Training(epochs=1)}
    hasher = METHODS["chn"](n_bits=24, **small).fit(Reader(words).read(raw))
    Model(hasher, Reader(words), training).save(folder)
    export_onnx(folder)


def make_collection(folder: Path, model: Path, old: Path) -> None:
    """Fill a collection whose last writes are in its write-ahead log; copy it before to ``old``."""
    scenes = _scenes()
    collection = Collection.create(folder, model, store_continuous=True)
    records = []
    for row in range(N):
        labels = np.array(scenes.label_names)[scenes.labels[row] > 0].tolist()
        metadata = {"row": row, "name": f"n{row % 7}", "even": row % 2 == 0, "share": row / 7}
        image = None if row % 5 == 4 else scenes.images[row]
        text = "" if row % 5 == 3 else scenes.captions[row]
        records.append({"key": f"scene {row}", "image": image, "text": text, "labels": labels})
        records[-1]["metadata"] = metadata
    collection.add(records[: N // 2])
    collection.index.close()
    shutil.copytree(folder, old)
    collection.add(records[N // 2 :])
    collection.delete(["scene 3"])
    # Copied while a connection is open, since the last one to be closed removes the log.
    with collection.index._reading():
        shutil.copytree(folder, folder.with_name(f"{folder.name}-live"))
    collection.index.close()
    shutil.rmtree(folder)
    folder.with_name(f"{folder.name}-live").rename(folder)
    (folder / "collection.db-shm").unlink(missing_ok=True)


Answers = dict[str, Any]
FILTERS = (
    *("row < 20", "row >= 17.5", "name = 'n3'", "even = true", "share > 2", "key > 'scene 2'"),
    *("key != 'scene 5'", "path = ''", "not name = 'n1'", "text > 'b' and not row = 7"),
)


def ask_collection(folder: Path) -> tuple[Answers, set[str]]:
    """Return the answers to all questions, errors among them, and keys reported as damaged."""
    answers: Answers = {}
    scenes = _scenes()
    keys = [f"scene {row}" for row in range(N)]
    collection = Collection.open(folder)

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            answers[name] = question()
        except (InputError, StorageError) as error:
            answers[name] = error

    def matches(query: Any = None, **options: Any) -> list[Any]:
        found = collection.search(query, k=N, **options)
        return [(m.key, m.distance, m.score, repr(m.item)) for m in found]

    caption = scenes.captions[0]
    labels = sorted({name for name in scenes.label_names if scenes.labels.any()})
    for find in ("image", "text"):
        ask(f"search {find}", lambda find=find: matches(caption, find=find))
        ask(f"plain {find}", lambda find=find: matches(caption, find=find, rerank=False))
    ask("search image", lambda: matches(image=scenes.images[1], thumbnails=True))
    ask("search key", lambda: matches(key="scene 10"))
    for where in (*FILTERS, *(f"'{label}' in labels" for label in labels[:4])):
        ask(where, lambda where=where: matches(caption, where=where))
        ask(f"select {where}", lambda where=where: _selected(collection, where))
    ask("number", lambda: len(collection))
    ask("keys", lambda: sorted(collection.ids_of(keys)))
    for key in keys[::6]:
        ask(f"get {key}", lambda key=key: repr(vars(collection.get(key, FIELDS))))
    ask("all", lambda: sorted(repr(vars(i)) for e in collection.index.batches() for i in e.items))
    reported = collection.index._damage.found  # type: ignore[attr-defined]
    collection.index.close()
    return answers, {f"{number}" for number in reported}


def _selected(collection: Collection, where: str) -> list[str]:
    items = collection.index.get(collection.index.select(where), ["key"])
    return sorted(item.key for item in items if item is not None)


def is_silent(name: str, before: Any, after: Any, damaged_keys: set[str]) -> bool:
    """Return whether an answer is wrong without a report."""
    if isinstance(after, (InputError, StorageError)) or after == before:
        return False
    if name.startswith("get "):  # a damaged thumbnail is reported, and the item is without it
        reported = name.removeprefix("get ") in damaged_keys
        return not (reported and _without_thumbnail(before) == _without_thumbnail(after))
    if not isinstance(before, list) or not isinstance(after, list):
        return True
    left = list(after)
    expected = [one for one in before if not _concerns(one, damaged_keys)]
    return [one for one in left if not _concerns(one, damaged_keys)] != expected


def _concerns(one: Any, keys: set[str]) -> bool:
    key = one[0] if isinstance(one, tuple) else one
    return key in keys or any(f"'key': {name!r}," in key for name in keys)


def ask_model(folder: Path) -> tuple[Answers, set[str]]:
    """Return the codes of images and texts."""
    scenes = _scenes()
    model = load_model(folder)
    images = model.reader.read_images(scenes.images)
    texts = model.reader.read_texts(scenes.captions)
    codes = {
        "image": model.hasher.encode_image(images).packed.tobytes(),
        "text": model.hasher.encode_text(texts).packed.tobytes(),
    }
    return codes, set()


class Rounds:
    """Rounds of damage to one folder."""

    def __init__(self, folder: Path, ask: Callable[[Path], Any], old: Path | None = None) -> None:
        self.folder, self.ask, self.old = folder, ask, old
        files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
        # The database has most of the content, so every other round concerns it.
        database = [path for path in files if path.name == "collection.db"]
        self.files = [path for other in files for path in (*database, other)]
        copy = Path(tempfile.mkdtemp()) / "c"
        shutil.copytree(folder, copy)
        self.before, _ = ask(copy)
        self.keys = {str(number): key for key, number in self._ids(copy).items()}
        shutil.rmtree(copy.parent)
        # A database that lost its log has items that were deleted later.
        salvageable = [self.before["all"]] if "all" in self.before else []
        if old is not None:
            salvageable.append(ask(old)[0]["all"])
        self.salvageable = {_without_thumbnail(one) for every in salvageable for one in every}
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def _ids(self, folder: Path) -> dict[str, int]:
        if self.ask is not ask_collection:
            return {}
        collection = Collection.open(folder)
        ids = collection.ids_of([f"scene {row}" for row in range(N)])
        collection.index.close()
        return ids

    def run(self, number: int) -> None:
        """Damage a file and count what happens."""
        rng = random.Random(number)
        name = self.files[number % len(self.files)]
        workspace = Path(tempfile.mkdtemp())
        try:
            copy = workspace / "c"
            shutil.copytree(self.folder, copy)
            old = None if self.old is None else self.old / name
            kind = damage_file(copy / name, rng, old)
            outcome = self._outcome(copy)
            if outcome.startswith(("silent", "raw")):
                self.failures.append(f"round {number}: {kind} of {name}: {outcome}")
            self.counts[outcome.partition(":")[0]] += 1
            self.counts[f"file {name}"] += 1
            if self.ask is ask_collection and outcome in ("left out", "error"):
                self._repair(number, copy, workspace / "repaired")
        finally:
            shutil.rmtree(workspace, ignore_errors=True)

    def _outcome(self, copy: Path) -> str:
        try:
            answers, reported = self.ask(copy)
        except (InputError, StorageError):
            return "error"
        except Exception as error:
            return f"raw: {type(error).__name__}: {error}"
        damaged_keys = {self.keys[number] for number in reported if number in self.keys}
        for question, before in self.before.items():
            if is_silent(question, before, answers.get(question), damaged_keys):
                return f"silent: {question}"
        if any(isinstance(answer, Exception) for answer in answers.values()):
            return "error"
        return "left out" if reported else "unharmed"

    def _repair(self, number: int, copy: Path, target: Path) -> None:
        """Salvage a damaged collection; every item must be as it was."""
        try:
            repaired = repair(copy, target, self.folder / "model")
            index = repaired.collection.index
            index.verify()
            found = {repr(vars(item)) for entries in index.batches() for item in entries.items}
            index.close()
        except (InputError, StorageError):
            self.counts["repair: nothing"] += 1
            return
        except Exception as error:
            self.failures.append(f"round {number}: raw error of repair: {error!r}")
            return
        if wrong := {_without_thumbnail(one) for one in found} - self.salvageable:
            self.failures.append(f"round {number}: silent: repair changed {len(wrong)} items")
        self.counts["repair: some" if len(found) < N - 1 else "repair: everything"] += 1


def _without_thumbnail(item: str) -> str:
    return re.sub(r"'thumbnail': .*?, 'stamp'", "'stamp'", item, flags=re.DOTALL)


def _hung(*arguments: Any) -> None:
    raise TimeoutError(f"no answer after {SECONDS} s")


def main() -> None:
    """Damage files and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--start", type=int, default=0, help="Number of the first round.")
    arguments = parser.parse_args()
    logging.getLogger("corrhash").addHandler(logging.NullHandler())
    signal.signal(signal.SIGALRM, _hung)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        make_model(work / "linear")
        make_model(work / "network", network=True)
        make_collection(work / "collection", work / "linear", work / "old")
        targets = {
            "collection": (Rounds(work / "collection", ask_collection, work / "old"), 4),
            "model": (Rounds(work / "linear", ask_model), 1),
            "exported model": (Rounds(work / "network", ask_model), 1),
        }
        failed = False
        for name, (rounds, share) in targets.items():
            for number in range(arguments.start, arguments.start + arguments.rounds * share // 6):
                signal.alarm(SECONDS)
                rounds.run(number)
                signal.alarm(0)
            outcomes = {k: n for k, n in rounds.counts.items() if not k.startswith("file ")}
            print(f"{name}: {outcomes}")
            print(f"  files: { {k[5:]: n for k, n in rounds.counts.items() if k[:5] == 'file '} }")
            for failure in rounds.failures:
                print(f"  {failure}")
            failed |= bool(rounds.failures)
    sys.exit(failed)


if __name__ == "__main__":
    main()

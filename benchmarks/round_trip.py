"""A collection copied from a folder to Milvus and back: are the answers the same?

``python tools/milvus_server.py .venv/bin/python -m benchmarks.round_trip COLLECTION`` copies it to
a server of its own, from there into a new folder, and asks all three the same questions, codes of
its own pictures. Folders must agree in keys and distances, Milvus in distances.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from corrhash.codes import Codes
from corrhash.collection import Collection, Match

N_QUERIES, K = 1_000, 10
Answers = list[list[Match]]


def ask(collection: Collection, queries: Codes, find: str) -> Answers:
    """The nearest items of each query, by codes alone."""
    return collection.search_codes(queries, K, find=find)


def n_alike(one: Answers, other: Answers, *fields: str) -> int:
    """How many queries have the same answers in these fields, one by one."""

    def told(matches: list[Match]) -> list[list[object]]:
        return [[getattr(match, field) for field in fields] for match in matches]

    return sum(told(a) == told(b) for a, b in zip(one, other, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    folder = Collection.open(parser.parse_args().collection)
    address = os.environ["CORRHASH_MILVUS"]
    with tempfile.TemporaryDirectory() as place:
        milvus = folder.copy_to(f"milvus://{address}/round_trip")
        back = milvus.copy_to(Path(place) / "back")
        keys = [item.key for item in folder.first_items(N_QUERIES)]
        _, queries = folder.index.codes_of(list(folder.ids_of(keys).values()), "image")
        print(f"{len(folder):,} items, {len(queries):,} queries, the nearest {K}")
        for find in ("image", "text"):
            asked = ask(folder, queries, find)
            same = n_alike(asked, ask(back, queries, find), "key", "distance")
            close = n_alike(asked, ask(milvus, queries, find), "distance")
            print(f"{find}s: the folder that came back answers {same:,} alike, ", end="")
            print(f"Milvus has the same distances for {close:,}")


if __name__ == "__main__":
    main()

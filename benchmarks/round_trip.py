"""Copy a collection from a folder to Milvus and back, and compare the search results.

``python tools/milvus_server.py .venv/bin/python -m benchmarks.round_trip COLLECTION`` copies it to
a private server and from there to a new folder, and searches all three with the codes of its own
images. Folders must agree in keys and distances, Milvus in distances.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from corrhash.collection.collection import Collection, Match

N_QUERIES, K = 1_000, 10
Results = list[list[Match]]


def n_equal(one: Results, other: Results, *fields: str) -> int:
    """Count the queries whose results agree in these fields."""

    def values(matches: list[Match]) -> list[list[object]]:
        return [[getattr(match, field) for field in fields] for match in matches]

    return sum(values(a) == values(b) for a, b in zip(one, other, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    original = Collection.open(parser.parse_args().collection)
    with tempfile.TemporaryDirectory() as folder:
        milvus = original.copy_to(f"milvus://{os.environ['CORRHASH_MILVUS']}/round_trip")
        copy = milvus.copy_to(Path(folder) / "copy")
        keys = [item.key for item in original.first_items(N_QUERIES)]
        _, queries = original.index.codes_of(list(original.ids_of(keys).values()), "image")
        print(f"{len(original):,} items, {len(queries):,} queries, k = {K}")
        for find in ("image", "text"):
            expected, copied, served = (
                collection.search(codes=queries, k=K, find=find)
                for collection in (original, copy, milvus)
            )
            same = n_equal(expected, copied, "key", "distance")
            close = n_equal(expected, served, "distance")
            print(f"{find}: {same:,} queries with equal results after copying back, ", end="")
            print(f"{close:,} with equal distances on Milvus")


if __name__ == "__main__":
    main()

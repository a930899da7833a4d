"""Switches a collection between two generations until the process is killed."""

import sys

from corrhash.collection import Collection
from corrhash.collection.improving import restore
from corrhash.datasets import load_dataset
from corrhash.datasets.records import dataset_records


def main(uri):
    collection = Collection.open(uri)
    records = list(dataset_records(load_dataset("synthetic", n=600).database))
    turn = 0
    while True:
        for record in records[turn % 190 : turn % 190 + 10]:  # they lose their staged codes
            collection.update(record.key, metadata={"turn": turn})
        restore(collection, records)
        turn += 1
        sys.stdout.write(f"{turn}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])

"""The database file: damage, verification, and foreign files."""

import os
import sqlite3

import numpy as np
import pytest

from corrhash import Codes, InputError, StorageError
from corrhash.index import Item, open_index
from corrhash.index.sqlite_storage import DATABASE_FILE


def random_codes(n, n_bits=64, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "c"


def damaged(folder, change):
    """A folder with 2,000 items whose database file is changed."""
    index = open_index(folder, 64)
    items = [Item(f"key {i}", "text " * 20, metadata={"year": i}) for i in range(2000)]
    index.add(np.arange(2000), random_codes(2000), items)
    index.close()
    path = folder / DATABASE_FILE
    path.write_bytes(change(path.read_bytes()))


DAMAGE = {
    "empty": lambda content: b"",
    "not SQLite": lambda content: b"hello " * 1000,
    "truncated": lambda content: content[: len(content) // 3],
    "zeros": lambda content: content[:8192] + bytes(len(content) - 8192),
    "noise": lambda content: (
        content[:20_000] + os.urandom(len(content) - 40_000) + content[-20_000:]
    ),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damaged_file_raises(folder, change):
    damaged(folder, change)

    def use():
        index = open_index(folder, 64)
        index.search(random_codes(1), where="year > 3")
        index.get(np.arange(2000))
        index.upsert(np.arange(2000), random_codes(2000))

    with pytest.raises((InputError, StorageError), match=r"collection\.db"):
        use()


def changed(folder, *statements):
    """An index with three items whose database was changed by statements of another program."""
    index = open_index(folder, 64)
    item = Item("a", labels=["x", "y"], metadata={"year": 1, "ratio": 0.1 + 0.2, "old": True})
    index.add([0, 1, 2], random_codes(3), [item, Item("b", labels=["x"]), Item("c")])
    index.verify()
    connection = sqlite3.connect(folder / DATABASE_FILE)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return index


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM labels WHERE label = 'y'", "the labels of item 0 differ"),
        ("INSERT INTO labels VALUES (2, 'z')", "the labels of item 2 differ"),
        ("UPDATE fields SET value = 2 WHERE name = 'year'", "the fields of item 0 differ"),
        ("UPDATE fields SET kind = 'number' WHERE name = 'old'", "the fields of item 0 differ"),
        ("DELETE FROM codes WHERE id = 1", "item 1 has no code"),
        ("DELETE FROM items WHERE id = 2", "codes has a row 2 that belongs to none of items"),
        ("UPDATE codes SET image = x'00' WHERE id = 1", "CHECK constraint failed in codes"),
        ("UPDATE items SET labels = '[' WHERE id = 0", "collection.db: Expecting value"),
    ],
)
def test_verify_finds_rows_that_disagree(folder, statement, problem):
    index = changed(folder, statement)
    with pytest.raises(StorageError, match=problem):
        index.verify()


@pytest.mark.parametrize("change", [DAMAGE["truncated"], DAMAGE["zeros"], DAMAGE["noise"]])
def test_verify_finds_damaged_pages(folder, change):
    index = open_index(folder, 64)
    items = [Item(f"key {i}", "text " * 20) for i in range(2000)]
    index.add(np.arange(2000), random_codes(2000), items)
    index.verify()
    index.close()
    path = folder / DATABASE_FILE
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(StorageError, match="damaged"):
        index.verify()


def test_other_schema_version_is_refused(folder):
    open_index(folder, 64).close()
    connection = sqlite3.connect(folder / DATABASE_FILE)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(InputError, match="schema version 9, but this release reads version 2"):
        open_index(folder, 64)


def test_database_of_another_application_is_refused(folder):
    folder.mkdir()
    connection = sqlite3.connect(folder / DATABASE_FILE)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(InputError, match="is not a corrhash collection"):
        open_index(folder, 64)


def test_log_without_a_database_is_refused(folder):
    folder.mkdir()
    (folder / f"{DATABASE_FILE}-wal").write_bytes(b"frames")
    with pytest.raises(InputError, match=r"collection\.db-wal exists, but collection\.db does not"):
        open_index(folder, 64)

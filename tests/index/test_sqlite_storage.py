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
        ("UPDATE items SET labels = '[' WHERE id = 0", "item 0 is damaged: its row is damaged"),
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
    with pytest.raises(InputError, match="schema version 9, but this release reads version 4"):
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


def change(folder, *statements):
    """Change a database behind the back of the engine."""
    connection = sqlite3.connect(folder / DATABASE_FILE)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture
def stored(folder):
    """A folder with twenty items, and their codes."""
    index, codes = open_index(folder, 64), random_codes(20)
    items = [
        Item(f"k{i}", f"text {i}", ["even" if i % 2 == 0 else "odd"], {"year": i}, thumbnail=b"j")
        for i in range(20)
    ]
    index.add(np.arange(20), codes, items)
    index.close()
    return codes


@pytest.mark.parametrize(
    ("statement", "item"),
    [
        ("UPDATE codes SET image = x'0123456789abcdef' WHERE id = 7", 7),
        ("UPDATE codes SET text = image, image = NULL WHERE id = 7", 7),
        ("UPDATE codes SET image = x'00' WHERE id = 7", 7),
        ("UPDATE codes SET checksum = checksum + 1 WHERE id = 7", 7),
    ],
)
def test_damaged_codes_are_reported_and_left_out(folder, stored, statement, item, caplog):
    change(folder, statement)
    index = open_index(folder, 64)
    rows = index.search(stored[:1], 20).rows[0].tolist()
    assert sorted(rows) == [i for i in range(20) if i != item]
    assert f"Item {item} in" in caplog.text
    assert "its code is damaged" in caplog.text
    with pytest.raises(StorageError, match="the code of item 7 is damaged"):
        index.verify()


@pytest.mark.parametrize("column", ["text", "path", "labels", "metadata", "stamp", "content"])
def test_damaged_items_are_reported_and_left_out(folder, stored, column, caplog):
    change(folder, f"UPDATE items SET {column} = '[\"other\"]' WHERE id = 7")
    index = open_index(folder, 64)
    assert [item is None for item in index.get([6, 7, 8])] == [False, True, False]
    assert "Item 7 in" in caplog.text
    assert [number for entries in index.batches() for number in entries.ids] == [
        i for i in range(20) if i != 7
    ]
    with pytest.raises(StorageError, match="item 7 cannot be replaced or deleted"):
        index.delete([7])


def test_text_that_is_not_unicode_is_damage(folder, stored, caplog):
    change(folder, "UPDATE items SET text = CAST(x'74ff' AS TEXT) WHERE id = 7")
    assert open_index(folder, 64).get([7, 8])[0] is None
    assert "its row is damaged" in caplog.text


def test_damaged_thumbnail_is_left_out(folder, stored, caplog):
    change(
        folder,
        "UPDATE thumbnails SET jpeg = x'00' WHERE id = 7",
        "DELETE FROM thumbnails WHERE id=8",
    )
    items = open_index(folder, 64).get([6, 7, 8], ["key", "thumbnail"])
    assert [(item.key, item.thumbnail) for item in items] == [
        ("k6", b"j"),
        ("k7", None),
        ("k8", None),
    ]
    assert "its thumbnails are damaged" in caplog.text


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("DELETE FROM codes WHERE id = 7", lambda i: i.search(random_codes(1), 20)),
        ("DELETE FROM codes WHERE id = 7", lambda i: list(i.batches())),
        ("DELETE FROM labels WHERE id = 8", lambda i: i.select("'even' in labels")),
        ("UPDATE labels SET label = 'x' WHERE id = 8", lambda i: i.select("'x' in labels")),
        ("DELETE FROM fields WHERE id = 8", lambda i: i.select("year > 3")),
        ("UPDATE fields SET value = 9 WHERE id = 8", lambda i: i.select("year > 3")),
        ("UPDATE items SET key = 'x' WHERE id = 8", lambda i: i.ids_of(["k8"])),
        ("UPDATE items SET key = 'x' WHERE id = 8", lambda i: i.select("key > 'k7'")),
        ("UPDATE items SET text = 'x' WHERE id = 8", lambda i: i.select("text > 'k7'")),
        ("UPDATE totals SET n = n + 1 WHERE source = 'codes'", len),
        ("DELETE FROM totals WHERE source = 'codes'", len),
        ("UPDATE meta SET value = replace(value, '64', '32')", lambda i: open_index(i.folder, 32)),
        ("DROP INDEX items_by_content", lambda i: open_index(i.folder, 64)),
        ("UPDATE changes SET token = 1", lambda i: i.search(random_codes(1))),
    ],
)
def test_missing_and_changed_rows_are_errors(folder, stored, statement, question):
    index = open_index(folder, 64)
    change(folder, statement)
    with pytest.raises(StorageError, match="damaged"):
        question(index)


def test_missing_rows_of_items_are_reported(folder, stored, caplog):
    change(folder, "DELETE FROM items WHERE id = 7")
    assert open_index(folder, 64).get([7, 99]) == [None, None]
    assert "Item 7 in" in caplog.text
    assert "its row is missing" in caplog.text
    assert "99" not in caplog.text

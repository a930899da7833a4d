"""The database file: schema, indexes for filters, damage and foreign files."""

import os
import sqlite3

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, open_index
from corrhash.index.filters import parse_filter
from corrhash.index.sqlite_storage import DATABASE_FILE, as_sql


def random_codes(n, n_bits=64, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "c"


@pytest.mark.parametrize("where", ["year >= 2015", "'dog' in labels", "key = 'a'"])
def test_filters_use_an_index(folder, where):
    open_index(folder, 64)
    condition, parameters = as_sql(parse_filter(where))
    connection = sqlite3.connect(folder / DATABASE_FILE)
    plan = connection.execute(
        f"EXPLAIN QUERY PLAN SELECT id FROM codes WHERE {condition}", parameters
    ).fetchall()
    connection.close()
    assert not any(row[3].startswith("SCAN") for row in plan), plan


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
def test_damaged_file_raises_input_error(folder, change):
    damaged(folder, change)

    def use():
        index = open_index(folder, 64)
        index.search(random_codes(1), where="year > 3")
        index.get(np.arange(2000))
        index.upsert(np.arange(2000), random_codes(2000))

    with pytest.raises(InputError, match=r"collection\.db"):
        use()


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

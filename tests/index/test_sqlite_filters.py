"""Filters over SQLite read an index instead of all items."""

import sqlite3

import pytest

from corrhash.index import open_index
from corrhash.index.filter_grammar import parse_filter
from corrhash.index.sqlite_filters import as_sql
from corrhash.index.sqlite_storage import DATABASE_FILE


@pytest.mark.parametrize(
    "where",
    [
        ["year >= 2015", "year < 2020"],
        ["'dog' in labels"],
        ["key = 'a'"],
        ["key >= 'a'", "key < 'b'"],
    ],
)
def test_filters_use_an_index(tmp_path, where):
    folder = tmp_path / "c"
    open_index(folder, 64)
    source, parameters = as_sql(*map(parse_filter, where))
    connection = sqlite3.connect(folder / DATABASE_FILE)
    plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT id FROM {source}", parameters).fetchall()
    connection.close()
    assert [row[3].split()[0] for row in plan] == ["SEARCH"], plan

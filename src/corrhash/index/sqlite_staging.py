"""Codes of another model beside the current ones: staged in batches, exchanged in one transaction.

Every item has at most one row of staged codes. Changing or deleting an item deletes its row, so
that staged codes never belong to an earlier version of an item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes
from corrhash.errors import StorageError
from corrhash.index.sqlite_checksums import CODES, Changes, code_checksums, damaged, row_checksum
from corrhash.index.sqlite_generation import newest
from corrhash.index.sqlite_rows import parse_ids
from corrhash.index.sqlite_storage import log_ids

if TYPE_CHECKING:
    import sqlite3

    from corrhash.index.sqlite import SQLiteIndex

BATCH = 10_000
"""Items that are exchanged at a time."""

COLUMNS = ("image", "text", "image_continuous", "text_continuous")

Codings = dict[str, tuple[NDArray[np.int64], Codes, list[bytes] | None]]
"""Per modality: which of the ids have a code, the codes, and their continuous codes if stored."""


class _DamagedError(Exception):
    """Raised to undo an exchange; the argument is the id of an item with damaged staged codes."""


class Staging:
    """Codes of another model, which an exchange makes the current ones.

    Parameters
    ----------
    index : the collection's index.
    """

    def __init__(self, index: SQLiteIndex) -> None:
        self.index = index

    def missing(self, n: int) -> NDArray[np.int64]:
        """Return the first ``n`` ids that have no staged codes."""
        sql = (
            "SELECT group_concat(id) FROM (SELECT id FROM codes WHERE NOT EXISTS "
            "(SELECT 1 FROM staged_codes WHERE staged_codes.id = codes.id) ORDER BY id LIMIT ?)"
        )
        with self.index._reading() as connection:
            return parse_ids(connection.execute(sql, (n,)).fetchone()[0])

    def n_staged(self) -> int:
        """Return how many items have staged codes."""
        with self.index._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM staged_codes").fetchone()[0])

    def start(self, **about: Any) -> None:
        """Delete all staged codes, and describe those that follow."""
        with self.index.writing():
            with self.index._writing() as connection:
                connection.execute("DELETE FROM staged_codes")
            self.index.describe(**about)

    def version(self) -> int:
        """Return the version of the change log, to pass to :meth:`stage`."""
        with self.index._reading() as connection:
            return newest(connection).version

    def stage(self, ids: NDArray[np.int64], codings: Codings, version: int) -> int:
        """Store codes of items, unless they were changed or deleted since a version.

        Returns how many were stored.
        """
        rows = {number: [number, None, None, None, None] for number in ids.tolist()}
        for at, modality in enumerate(("image", "text"), start=1):
            if modality not in codings:
                continue
            places, codes, continuous = codings[modality]
            for row, place in enumerate(places.tolist()):
                rows[int(ids[place])][at] = codes.packed[row].tobytes()
                rows[int(ids[place])][at + 2] = None if continuous is None else continuous[row]
        with self.index.writing(), self.index._writing() as connection:
            unchanged = ids[~_changed(connection, ids, version)]
            kept = [rows[number] for number in self.index._existing(unchanged).tolist()]
            connection.executemany(
                "INSERT OR REPLACE INTO staged_codes VALUES (?, ?, ?, ?, ?, ?)",
                ((*row, row_checksum("staged_codes", *row)) for row in kept),
            )
        return len(kept)

    def exchange(self, **about: Any) -> bool:
        """Make the staged codes the current ones and the current ones staged, in one transaction.

        ``about`` changes the description of the index in the same transaction. Returns False, and
        exchanges nothing, if an item has no staged codes, or damaged ones, which are deleted.
        """
        try:
            return self._exchange(about)
        except _DamagedError as error:
            with self.index.writing(), self.index._writing() as connection:
                connection.execute("DELETE FROM staged_codes WHERE id = ?", error.args)
            return False

    def _exchange(self, about: dict[str, Any]) -> bool:
        index = self.index
        with index.writing():
            if len(self.missing(1)):
                return False
            with index._writing() as connection:
                ids = parse_ids(
                    connection.execute("SELECT group_concat(id) FROM codes").fetchone()[0]
                )
                for start in range(0, len(ids), BATCH):
                    last = int(ids[min(len(ids), start + BATCH) - 1])
                    _exchange(connection, index.n_bits, int(ids[start]), last)
                log_ids(connection, np.sort(ids))
            # The attribute follows with the codes: until the commit, searches use the old model.
            index._write_about({**index.about, **about})
        return True


def _changed(
    connection: sqlite3.Connection, ids: NDArray[np.int64], version: int
) -> NDArray[np.bool_]:
    """Return which ids were written since a version; all if the change log is too short."""
    changed = np.zeros(len(ids), bool)
    sql = "SELECT version, first, last FROM changes WHERE version >= ?"
    rows = connection.execute(sql, (version,)).fetchall()
    if version not in {row[0] for row in rows}:
        return ~changed
    for found, first, last in rows:
        if found > version:
            changed |= (ids >= first) & (ids <= last)
    return changed


def _exchange(connection: sqlite3.Connection, n_bits: int, first: int, last: int) -> None:
    """Exchange the codes of the ids in a range."""
    span, width, changes = (first, last), -(-n_bits // 8), Changes()
    sql = (
        "SELECT id, codes.image, codes.text, codes.checksum, staged_codes.*, "
        "continuous_codes.image, continuous_codes.text, continuous_codes.checksum "
        "FROM codes JOIN staged_codes USING (id) LEFT JOIN continuous_codes USING (id) "
        "WHERE id BETWEEN ? AND ? ORDER BY id"
    )
    rows = connection.execute(sql, span).fetchall()
    ids = np.array([row[0] for row in rows], np.int64)
    if not np.array_equal(_code_checksums(ids, [row[1:3] for row in rows], width), _at(rows, 3)):
        raise damaged("some codes are damaged")
    for row in rows:
        if row[9] != row_checksum("staged_codes", *row[4:9]):
            raise _DamagedError(row[0])
        if [value is None for value in row[1:3]] != [value is None for value in row[5:7]]:
            raise StorageError(
                f"Item {row[0]} cannot be encoded again. Run corrhash info --verify to check the "
                "collection for damage."
            )
        if row[12] is not None and row[12] != row_checksum("continuous_codes", row[0], *row[10:12]):
            raise damaged("some continuous codes are damaged")
    after = _code_checksums(ids, [row[5:7] for row in rows], width)
    changes.add(CODES, int(after.sum() - _at(rows, 3).sum()), n=0)
    changes.write(connection)
    connection.executemany(
        "UPDATE codes SET image = ?, text = ?, checksum = ? WHERE id = ?",
        ((*row[5:7], of_row, row[0]) for row, of_row in zip(rows, after.tolist(), strict=True)),
    )
    stored = [row for row in rows if row[12] is not None]
    connection.executemany(
        "UPDATE continuous_codes SET image = ?, text = ?, checksum = ? WHERE id = ?",
        (
            (*row[7:9], row_checksum("continuous_codes", row[0], *row[7:9]), row[0])
            for row in stored
        ),
    )
    before = (
        (row[0], *row[1:3], *(row[10:12] if row[12] is not None else row[7:9])) for row in rows
    )
    connection.executemany(
        "INSERT OR REPLACE INTO staged_codes VALUES (?, ?, ?, ?, ?, ?)",
        ((*row, row_checksum("staged_codes", *row)) for row in before),
    )


def _at(rows: list[Any], column: int) -> NDArray[np.int64]:
    return np.array([row[column] for row in rows], np.int64)


def _code_checksums(
    ids: NDArray[np.int64], codes: list[tuple[bytes | None, bytes | None]], width: int
) -> NDArray[np.int64]:
    """Return the checksums of rows of the table of codes."""
    kinds, packed = np.zeros(len(ids), np.uint8), np.zeros((2, len(ids), width), np.uint8)
    for row, values in enumerate(codes):
        for bit, value in enumerate(values):
            if value is not None:
                kinds[row] |= 1 << bit
                packed[bit, row] = np.frombuffer(value, np.uint8)
    return code_checksums(ids, kinds, [*packed])

"""Deleting items of a collection: by key, by filter, and those whose files are gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from corrhash._files import absolute_path
from corrhash._progress import report
from corrhash.collection.adding import root_of
from corrhash.collection.base import check_deletion
from corrhash.errors import InputError
from corrhash.index.base import CodeIndex
from corrhash.index.filters import Filter

LOOKED_UP = 10_000
"""Items whose files are looked for at once."""


def delete_items(
    index: CodeIndex,
    keys: str | Iterable[str] | None = None,
    where: str | Filter | None = None,
    *,
    dry_run: bool = False,
) -> int:
    """Delete items by key, filter or both (the given items that pass it); return how many."""
    names = check_deletion(keys, where)
    with index.writing():
        found = set() if names is None else set(index.ids_of(names).values())
        if where is not None:
            passing = set(index.select(where).tolist())
            found = passing if names is None else found & passing
        return len(found) if dry_run else index.delete(sorted(found))


def prune(index: CodeIndex, folder: str | Path) -> int:
    """Delete the items whose files were below a folder and are gone; return how many."""
    if not Path(folder).is_dir() or not any(Path(folder).iterdir()):
        raise InputError(
            f"{folder} is empty or not a folder, so nothing was pruned. If it is on an external "
            "disk, connect it. To remove the items anyway, use corrhash delete."
        )
    root, top, n_deleted = root_of(index), absolute_path(folder), 0
    ids = index.select("path != ''").tolist()
    for start in range(0, len(ids), LOOKED_UP):
        some = ids[start : start + LOOKED_UP]
        items = zip(some, index.get(some, ["path"]), strict=True)
        files = {number: Path(root, item.path) for number, item in items if item is not None}
        below = {number: file for number, file in files.items() if file.is_relative_to(top)}
        n_deleted += index.delete([number for number, file in below.items() if not file.exists()])
        report("Looking for files", start + len(some), len(ids))
    return n_deleted

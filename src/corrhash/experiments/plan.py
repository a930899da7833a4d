"""Plan: datasets, methods, lengths and seeds of a study, read from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from corrhash.datasets.supervision import CHOICES
from corrhash.errors import InputError
from corrhash.experiments.experiment import Bits, Experiment, settings
from corrhash.experiments.settings import method_class, new_hasher
from corrhash.experiments.tuning import MOST_CONFIGURATIONS, TUNING_BITS, configurations

KEYS = {
    "datasets": list,
    "methods": list,
    "n_bits": list,
    "seeds": list,
    "tune": bool,
    "supervision": str,
    "data": dict,
    "rows": dict,
    "params": dict,
    "grid": dict,
    "unseen": dict,
}
ROW_KEYS = {
    "method": str,
    "n_bits": list,
    "seeds": list,
    "image_features": str,
    "literal": bool,
    "tune": bool,
}
UNSEEN_KEYS = {"methods": list, "n_bits": list, "seeds": list}


@dataclass(frozen=True)
class Row:
    """A row of the tables: a method with its settings, and what tuning tries.

    ``n_bits`` and ``seeds`` are those of the plan if None.
    """

    name: str
    method: str
    params: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    n_bits: Sequence[Bits] | None = None
    seeds: Sequence[int] | None = None
    image_features: str | None = None
    literal: bool = False
    tune: bool = True


@dataclass(frozen=True)
class Plan:
    """What a study runs: every row on every dataset, at every length, with every seed.

    Parameters
    ----------
    datasets : names; ``data`` holds their options.
    rows : methods with their settings.
    n_bits, seeds : of the rows that have none of their own.
    tune : choose settings on validation items first.
    tuning_seed : with which seed they are compared, whatever part of the plan is run.
    supervision : what teaches the methods.
    unseen : which rows, lengths and seeds are also measured on labels held out of training.
    """

    datasets: tuple[str, ...]
    rows: tuple[Row, ...]
    n_bits: tuple[Bits, ...]
    seeds: tuple[int, ...] = (0,)
    tune: bool = True
    tuning_seed: int = 0
    supervision: str = "labels"
    data: Mapping[str, Mapping[str, Any]] | None = None
    unseen: Mapping[str, Sequence[Any]] | None = None

    def trials(self) -> dict[tuple[str, str], list[Experiment]]:
        """For each dataset and row the settings to compare; none where there is no choice.

        At 32 bits with the first seed, by the rules of ``docs/study.md``.
        """
        compared: dict[tuple[str, str], list[Experiment]] = {}
        for dataset, row in product(self.datasets, self.rows):
            own = (row.n_bits or self.n_bits) == ("labels",)
            tried = configurations(row.grid)
            if self.tune and row.tune and len(tried) > 1:
                compared[dataset, row.name] = [
                    self._experiment(
                        dataset, row, "labels" if own else TUNING_BITS, self.tuning_seed, chosen
                    )
                    for chosen in tried
                ]
        return compared

    def experiments(self, chosen: Mapping[tuple[str, str], dict[str, Any]]) -> list[Experiment]:
        """Everything to run, with the settings that tuning chose; same data stands together."""
        cells = []
        for dataset, row in product(self.datasets, self.rows):
            found = chosen.get((dataset, row.name), {})
            for seed, n_bits in product(row.seeds or self.seeds, row.n_bits or self.n_bits):
                cell = self._experiment(dataset, row, n_bits, seed, found)
                cells.append(cell)
                if self._asks_unseen(row, n_bits, seed):
                    cells.append(replace(cell, unseen=True))
        place = {dataset: number for number, dataset in enumerate(self.datasets)}
        return sorted(
            cells, key=lambda e: (place[e.dataset], e.unseen, e.seed, e.image_features or "")
        )

    def only(
        self,
        methods: Iterable[str] = (),
        n_bits: Iterable[int] = (),
        seeds: Iterable[int] = (),
        *,
        tune: bool | None = None,
        supervision: str | None = None,
    ) -> Plan:
        """A part of the plan, or the whole of it tuned or taught otherwise.

        Rows that have lengths or seeds of their own are left out where none of them is wanted.
        """
        methods, n_bits, seeds = tuple(methods), tuple(n_bits), tuple(seeds)
        for name in methods:
            _check_known(name, [row.name for row in self.rows], "The plan has no method")
        rows = [row for row in self.rows if not methods or row.name in methods]
        rows = [
            replace(row, n_bits=_among(row.n_bits, n_bits), seeds=_among(row.seeds, seeds))
            for row in rows
        ]
        return replace(
            self,
            rows=tuple(row for row in rows if row.n_bits != () and row.seeds != ()),
            n_bits=n_bits or self.n_bits,
            seeds=seeds or self.seeds,
            tune=self.tune if tune is None else tune,
            supervision=_check_supervision(supervision or self.supervision),
        )

    def _experiment(
        self, dataset: str, row: Row, n_bits: Bits, seed: int, chosen: Mapping[str, Any]
    ) -> Experiment:
        options = dict((self.data or {}).get(dataset, {}))
        features = options.pop("image_features", None)
        return Experiment(
            dataset,
            row.method,
            n_bits,
            seed,
            row=row.name,
            params=settings({**row.params, **chosen}),
            options=settings(options),
            image_features=row.image_features or features,
            supervision=self.supervision,
            literal=row.literal,
        )

    def _asks_unseen(self, row: Row, n_bits: Bits, seed: int) -> bool:
        if self.unseen is None:
            return False
        wanted = {"methods": row.name, "n_bits": n_bits, "seeds": seed}
        return all(value in self.unseen.get(key, (value,)) for key, value in wanted.items())


def _among(own: Sequence[Any] | None, wanted: Sequence[Any]) -> tuple[Any, ...] | None:
    """What of a row's own lengths or seeds is wanted; None where it has none of its own."""
    return None if own is None else tuple(each for each in own if not wanted or each in wanted)


def read_plan(path: str | Path) -> Plan:
    """The plan in a TOML file, checked to its last setting before anything runs."""
    try:
        content = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"Cannot read the plan {path}: {error.strerror}.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    try:
        return parse_plan(content)
    except InputError as error:
        raise InputError(f"In the plan {path}: {error}") from error


def parse_plan(content: Mapping[str, Any]) -> Plan:
    """The plan in a dictionary, as TOML gives it."""
    _check_keys(content, KEYS, "a plan")
    for key in ("datasets", "methods", "n_bits"):
        if not content.get(key):
            raise InputError(f"{key} is missing. Write for instance {_EXAMPLES[key]}.")
    names = content["methods"]
    for table in ("rows", "params", "grid"):
        for name in content.get(table, {}):
            _check_known(name, names, f"[{table}] is of a method that is not listed:")
    for name in content.get("data", {}):
        _check_known(name, content["datasets"], "[data] is of a dataset that is not listed:")
    unseen = content.get("unseen")
    if unseen is not None:
        _check_keys(unseen, UNSEEN_KEYS, "[unseen]")
        for name in unseen.get("methods", []):
            _check_known(name, names, "[unseen] names a method that is not listed:")
    return Plan(
        datasets=tuple(content["datasets"]),
        rows=tuple(_row(name, content) for name in names),
        n_bits=tuple(content["n_bits"]),
        seeds=tuple(content.get("seeds", [0])),
        tune=content.get("tune", True),
        tuning_seed=content.get("seeds", [0])[0],
        supervision=_check_supervision(content.get("supervision", "labels")),
        data=content.get("data", {}),
        unseen=unseen,
    )


_EXAMPLES = {
    "datasets": 'datasets = ["synthetic"]',
    "methods": 'methods = ["chn", "cvh"]',
    "n_bits": "n_bits = [16, 32]",
}


def _row(name: str, content: Mapping[str, Any]) -> Row:
    said = content.get("rows", {}).get(name, {})
    _check_keys(said, ROW_KEYS, f"[rows.{name}]")
    method = method_class(said.get("method", name))
    literal = said.get("literal", False)
    grid = content.get("grid", {}).get(name, {} if literal else method.grid)
    row = Row(
        name=name,
        method=said.get("method", name),
        params=content.get("params", {}).get(name, {}),
        grid=grid,
        n_bits=tuple(said["n_bits"]) if "n_bits" in said else None,
        seeds=tuple(said["seeds"]) if "seeds" in said else None,
        image_features=said.get("image_features"),
        literal=literal,
        tune=said.get("tune", True),
    )
    tried = configurations(grid)
    if len(tried) > MOST_CONFIGURATIONS:
        raise InputError(
            f"The grid of {name} has {len(tried)} combinations. Every method gets at "
            f"most {MOST_CONFIGURATIONS}, so that none is tuned harder: list fewer values."
        )
    for chosen in tried:
        new_hasher(method, TUNING_BITS, {**row.params, **chosen}, literal=literal)
    return row


def _check_keys(table: Mapping[str, Any], known: Mapping[str, type], what: str) -> None:
    for key, value in table.items():
        _check_known(key, known, f"There is no {key!r} in {what}:")
        if not isinstance(value, known[key]):
            raise InputError(f"{key} of {what} must be a {known[key].__name__}. Got {value!r}.")


def _check_known(name: str, known: Iterable[str], what: str) -> None:
    if name not in known:
        raise InputError(f"{what} {name!r}. Choose one of: {', '.join(known)}.")


def _check_supervision(name: str) -> str:
    _check_known(name, CHOICES, "There is no supervision")
    return name

"""Plan: the datasets, methods, code lengths and seeds of a study, read from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from corrhash._files import open_regular
from corrhash.datasets.supervision import CHOICES
from corrhash.errors import InputError
from corrhash.experiments.experiment import Bits, Experiment, settings
from corrhash.experiments.options import method_class, new_hasher

MAX_CONFIGURATIONS = 8
"""How many settings tuning compares at most: the same budget for every method."""

TUNING_BITS = 32
"""Code length at which settings are tuned; they are then used at all lengths."""

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
    "paper_settings": bool,
    "supervision": str,
    "tune": bool,
}
UNSEEN_KEYS = {"methods": list, "n_bits": list, "seeds": list}
TOML_TYPES = {bool: "a boolean", dict: "a table", list: "an array", str: "a string"}
EXAMPLES = {
    "datasets": 'datasets = ["synthetic"]',
    "methods": 'methods = ["chn", "cvh"]',
    "n_bits": "n_bits = [16, 32]",
    "seeds": "seeds = [0, 1, 2]",
}


@dataclass(frozen=True)
class Row:
    """A row of the tables: a method with its settings and its tuning grid.

    ``n_bits``, ``seeds`` and ``supervision`` are those of the plan if None.
    """

    name: str
    method: str
    params: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    n_bits: Sequence[Bits] | None = None
    seeds: Sequence[int] | None = None
    image_features: str | None = None
    paper_settings: bool = False
    supervision: str | None = None
    tune: bool = True


@dataclass(frozen=True)
class Plan:
    """What a study runs: every row on every dataset, at every code length, with every seed.

    Parameters
    ----------
    datasets : names; ``data`` holds their options. The option ``source`` names the dataset to
        load, so that several names can stand for one dataset with different features. The option
        ``settings_of`` names the dataset on which the settings are tuned instead.
    rows : methods with their settings.
    n_bits, seeds : of the rows that do not define their own.
    tune : whether to choose settings by validation mAP first.
    tuning_seed : seed of the tuning trials, whichever part of the plan is run.
    supervision : supervision of the methods.
    unseen : rows, code lengths and seeds to evaluate on held-out labels as well.
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

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the datasets to load, each once; several entries can use one dataset."""
        sources = (self._options(dataset).get("source", dataset) for dataset in self.datasets)
        return tuple(dict.fromkeys(sources))

    def trials(self) -> dict[tuple[str, str], list[Experiment]]:
        """Return the tuning trials of each dataset and row that has a choice of settings.

        They run at 32 bits with the first seed; ``docs/guides/rerun_study.md`` gives the rules.
        """
        trials: dict[tuple[str, str], list[Experiment]] = {}
        tuned_datasets = [each for each in self.datasets if self.tuned_on(each) == each]
        for dataset, row in product(tuned_datasets, self.rows):
            only_labels = (row.n_bits or self.n_bits) == ("labels",)
            n_bits: Bits = "labels" if only_labels else TUNING_BITS
            tried = configurations(row.grid)
            if self.tune and row.tune and len(tried) > 1:
                trials[dataset, row.name] = [
                    self._experiment(dataset, row, n_bits, self.tuning_seed, chosen)
                    for chosen in tried
                ]
        return trials

    def experiments(self, tuned: Mapping[tuple[str, str], dict[str, Any]]) -> list[Experiment]:
        """Return everything to run with the tuned settings; same data is adjacent."""
        experiments = []
        for dataset, row in product(self.datasets, self.rows):
            chosen = tuned.get((self.tuned_on(dataset), row.name), {})
            for seed, n_bits in product(row.seeds or self.seeds, row.n_bits or self.n_bits):
                experiment = self._experiment(dataset, row, n_bits, seed, chosen)
                experiments.append(experiment)
                if self._includes_unseen(row, n_bits, seed):
                    experiments.append(replace(experiment, unseen=True))
        order = {dataset: number for number, dataset in enumerate(self.datasets)}
        return sorted(
            experiments, key=lambda e: (order[e.dataset], e.unseen, e.seed, e.image_features or "")
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
        """Return a part of the plan, or the plan with other tuning or supervision.

        Rows that define their own code lengths or seeds are skipped if none of them is selected.
        """
        methods, n_bits, seeds = tuple(methods), tuple(n_bits), tuple(seeds)
        for name in methods:
            _check_known(name, [row.name for row in self.rows], "The plan has no method", "; ")
        rows = [row for row in self.rows if not methods or row.name in methods]
        rows = [
            replace(row, n_bits=_selected(row.n_bits, n_bits), seeds=_selected(row.seeds, seeds))
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
        options = self._options(dataset)
        options.pop("settings_of", None)
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
            supervision=row.supervision or self.supervision,
            paper_settings=row.paper_settings,
        )

    def _options(self, dataset: str) -> dict[str, Any]:
        return dict((self.data or {}).get(dataset, {}))

    def tuned_on(self, dataset: str) -> str:
        """Return the dataset whose validation items choose the settings."""
        return str(self._options(dataset).get("settings_of", dataset))

    def _includes_unseen(self, row: Row, n_bits: Bits, seed: int) -> bool:
        if self.unseen is None:
            return False
        values = {"methods": row.name, "n_bits": n_bits, "seeds": seed}
        return all(value in self.unseen.get(key, (value,)) for key, value in values.items())


def configurations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of the values in a grid; one empty combination if it is empty.

    >>> configurations({"ridge": (0.1, 1.0), "seed": (0,)})
    [{'ridge': 0.1, 'seed': 0}, {'ridge': 1.0, 'seed': 0}]
    """
    return [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())]


def read_plan(path: str | Path) -> Plan:
    """Read a plan from a TOML file and check every setting before anything runs."""
    try:
        with open_regular(path) as file:
            content = tomllib.load(file)
    except OSError as error:
        raise InputError(
            f"Cannot read the plan {path}: {error.strerror}. Check the path."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"The plan {path} is not valid TOML: {error}.") from error
    try:
        return parse_plan(content)
    except InputError as error:
        raise InputError(f"In the plan {path}: {error}") from error


def parse_plan(content: Mapping[str, Any]) -> Plan:
    """Return the plan that a dictionary, parsed from TOML, describes."""
    _check_keys(content, KEYS, "a plan")
    for key, example in EXAMPLES.items():
        if not content.get(key, key == "seeds"):  # seeds have a default
            raise InputError(f"{key} is missing. Add it, for example: {example}.")
    names = content["methods"]
    for table in ("rows", "params", "grid"):
        for name in content.get(table, {}):
            _check_known(name, names, f"[{table}] names a method that the plan does not list:")
    for name in content.get("data", {}):
        _check_known(
            name, content["datasets"], "[data] names a dataset that the plan does not list:"
        )
    _check_tables(content)
    _check_settings_of(content)
    unseen = content.get("unseen")
    if unseen is not None:
        _check_keys(unseen, UNSEEN_KEYS, "[unseen]")
        for name in unseen.get("methods", []):
            _check_known(name, names, "[unseen] names a method that the plan does not list:")
    return Plan(
        datasets=tuple(content["datasets"]),
        rows=tuple(_parse_row(name, content) for name in names),
        n_bits=tuple(content["n_bits"]),
        seeds=tuple(content.get("seeds", [0])),
        tune=content.get("tune", True),
        tuning_seed=content.get("seeds", [0])[0],
        supervision=_check_supervision(content.get("supervision", "labels")),
        data=content.get("data", {}),
        unseen=unseen,
    )


def _check_tables(content: Mapping[str, Any]) -> None:
    """Check that the tables of datasets and methods are tables, and that grids hold arrays."""
    for name in ("data", "rows", "params", "grid"):
        table = content.get(name, {})
        _check_keys(table, dict.fromkeys(table, dict), f"[{name}]")
    for name, grid in content.get("grid", {}).items():
        _check_keys(grid, dict.fromkeys(grid, list), f"[grid.{name}]")
        for setting, values in grid.items():
            if not values:
                raise InputError(f"{setting} of [grid.{name}] is empty. List values, or remove it.")


def _check_settings_of(content: Mapping[str, Any]) -> None:
    """Check that datasets take their settings from others that are tuned."""
    named = {
        name: options["settings_of"]
        for name, options in content.get("data", {}).items()
        if "settings_of" in options
    }
    tuned = [name for name in content["datasets"] if name not in named]
    for name, source in named.items():
        _check_known(
            source, tuned, f"settings_of of {name!r} must name a dataset that is tuned, got", "; "
        )


def _parse_row(name: str, content: Mapping[str, Any]) -> Row:
    table = content.get("rows", {}).get(name, {})
    _check_keys(table, ROW_KEYS, f"[rows.{name}]")
    method = method_class(table.get("method", name))
    paper_settings = table.get("paper_settings", False)
    grid = content.get("grid", {}).get(name, {} if paper_settings else method.grid)
    row = Row(
        name=name,
        method=table.get("method", name),
        params=content.get("params", {}).get(name, {}),
        grid=grid,
        n_bits=tuple(table["n_bits"]) if "n_bits" in table else None,
        seeds=tuple(table["seeds"]) if "seeds" in table else None,
        image_features=table.get("image_features"),
        paper_settings=paper_settings,
        supervision=_check_supervision(table["supervision"]) if "supervision" in table else None,
        tune=table.get("tune", True),
    )
    tried = configurations(grid)
    if len(tried) > MAX_CONFIGURATIONS:
        raise InputError(
            f"The grid of {name} has {len(tried)} combinations. Tuning is limited to "
            f"{MAX_CONFIGURATIONS} combinations per method. List fewer values."
        )
    for chosen in tried:
        new_hasher(method, TUNING_BITS, {**row.params, **chosen}, paper_settings=paper_settings)
    return row


def _selected(values: Sequence[Any] | None, wanted: Sequence[Any]) -> tuple[Any, ...] | None:
    """Select code lengths or seeds of a row; None if it uses those of the plan."""
    if values is None:
        return None
    return tuple(value for value in values if not wanted or value in wanted)


def _check_keys(table: Mapping[str, Any], known: Mapping[str, type], what: str) -> None:
    for key, value in table.items():
        _check_known(key, known, f"Unknown key in {what}:")
        if not isinstance(value, known[key]):
            expected = TOML_TYPES[known[key]]
            raise InputError(f"{key} of {what} must be {expected}, got {value!r}.")


def _check_known(name: str, known: Iterable[str], what: str, separator: str = ", ") -> None:
    if name not in known:
        raise InputError(f"{what} {name!r}. Choose one of: {separator.join(known)}.")


def _check_supervision(name: str) -> str:
    _check_known(name, CHOICES, "Unknown supervision")
    return name

"""Imports point downwards, and heavy libraries stay where they belong."""

import ast
from pathlib import Path

import pytest

import corrhash

PACKAGE = Path(corrhash.__file__).parent

# Lowest first. A module imports from the lines above its own, and from its own package.
LAYERS = [
    ["errors", "docpage", "progress", "freed_memory"],
    ["atomic_write", "cache_folder", "checksum", "lazy_table"],
    ["codes", "kernels"],
    ["ranking", "relevance", "filters", "rerank"],
    ["datasets"],
    ["metrics", "index", "losses", "networks"],
    ["methods", "records"],
    ["encoder", "saved_model", "sources", "collection_folder", "matches"],
    ["collection", "experiments", "sheet"],
    ["service", "client"],
    ["demo"],
    ["cli"],
]

# Libraries that load slowly or that only one part may know.
HOMES = {
    "torch": ["losses", "networks", "methods"],
    "transformers": ["networks.transformers"],
    "onnx": ["networks.onnx_graph"],
    "onnxruntime": ["networks.onnx"],
    "h5py": ["datasets.array_files"],
    "matplotlib": ["experiments.plots", "experiments.figures"],
    "typer": ["cli"],
    "rich": ["cli"],
    "numba": ["kernels"],
    "pyarrow": ["datasets.manifest", "index.lancedb", "sources.parquet"],
    "snowballstemmer": ["datasets.words"],
    "llvmlite": ["kernels"],
    "lancedb": ["index.lancedb"],
    "pymilvus": ["index.milvus"],
    "PIL": ["datasets", "networks.pixels", "records", "encoder", "sheet", "service.uploads"],
    "fastapi": ["service"],
    "starlette": ["service"],
    "pydantic": ["service.messages"],
    "uvicorn": ["service.run"],
    "prometheus_client": ["service.metrics"],
    "urllib3": ["client"],
}

MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.name not in ("__main__.py",))


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(path):
    """Every module that the file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "corrhash":
            yield from (f"corrhash.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module


def level_of(name):
    part = name.split(".")[0]
    return next(level for level, names in enumerate(LAYERS) if part in names)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_downwards(path):
    name = name_of(path)
    if not name:
        return  # the package itself lists what most people need
    for imported in imports_of(path):
        if not imported.startswith("corrhash."):
            continue
        target = imported.removeprefix("corrhash.")
        if target == "__version__":
            continue
        same_part = target.split(".")[0] == name.split(".")[0]
        assert same_part or level_of(target) < level_of(name), f"{name} imports {target}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_libraries_stay_where_they_belong(path):
    for imported in imports_of(path):
        library = imported.split(".")[0]
        homes = HOMES.get(library)
        if homes is not None:
            assert name_of(path).startswith(tuple(homes)), f"{name_of(path)} imports {library}"


def test_every_part_of_the_package_has_a_layer():
    parts = {name_of(path).split(".")[0] for path in MODULES} - {""}
    assert parts == {name for names in LAYERS for name in names}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_file_opens_with_a_sentence(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.splitlines()[0].endswith(".")

"""The import rules of docs/explanation/architecture.md: layers, and homes of libraries."""

import ast
import re
from pathlib import Path

import pytest

import corrhash

PACKAGE = Path(corrhash.__file__).parent
DOCUMENT = Path(__file__).parent.parent / "docs" / "explanation" / "architecture.md"


def section(title):
    return DOCUMENT.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def read_layers():
    """The lines of the document's list, lowest layer first, each a list of names."""
    (block,) = re.findall(r"```\n(.*?)```", section("Layers"), flags=re.DOTALL)
    return [line.split() for line in block.splitlines()]


def read_homes():
    """Libraries of the document's table, each with the modules that import it."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section("Library homes"), flags=re.MULTILINE)
    homes = {library: re.findall(r"`([\w.]+)`", modules) for library, modules in rows}
    assert len(homes) == section("Library homes").count("\n| ") - 1, "one library per row"
    return homes


LAYERS = read_layers()
HOMES = read_homes()
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.name not in ("__main__.py",))


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def runtime_nodes(node):
    """Walk a syntax tree, except what only type checkers see."""
    yield node
    for child in ast.iter_child_nodes(node):
        only_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        for each in child.orelse if only_types else [child]:
            yield from runtime_nodes(each)


def imports_of(path):
    """Every module that the file imports, at its top or inside a function."""
    for node in runtime_nodes(ast.parse(path.read_text())):
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
def test_imports_point_to_lower_layers(path):
    name = name_of(path)
    if not name:
        return  # the root package re-exports names of every layer
    for imported in imports_of(path):
        if not imported.startswith("corrhash."):
            continue
        target = imported.removeprefix("corrhash.")
        if target == "__version__":
            continue
        same_part = target.split(".")[0] == name.split(".")[0]
        assert same_part or level_of(target) < level_of(name), f"{name} imports {target}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_library_is_imported_only_in_its_home(path):
    for imported in imports_of(path):
        library = imported.split(".")[0]
        homes = HOMES.get(library)
        if homes is not None:
            name = name_of(path)
            at_home = any(name == home or name.startswith(f"{home}.") for home in homes)
            assert at_home, f"{name} imports {library}; {DOCUMENT.name} lists {homes}"


def test_every_part_has_a_layer():
    parts = {name_of(path).split(".")[0] for path in MODULES} - {""}
    assert parts == {name for names in LAYERS for name in names}, f"update {DOCUMENT.name}"


def test_tree_lists_every_part():
    block = re.search(r"```\nsrc/corrhash/\n(.*?)```", section("Tree"), flags=re.DOTALL).group(1)
    listed, part = set(), ""
    for indent, name in re.findall(r"^(│?   |)[├└]── (\w+)(?:\.py|/)", block, flags=re.MULTILINE):
        part = part if indent else name
        listed.add(f"{part}/{name}" if indent else name)
    parts = {name for names in LAYERS for name in names}
    folders = {path.parent for path in PACKAGE.glob("*/*/*") if path.suffix in (".py", ".js")}
    assert listed == parts | {str(folder.relative_to(PACKAGE)) for folder in folders}


@pytest.mark.parametrize("library", HOMES)
def test_home_imports_its_library(library):
    for home in HOMES[library]:
        paths = [p for p in MODULES if f"{name_of(p)}.".startswith(f"{home}.")]
        libraries = {name.split(".")[0] for path in paths for name in imports_of(path)}
        assert library in libraries, f"{home} does not import {library}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_file_opens_with_a_sentence(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.splitlines()[0].endswith(".")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_file_has_at_most_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400

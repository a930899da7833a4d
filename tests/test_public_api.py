"""The root package: what it exports, and what importing it costs."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import corrhash

HEAVY = ("numba", "numpy", "PIL", "scipy", "sklearn", "torch", "typer")


def test_import_loads_no_heavy_package():
    check = f"import sys, corrhash; print([name for name in {HEAVY} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", corrhash.__all__)
def test_exported_name_resolves(name):
    assert getattr(corrhash, name) is not None
    assert name in dir(corrhash)


def test_type_checkers_see_the_exported_names():
    tree = ast.parse(Path(corrhash.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (alias.name, statement.module)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    table = ast.literal_eval(block.orelse[0].value.args[1])
    assert typed == {(name, module) for module, names in table.items() for name in names}
    assert sorted(corrhash.__all__) == sorted([name for name, _ in typed] + ["__version__"])


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(corrhash, "NoSuchName")
    with pytest.raises(ImportError, match="NoSuchName"):
        from corrhash import NoSuchName  # noqa: F401


def test_reference_documents_every_name():
    text = (Path(__file__).parent.parent / "docs" / "reference" / "api.md").read_text()
    documented = re.findall(r"^\.\. auto(?:class|function|exception):: (\S+)$", text, re.MULTILINE)
    assert set(corrhash.__all__) - {"__version__"} == {n for n in documented if "." not in n}
    for path in (n for n in documented if "." in n):
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path

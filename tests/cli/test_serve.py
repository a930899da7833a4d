"""The command serve: its address, its token and missing packages."""

import subprocess
import sys

import pytest

from corrhash.collection import Collection
from tests.cli.commands import fail, run
from tests.collection.world import World


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("images"))
    folder = tmp_path_factory.mktemp("collection") / "images"
    Collection.create(folder, world.model).add(world.records(range(5)))
    return folder


@pytest.fixture
def served(monkeypatch):
    """The arguments that the command passes to the server, which is not started."""
    from corrhash.service import server

    given = {}
    monkeypatch.delenv("CORRHASH_TOKEN", raising=False)
    monkeypatch.setattr(
        server,
        "serve",
        lambda collection, host, port, **more: given.update(more, host=host, port=port),
    )
    return given


def test_serve_listens_on_this_machine_only(collection, served):
    printed = run("serve", collection, "--name", "search.example.org", "--rate", 2).output
    assert "Loading" in printed
    assert "5 items" in printed
    assert "Warning" not in printed
    assert (served["host"], served["port"], served["token"]) == ("127.0.0.1", 8000, None)
    assert served["names"] == ("search.example.org",)
    assert (served["limits"].rate, served["limits"].burst) == (2, 6)


def test_files_and_paths_are_private_by_default(collection, served):
    run("serve", collection)
    assert (served["originals"], served["paths"]) == (False, False)
    run("serve", collection, "--originals", "--paths")
    assert (served["originals"], served["paths"]) == (True, True)


def test_serve_warns_about_missing_authentication(collection, served, monkeypatch):
    assert (
        "Warning: everyone who can reach 0.0.0.0"
        in run("serve", collection, "--host", "0.0.0.0").output
    )
    assert "Warning: everyone who can reach ::" in run("serve", collection, "--host", "::").output
    monkeypatch.setenv("CORRHASH_TOKEN", "0123456789abcdef")
    printed = run("serve", collection, "--host", "0.0.0.0").output
    assert "Warning: everyone who can reach 0.0.0.0" in printed  # searching needs no token
    assert "The token only protects adding and deleting items." in printed
    assert served["token"] is None  # not without --writable
    assert "Warning" not in run("serve", collection).output


def test_token_from_a_file_or_the_environment(collection, served, monkeypatch, tmp_path, capsys):
    assert "needs a token" in fail(monkeypatch, capsys, "serve", collection, "--writable")
    (tmp_path / "token").write_text("a token in a file\n")
    run("serve", collection, "--writable", "--token-file", tmp_path / "token")
    assert served["token"] == "a token in a file"
    monkeypatch.setenv("CORRHASH_TOKEN", "0123456789abcdef")
    run("serve", collection, "--writable")
    assert served["token"] == "0123456789abcdef"
    monkeypatch.setenv("CORRHASH_TOKEN", "short")
    assert "at least 16 characters, got 5" in fail(monkeypatch, capsys, "serve", collection)
    absent = ("--token-file", tmp_path / "none")
    printed = fail(monkeypatch, capsys, "serve", collection, *absent)
    assert f"Cannot read the token file {absent[1]}: No such file or directory. Check" in printed


@pytest.mark.usefixtures("served")
def test_name_must_be_a_host_name(collection, monkeypatch, capsys):
    printed = fail(monkeypatch, capsys, "serve", collection, "--name", "http://x")
    assert "--name must be a host name, such as search.example.org, got 'http://x'." in printed


def test_serve_without_fastapi_names_the_extra():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['fastapi', 'starlette', 'uvicorn'])); "
        "from corrhash.cli import main; sys.argv = ['corrhash', *sys.argv[1:]]; main()"
    )

    def printed(*arguments):
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for arguments in (["--help"], ["serve", "--help"]):
        answer = printed(*arguments)
        assert answer.returncode == 0, answer.stderr
        assert "Serve a search page" in answer.stdout
    answer = printed("serve", "photos")
    assert answer.returncode == 2
    assert "pip install 'corrhash[serve]'" in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr

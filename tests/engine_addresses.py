"""An address for each engine, at which nothing is yet: what tests over every engine start from."""

import os
import secrets
from contextlib import contextmanager

import pytest

MILVUS = "CORRHASH_MILVUS"
"""The environment variable with host and port of a server; tools/milvus_server.py sets it."""


@contextmanager
def new_address(scheme, folder):
    """An address of the engine with this name; what is made there goes away afterwards."""
    if scheme == "memory:":
        yield scheme
    elif scheme == "milvus://":
        with new_milvus_collection() as address:
            yield address
    else:
        yield str(folder / f"collection-{secrets.token_hex(4)}")


@contextmanager
def new_milvus_collection():
    server = os.environ.get(MILVUS)
    if not server:
        reason = os.environ.get("CORRHASH_NO_MILVUS", "start one with tools/milvus_server.py")
        pytest.skip(f"no Milvus server: {reason}")
    from pymilvus import MilvusClient

    name = f"test_{secrets.token_hex(6)}"
    yield f"milvus://{server}/{name}"
    client = MilvusClient(uri=f"http://{server}")
    client.drop_collection(name)
    client.close()

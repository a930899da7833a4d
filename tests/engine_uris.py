"""A new URI for each engine, for tests that run over every engine."""

import os
import secrets
from contextlib import contextmanager

import pytest

MILVUS = "CORRHASH_MILVUS"
"""Environment variable with host and port of a server, set by tools/milvus_server.py."""


@contextmanager
def new_uri(scheme, folder):
    """Yield a URI of the engine at which no index exists, and drop the index afterwards."""
    if scheme == "memory:":
        yield scheme
    elif scheme == "milvus://":
        with new_milvus_uri() as uri:
            yield uri
    else:
        yield str(folder / f"collection-{secrets.token_hex(4)}")


@contextmanager
def new_milvus_uri():
    server = os.environ.get(MILVUS)
    if not server:
        reason = os.environ.get("CORRHASH_NO_MILVUS", "start one with tools/milvus_server.py")
        pytest.skip(f"no Milvus server: {reason}")
    from pymilvus import MilvusClient

    name = f"test_{secrets.token_hex(6)}"
    yield f"milvus://{server}/{name}"
    client = MilvusClient(uri=f"http://{server}")
    client.drop_collection(name)
    client.drop_collection(f"{name}_records")
    client.close()

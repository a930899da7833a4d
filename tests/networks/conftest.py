"""The transformers library and a tiny encoder."""

import pytest
import torch


@pytest.fixture(scope="session")
def library():
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers


@pytest.fixture(scope="session")
def vit_folder(library, tmp_path_factory):
    from tests.networks.test_transformers import MAKERS

    folder = tmp_path_factory.mktemp("encoder") / "vit"
    torch.manual_seed(0)
    MAKERS["vit"](library, folder)
    return folder

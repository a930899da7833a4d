"""Cross-modal hashing for image-text retrieval: train, evaluate, index and serve binary codes.

The names below are imported on first use, so that ``import corrhash`` takes no time.
"""

from typing import TYPE_CHECKING

from corrhash._registry import lazy_attributes

if TYPE_CHECKING:
    from corrhash.client import Client
    from corrhash.codes import Codes, load_codes, save_codes
    from corrhash.collection.base import Match
    from corrhash.collection.collection import Collection
    from corrhash.datasets import (
        PairedDataset,
        Reader,
        RetrievalSplit,
        load_dataset,
        supervise,
    )
    from corrhash.datasets.records import Record
    from corrhash.errors import InputError, StorageError
    from corrhash.experiments.evaluation import evaluate_hasher
    from corrhash.index import CodeIndex, Item, open_index
    from corrhash.index.ranking import Ranking
    from corrhash.methods import (
        CHN,
        CMSSH,
        CVH,
        DCHMT,
        DCMH,
        DJSRH,
        DSPH,
        IMH,
        MMNN,
        SCM,
        UCCH,
        CHNPlus,
        ClassifierCode,
        Hasher,
        RaHH,
        SePH,
    )
    from corrhash.metrics import Scores, evaluate
    from corrhash.model import Model, load_model
    from corrhash.networks.config import Networks
    from corrhash.similarity import Similarity
    from corrhash.training.config import Training
else:
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "corrhash.client": ("Client",),
            "corrhash.codes": ("Codes", "load_codes", "save_codes"),
            "corrhash.collection.base": ("Match",),
            "corrhash.collection.collection": ("Collection",),
            "corrhash.datasets.records": ("Record",),
            "corrhash.datasets": (
                "PairedDataset",
                "Reader",
                "RetrievalSplit",
                "load_dataset",
                "supervise",
            ),
            "corrhash.errors": ("InputError", "StorageError"),
            "corrhash.experiments.evaluation": ("evaluate_hasher",),
            "corrhash.index": ("CodeIndex", "Item", "open_index"),
            "corrhash.methods": (
                "CHN",
                "CMSSH",
                "CVH",
                "DCHMT",
                "DCMH",
                "DJSRH",
                "DSPH",
                "IMH",
                "MMNN",
                "SCM",
                "UCCH",
                "CHNPlus",
                "ClassifierCode",
                "Hasher",
                "RaHH",
                "SePH",
            ),
            "corrhash.metrics": ("Scores", "evaluate"),
            "corrhash.model": ("Model", "load_model"),
            "corrhash.networks.config": ("Networks",),
            "corrhash.index.ranking": ("Ranking",),
            "corrhash.similarity": ("Similarity",),
            "corrhash.training.config": ("Training",),
        },
    )

__version__ = "0.1.0"

__all__ = [
    "CHN",
    "CMSSH",
    "CVH",
    "DCHMT",
    "DCMH",
    "DJSRH",
    "DSPH",
    "IMH",
    "MMNN",
    "SCM",
    "UCCH",
    "CHNPlus",
    "ClassifierCode",
    "Client",
    "CodeIndex",
    "Codes",
    "Collection",
    "Hasher",
    "InputError",
    "Item",
    "Match",
    "Model",
    "Networks",
    "PairedDataset",
    "RaHH",
    "Ranking",
    "Reader",
    "Record",
    "RetrievalSplit",
    "Scores",
    "SePH",
    "Similarity",
    "StorageError",
    "Training",
    "__version__",
    "evaluate",
    "evaluate_hasher",
    "load_codes",
    "load_dataset",
    "load_model",
    "open_index",
    "save_codes",
    "supervise",
]

"""Cross-modal hashing methods, one file per method.

All classes can be imported from here. They are loaded on first use, so that methods without
networks do not import PyTorch.
"""

from typing import TYPE_CHECKING, Any

from corrhash._registry import Registry
from corrhash.methods.base import Hasher

if TYPE_CHECKING:
    from corrhash.methods.chn import CHN, CHNB, CHNI, CHNM, CHNQ
    from corrhash.methods.chn_plus import CHNPlus
    from corrhash.methods.classifier import ClassifierCode
    from corrhash.methods.cmssh import CMSSH
    from corrhash.methods.cvh import CVH
    from corrhash.methods.dchmt import DCHMT
    from corrhash.methods.dcmh import DCMH
    from corrhash.methods.djsrh import DJSRH
    from corrhash.methods.dsph import DSPH
    from corrhash.methods.imh import IMH
    from corrhash.methods.itq import ITQ, LSH
    from corrhash.methods.mmnn import MMNN, MMNNPairs
    from corrhash.methods.rahh import RaHH
    from corrhash.methods.scm import SCM, SCMOrth
    from corrhash.methods.seph import SePH
    from corrhash.methods.ucch import UCCH

METHODS = Registry(
    "method",
    {
        "chn": "corrhash.methods.chn:CHN",
        "chn-b": "corrhash.methods.chn:CHNB",
        "chn-i": "corrhash.methods.chn:CHNI",
        "chn-m": "corrhash.methods.chn:CHNM",
        "chn-plus": "corrhash.methods.chn_plus:CHNPlus",
        "chn-q": "corrhash.methods.chn:CHNQ",
        "classifier": "corrhash.methods.classifier:ClassifierCode",
        "cmssh": "corrhash.methods.cmssh:CMSSH",
        "cvh": "corrhash.methods.cvh:CVH",
        "dchmt": "corrhash.methods.dchmt:DCHMT",
        "dcmh": "corrhash.methods.dcmh:DCMH",
        "djsrh": "corrhash.methods.djsrh:DJSRH",
        "dsph": "corrhash.methods.dsph:DSPH",
        "imh": "corrhash.methods.imh:IMH",
        "itq": "corrhash.methods.itq:ITQ",
        "lsh": "corrhash.methods.itq:LSH",
        "mmnn": "corrhash.methods.mmnn:MMNN",
        "mmnn-pairs": "corrhash.methods.mmnn:MMNNPairs",
        "rahh": "corrhash.methods.rahh:RaHH",
        "scm": "corrhash.methods.scm:SCM",
        "scm-orth": "corrhash.methods.scm:SCMOrth",
        "seph": "corrhash.methods.seph:SePH",
        "ucch": "corrhash.methods.ucch:UCCH",
    },
    " A method of your own is named package.module:Class.",
)
"""Maps the name of each method to its class, which is imported on first use."""

SAVED = Registry(
    "method",
    {**METHODS.import_paths, "ready-codes": "corrhash.methods.ready_codes:ReadyCodes"},
)
"""All classes of saved models: the methods, and what stands for one in a collection without."""

_NAMES = {path.partition(":")[2]: name for name, path in METHODS.import_paths.items()}

__all__ = [
    "CHN",
    "CHNB",
    "CHNI",
    "CHNM",
    "CHNQ",
    "CMSSH",
    "CVH",
    "DCHMT",
    "DCMH",
    "DJSRH",
    "DSPH",
    "IMH",
    "ITQ",
    "LSH",
    "METHODS",
    "MMNN",
    "SCM",
    "UCCH",
    "CHNPlus",
    "ClassifierCode",
    "Hasher",
    "MMNNPairs",
    "RaHH",
    "SCMOrth",
    "SePH",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return METHODS[_NAMES[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

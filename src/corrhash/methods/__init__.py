"""The table of methods: one file each, named as in their papers."""

from corrhash.lazy_table import LazyTable
from corrhash.methods.base import Hasher

METHODS = LazyTable(
    "method",
    {
        "chn": "corrhash.methods.chn:CHN",
        "chn-i": "corrhash.methods.chn:CHNI",
        "chn-m": "corrhash.methods.chn:CHNM",
        "chn-q": "corrhash.methods.chn:CHNQ",
        "classifier": "corrhash.methods.classifier:ClassifierCode",
        "cvh": "corrhash.methods.cvh:CVH",
        "seph": "corrhash.methods.seph:SePH",
    },
)
"""Names of methods, each with its class, which is imported when it is asked for."""

__all__ = ["METHODS", "Hasher"]

"""The table of methods: one file each, named as in their papers."""

from corrhash.lazy_table import LazyTable
from corrhash.methods.base import Hasher

METHODS = LazyTable(
    "method",
    {
        "chn": "corrhash.methods.chn:CHN",
        "chn-b": "corrhash.methods.chn:CHNB",
        "chn-i": "corrhash.methods.chn:CHNI",
        "chn-m": "corrhash.methods.chn:CHNM",
        "chn-q": "corrhash.methods.chn:CHNQ",
        "classifier": "corrhash.methods.classifier:ClassifierCode",
        "cmssh": "corrhash.methods.cmssh:CMSSH",
        "cvh": "corrhash.methods.cvh:CVH",
        "dcmh": "corrhash.methods.dcmh:DCMH",
        "imh": "corrhash.methods.imh:IMH",
        "mmnn": "corrhash.methods.mmnn:MMNN",
        "mmnn-pairs": "corrhash.methods.mmnn:MMNNPairs",
        "rahh": "corrhash.methods.rahh:RaHH",
        "scm": "corrhash.methods.scm:SCM",
        "scm-orth": "corrhash.methods.scm:SCMOrth",
        "seph": "corrhash.methods.seph:SePH",
    },
)
"""Names of methods, each with its class, which is imported when it is asked for."""

__all__ = ["METHODS", "Hasher"]

"""Find pictures with words, and words with pictures, through short binary codes."""

from corrhash.codes import Codes
from corrhash.errors import InputError
from corrhash.ranking import Ranking

__version__ = "0.1.0"

__all__ = ["Codes", "InputError", "Ranking", "__version__"]

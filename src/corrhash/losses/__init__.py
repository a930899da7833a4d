"""Terms that methods add together: functions from scores to one number, one family a file."""

from corrhash.losses.cosine_margin import cosine_margin_loss, cosines
from corrhash.losses.inner_product import inner_product_loss
from corrhash.losses.quantization_margin import active_share, quantization_margin_loss

__all__ = [
    "active_share",
    "cosine_margin_loss",
    "cosines",
    "inner_product_loss",
    "quantization_margin_loss",
]

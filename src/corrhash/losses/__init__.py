"""Terms that methods add together: functions from scores to one number, one family a file."""

from corrhash.losses.contrastive import contrastive_loss
from corrhash.losses.cosine_margin import cosine_margin_loss, cosines
from corrhash.losses.inner_product import inner_product_loss
from corrhash.losses.pairwise_likelihood import pairwise_likelihood_loss
from corrhash.losses.quantization_margin import active_share, quantization_margin_loss

__all__ = [
    "active_share",
    "contrastive_loss",
    "cosine_margin_loss",
    "cosines",
    "inner_product_loss",
    "pairwise_likelihood_loss",
    "quantization_margin_loss",
]

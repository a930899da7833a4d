"""SmallCNN: a little image network for drawings, small pictures and tests."""

import torch
from torch import Tensor, nn

from corrhash.errors import InputError
from corrhash.networks.pixels import Preprocessing
from corrhash.networks.shared_batch_norm import SharedBatchNorm2d

SMALLEST_SIDE = 32
_WIDTHS = (24, 48, 96, 192)


class SmallCNN(nn.Module):
    """(n, 3, side, side) normalised pictures -> (n, 384) features, learned from scratch in minutes.

    Four convolutions, each halving the picture, then the mean and the maximum of every channel: how
    much there is of something, and whether it is there at all. Batch normalisation uses the
    statistics of training when it encodes, so that a code does not depend on its batch.

    Examples
    --------
    >>> network = SmallCNN().eval()
    >>> network(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2, 384])
    """

    n_features = 2 * _WIDTHS[-1]
    preprocessing = Preprocessing(resize=72, crop=64)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for n_in, n_out in zip((3, *_WIDTHS), _WIDTHS, strict=False):
            size = 5 if n_in == 3 else 3
            # No bias: normalisation would take it away again.
            convolution = nn.Conv2d(n_in, n_out, size, stride=2, padding=size // 2, bias=False)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            layers += [convolution, SharedBatchNorm2d(n_out), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)

    def forward(self, pictures: Tensor) -> Tensor:
        """Features of normalised pictures."""
        shape = tuple(pictures.shape)
        if len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < SMALLEST_SIDE:
            raise InputError(
                f"SmallCNN reads (n, 3, height, width) pictures of at least {SMALLEST_SIDE} "
                f"pixels. Got {shape}. Prepare them with SmallCNN.preprocessing."
            )
        # Colours side by side in memory make convolutions faster by a third.
        maps = self.features(pictures.contiguous(memory_format=torch.channels_last))
        return torch.cat([maps.mean(dim=(2, 3)), maps.amax(dim=(2, 3))], dim=1)

"""SmallCNN: a small convolutional network for drawings, thumbnails and tests."""

import torch
from torch import Tensor, nn

from corrhash.errors import InputError
from corrhash.networks.layers import Body, SyncBatchNorm2d
from corrhash.networks.preprocessing import Preprocessing

MIN_SIZE = 32
_WIDTHS = (24, 48, 96, 192)


class SmallCNN(Body):
    """(n, 3, size, size) normalized images -> (n, 384) features, trained from scratch in minutes.

    Four convolutions with stride 2, then mean and maximum pooling of every channel. Batch
    normalization encodes with the statistics of training, so a code does not depend on its batch.

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
            # No bias: batch normalization would remove it.
            convolution = nn.Conv2d(n_in, n_out, size, stride=2, padding=size // 2, bias=False)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            layers += [convolution, SyncBatchNorm2d(n_out), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of normalized images."""
        shape = tuple(images.shape)
        if len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < MIN_SIZE:
            raise InputError(
                f"SmallCNN reads (n, 3, height, width) images of at least {MIN_SIZE} pixels, got "
                f"{shape}. Prepare them with SmallCNN.preprocessing."
            )
        # Convolutions are a third faster with channels last in memory.
        maps = self.features(images.contiguous(memory_format=torch.channels_last))
        return torch.cat([maps.mean(dim=(2, 3)), maps.amax(dim=(2, 3))], dim=1)

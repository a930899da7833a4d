"""AlexNet, the paper's image network, without its last layer, in the layout of torchvision.

The variant is the one-column network of "One weird trick" (Krizhevsky, 2014): 64 filters in the
first layer, no local normalisation. Parameters are named as in torchvision's published file.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from corrhash.errors import InputError
from corrhash.networks.item_noise import ItemDropout
from corrhash.networks.pixels import Preprocessing

SMALLEST_SIDE = 63
"""Of smaller pictures nothing is left after the third pooling."""


class AlexNetTrunk(nn.Module):
    """(n, 3, side, side) normalised pictures -> (n, 9216): the convolutions of AlexNet alone.

    For weights without fc6 and fc7. New layers on top of it need their inputs around zero, which
    these are not: hidden layers as for ready features bring them there.

    Examples
    --------
    >>> AlexNetTrunk().eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 9216])
    """

    n_features = 256 * 6 * 6
    needs_hidden_layers = True

    trunk: ClassVar[tuple[str, ...]] = ("features.",)
    """Parameters that a file of weights must have; the others may start from scratch."""

    left_out: ClassVar[tuple[str, ...]] = ("classifier.",)
    """Parameters of the published file that this network does not have."""

    preprocessing = Preprocessing(resize=256, crop=224)

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),  # conv1
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),  # conv2
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),  # conv3
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),  # conv4
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),  # conv5
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),  # pool5
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)  # other sizes than 224 arrive at 6 x 6 too
        self.features.apply(_start)

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, 9216) of normalised pictures, in the order of torchvision."""
        _check_size(pictures)
        return torch.flatten(self.avgpool(self.features(pictures)), 1)


class AlexNet(AlexNetTrunk):
    """(n, 3, side, side) normalised pictures -> (n, 4096) features, the image network of the paper.

    Learns from photographs; start from weights that know them (:func:`load_weights`), or use
    :class:`SmallCNN` for drawings. fc8 is not part of it, as a hash layer takes its place. fc6 and
    fc7 that are not among the weights start as PyTorch starts them, smaller than He et al. propose,
    as in :class:`MLP`; :class:`AlexNetTrunk` with hidden layers of its own learns faster then.

    Examples
    --------
    >>> network = AlexNet().eval()
    >>> network(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 4096])
    """

    n_features = 4096
    needs_hidden_layers = False
    stages: ClassVar[dict[str, int]] = {"pool5": 256 * 6 * 6, "fc6": 4096, "fc7": 4096}
    """Where one can stop, and how many features there are at each place."""

    layers_of_stage: ClassVar[dict[str, tuple[str, ...]]] = {
        "pool5": ("features.",),
        "fc6": ("features.", "classifier.1."),
        "fc7": ("features.", "classifier.1.", "classifier.4."),
    }
    """Beginnings of the parameters that the features of each stage depend on."""

    left_out: ClassVar[tuple[str, ...]] = ("classifier.6.",)  # fc8

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Sequential(
            ItemDropout(),
            nn.Linear(256 * 6 * 6, 4096),  # fc6
            nn.ReLU(inplace=True),
            ItemDropout(),
            nn.Linear(4096, 4096),  # fc7
            nn.ReLU(inplace=True),
        )

    def forward(self, pictures: Tensor, stage: str = "fc7") -> Tensor:
        """Features of normalised pictures, taken after one of ``stages``."""
        if stage not in self.stages:
            raise InputError(
                f"AlexNet has no stage {stage!r}. Choose one of: {', '.join(self.stages)}."
            )
        pool5 = super().forward(pictures)  # (n, 9216)
        if stage == "pool5":
            return pool5
        fc6 = self.classifier[:3](pool5)  # (n, 4096)
        return fc6 if stage == "fc6" else self.classifier[3:](fc6)


def _start(layer: nn.Module) -> None:
    """The start that He et al. (2015) propose for ReLU, so that depth does not change the scale."""
    if isinstance(layer, nn.Conv2d) and layer.bias is not None:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)


def _check_size(pictures: Tensor) -> None:
    shape = tuple(pictures.shape)
    if len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < SMALLEST_SIDE:
        raise InputError(
            f"AlexNet reads (n, 3, height, width) pictures of at least {SMALLEST_SIDE} pixels. "
            f"Got {shape}. Prepare them with AlexNet.preprocessing."
        )

"""AlexNet without its last layer, the image network of the CHN paper, in torchvision's layout.

The variant is the one-column network of "One weird trick" (Krizhevsky, 2014): 64 filters in the
first layer, no local normalization. Parameters are named as in torchvision's published file.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from corrhash.errors import InputError
from corrhash.networks.layers import Body, ItemDropout
from corrhash.networks.preprocessing import Preprocessing

MIN_SIZE = 63
"""Smaller images have no pixels left after the third pooling."""


class AlexNetConvolutions(Body):
    """(n, 3, size, size) normalized images -> (n, 9216): the convolutional layers of AlexNet.

    For weights without fc6 and fc7. The features are not centred, so a head that standardizes them
    is added (``needs_head``).

    Examples
    --------
    >>> AlexNetConvolutions().eval()(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 9216])
    """

    n_features = 256 * 6 * 6
    needs_head = True
    required_weights: ClassVar[tuple[str, ...]] = ("features.",)
    ignored_weights: ClassVar[tuple[str, ...]] = ("classifier.",)
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
        self.avgpool = nn.AdaptiveAvgPool2d(6)  # 6 x 6 for other image sizes than 224 too
        self.features.apply(_init_convolution)

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, 9216) features of normalized images, in torchvision's order."""
        _check_size(images)
        # Convolutions are faster with channels last in memory.
        maps = self.features(images.contiguous(memory_format=torch.channels_last))
        return torch.flatten(self.avgpool(maps), 1)


class AlexNet(AlexNetConvolutions):
    """(n, 3, size, size) normalized images -> (n, 4096) features, the image network of the paper.

    Meant for photos and pretrained weights (:func:`~corrhash.networks.weights.load_weights`); use
    :class:`~corrhash.networks.small_cnn.SmallCNN` for drawings. A hash layer replaces fc8.
    Without pretrained weights, fc6 and fc7 start with PyTorch's default initialization, which is
    smaller than that of He et al.; :class:`AlexNetConvolutions` with a head learns faster then.

    Examples
    --------
    >>> network = AlexNet().eval()
    >>> network(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 4096])
    """

    n_features = 4096
    needs_head = False
    stages: ClassVar[dict[str, int]] = {"pool5": 256 * 6 * 6, "fc6": 4096, "fc7": 4096}
    """Layers whose output can be taken, with the number of features of each."""

    weights_of_stage: ClassVar[dict[str, tuple[str, ...]]] = {
        "pool5": ("features.",),
        "fc6": ("features.", "classifier.1."),
        "fc7": ("features.", "classifier.1.", "classifier.4."),
    }
    """Prefixes of the parameters that the output of each stage depends on."""

    ignored_weights: ClassVar[tuple[str, ...]] = ("classifier.6.",)  # fc8

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

    def forward(self, images: Tensor, stage: str = "fc7") -> Tensor:
        """Return the output of one of ``stages`` for normalized images."""
        if stage not in self.stages:
            raise InputError(
                f"Unknown AlexNet stage {stage!r}. Choose one of: {', '.join(self.stages)}."
            )
        pool5 = super().forward(images)  # (n, 9216)
        if stage == "pool5":
            return pool5
        fc6 = self.classifier[:3](pool5)  # (n, 4096)
        return fc6 if stage == "fc6" else self.classifier[3:](fc6)


def _init_convolution(layer: nn.Module) -> None:
    """Initialize as He et al. (2015) propose for ReLU: the scale does not change with depth."""
    if isinstance(layer, nn.Conv2d) and layer.bias is not None:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)


def _check_size(images: Tensor) -> None:
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] != 3 or min(shape[2:]) < MIN_SIZE:
        raise InputError(
            f"AlexNet reads (n, 3, height, width) images of at least {MIN_SIZE} pixels, got "
            f"{shape}. Prepare them with AlexNet.preprocessing."
        )

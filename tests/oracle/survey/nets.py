"""Common networks that belong to no library, as people write them by hand.

`add`, and what makes inputs, come from `truth/named.py`.
"""

import torch
from torch import nn
from torch.nn import functional


def dcgan_generator(width=64):
    """Radford et al., 2015."""
    sizes = [100, width * 8, width * 4, width * 2, width]
    layers = []
    for index, (given, made) in enumerate(zip(sizes, sizes[1:])):
        stride, padding = (1, 0) if index == 0 else (2, 1)
        layers.append(nn.ConvTranspose2d(given, made, 4, stride, padding, bias=False))
        layers += [nn.BatchNorm2d(made), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def dcgan_discriminator(width=64):
    """Its adversary; two classes."""
    layers = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for factor in (1, 2, 4):
        layers.append(nn.Conv2d(width * factor, width * factor * 2, 4, 2, 1, bias=False))
        layers += [nn.BatchNorm2d(width * factor * 2), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(width * 8, 2, 4, 1, 0, bias=False), nn.Flatten())


def double(given, made, convolution, norm):
    """Two convolutions."""
    return nn.Sequential(
        convolution(given, made, 3, padding=1), norm(made), nn.ReLU(inplace=True),
        convolution(made, made, 3, padding=1), norm(made), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """Ronneberger et al., 2015, padded; in two dimensions or three."""

    def __init__(self, three=False, widths=(32, 64, 128, 256), classes=4):
        super().__init__()
        conv, up, norm, pool = (
            (nn.Conv3d, nn.ConvTranspose3d, nn.BatchNorm3d, nn.MaxPool3d)
            if three
            else (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.MaxPool2d)
        )
        pairs = list(zip((1 if three else 3, *widths), widths))
        self.down = nn.ModuleList(double(a, b, conv, norm) for a, b in pairs)
        self.pool = pool(2)
        backwards = list(zip(widths[:0:-1], widths[-2::-1]))
        self.ups = nn.ModuleList(up(a, b, 2, stride=2) for a, b in backwards)
        self.merge = nn.ModuleList(double(2 * b, b, conv, norm) for _, b in backwards)
        self.head = conv(widths[0], classes, 1)

    def encode(self, x):
        """The deepest level's features, and those of the levels above it."""
        kept = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else self.pool(x))
            kept.append(x)
        return kept.pop(), kept

    def forward(self, x):
        x, kept = self.encode(x)
        for up, merge in zip(self.ups, self.merge):
            x = merge(torch.cat([kept.pop(), up(x)], dim=1))
        return self.head(x)


class Gate(nn.Module):
    """Oktay et al., 2018: what to look at in a skip connection."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Sequential(nn.Conv2d(width, width // 2, 1), nn.BatchNorm2d(width // 2))
        self.key = nn.Sequential(nn.Conv2d(width, width // 2, 1), nn.BatchNorm2d(width // 2))
        self.score = nn.Sequential(nn.Conv2d(width // 2, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

    def forward(self, x, kept):
        return kept * self.score(functional.relu(self.query(x) + self.key(kept)))


class AttentionUNet(UNet):
    """A U-Net with gates, which interpolates."""

    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList(Gate(merge[3].out_channels) for merge in self.merge)
        self.reduce = nn.ModuleList(nn.Conv2d(2 * m[3].out_channels, m[3].out_channels, 1) for m in self.merge)
        del self.ups

    def forward(self, x):
        x, kept = self.encode(x)
        for reduce, gate, merge in zip(self.reduce, self.gates, self.merge):
            x = reduce(functional.interpolate(x, scale_factor=2, mode='bilinear', align_corners=True))
            x = merge(torch.cat([gate(x, kept.pop()), x], dim=1))
        return self.head(x)


class Nested(nn.Module):
    """UNet++, Zhou et al., 2018, of three levels."""

    def __init__(self, widths=(32, 64, 128), classes=4):
        super().__init__()
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode='bilinear')
        self.columns = nn.ModuleList()
        depth = len(widths)
        for column in range(depth):
            blocks = nn.ModuleList()
            for level in range(depth - column):
                given = (3, *widths)[level] if column == 0 else column * widths[level] + widths[level + 1]
                blocks.append(double(given, widths[level], nn.Conv2d, nn.BatchNorm2d))
            self.columns.append(blocks)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        rows = []
        for level, block in enumerate(self.columns[0]):
            x = block(x if level == 0 else self.pool(x))
            rows.append([x])
        for column in self.columns[1:]:
            for level, block in enumerate(column):
                rows[level].append(block(torch.cat([*rows[level], self.up(rows[level + 1][-1])], 1)))
        return self.head(rows[0][-1])


class Dlrm(nn.Module):
    """Naumov et al., 2019: numbers and categories, and products of all pairs."""

    def __init__(self, tables=8, rows=10_000, width=32, dense=13):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1))
        first, second = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer('first', first)
        self.register_buffer('second', second)

    def forward(self, dense, categories):
        x = self.bottom(dense)
        vectors = [x, *(table(categories[:, i]) for i, table in enumerate(self.tables))]
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.first, self.second]], dim=1))


class DeepFm(nn.Module):
    """Guo et al., 2017."""

    def __init__(self, fields=20, rows=5_000, width=16):
        super().__init__()
        self.linear, self.vectors = nn.Embedding(rows, 1), nn.Embedding(rows, width)
        self.deep = nn.Sequential(
            nn.Linear(fields * width, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 1),
        )  # fmt: skip

    def forward(self, x):
        vectors = self.vectors(x)
        pairs = vectors.sum(1) ** 2 - (vectors**2).sum(1)
        return self.linear(x).sum(1) + 0.5 * pairs.sum(1, keepdim=True) + self.deep(vectors.flatten(1))


class TabNet(nn.Module):
    """Arik and Pfister, 2019, with softmax for sparsemax."""

    def __init__(self, features=64, width=64, steps=4, classes=10):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.shared = nn.Linear(features, 2 * width, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(2 * width), nn.GLU(), nn.Linear(width, 2 * width), nn.GLU())
            for _ in range(steps)
        )
        self.masks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, features), nn.BatchNorm1d(features)) for _ in range(steps)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.norm(x)
        prior, total, masked = torch.ones_like(x), 0, x
        for block, mask in zip(self.blocks, self.masks):
            made = block(self.shared(masked))
            total = total + functional.relu(made)
            chosen = torch.softmax(mask(made) * prior, dim=-1)
            prior = prior * (1.5 - chosen)
            masked = chosen * x
        return self.head(total)


class LstmLm(nn.Module):
    """A language model of two layers."""

    def __init__(self, vocabulary=10_000, width=256, layers=2):
        super().__init__()
        self.embed, self.drop = nn.Embedding(vocabulary, width), nn.Dropout(0.2)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True, dropout=0.2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        out, _ = self.rnn(self.drop(self.embed(x)))
        return self.head(self.drop(out))


class GruClassifier(nn.Module):
    """Reads a text both ways."""

    def __init__(self, vocabulary=10_000, width=128, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        _, last = self.rnn(self.embed(x))
        return self.head(torch.cat([last[0], last[1]], dim=1))


class BiLstmAttention(nn.Module):
    """Pools a text by attention."""

    def __init__(self, vocabulary=10_000, width=128, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.score, self.head = nn.Linear(2 * width, 1), nn.Linear(2 * width, classes)

    def forward(self, x):
        out, _ = self.rnn(self.embed(x))
        weights = torch.softmax(self.score(torch.tanh(out)), dim=1)
        return self.head((weights * out).sum(dim=1))


class Crnn(nn.Module):
    """Reads lines of text: convolutions, then an LSTM over columns."""

    def __init__(self, classes=80):
        super().__init__()
        layers = []
        for given, made, pool in ((1, 64, (2, 2)), (64, 128, (2, 2)), (128, 256, (2, 1)), (256, 256, (4, 1))):
            layers += [nn.Conv2d(given, made, 3, 1, 1), nn.BatchNorm2d(made), nn.ReLU(True), nn.MaxPool2d(pool)]
        self.convolutions = nn.Sequential(*layers)
        self.rnn = nn.LSTM(256, 128, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(256, classes)

    def forward(self, x):
        columns = self.convolutions(x).squeeze(2).transpose(1, 2)
        out, _ = self.rnn(columns)
        return self.head(out)


class TextCnn(nn.Module):
    """Kim, 2014."""

    def __init__(self, vocabulary=20_000, width=128, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, 100, size) for size in (3, 4, 5))
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(300, classes)

    def forward(self, x):
        x = self.embed(x).transpose(1, 2)
        pooled = [functional.relu(conv(x)).max(dim=2).values for conv in self.convolutions]
        return self.head(self.drop(torch.cat(pooled, dim=1)))


class Causal(nn.Module):
    """A dilated block of a temporal convolutional network, Bai et al., 2018."""

    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.first = nn.Conv1d(width, width, 3, padding=self.pad, dilation=dilation)
        self.second = nn.Conv1d(width, width, 3, padding=self.pad, dilation=dilation)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        out = self.drop(functional.relu(self.first(x)[:, :, : -self.pad]))
        out = self.drop(functional.relu(self.second(out)[:, :, : -self.pad]))
        return functional.relu(out + x)


class CharTcn(nn.Module):
    """Over characters."""

    def __init__(self, vocabulary=100, width=128):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Causal(width, 2**level) for level in range(4)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x).transpose(1, 2)).transpose(1, 2))


class WaveNet(nn.Module):
    """Van den Oord et al., 2016: gates and two kinds of sums."""

    def __init__(self, width=32, skip=64, layers=8, classes=10):
        super().__init__()
        self.begin = nn.Conv1d(1, width, 1)
        self.dilated = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=2**i, padding=2**i) for i in range(layers)
        )
        self.residual = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.skip = nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in range(layers))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.AdaptiveAvgPool1d(1))
        self.head = nn.Linear(skip, classes)

    def forward(self, x):
        x, total = self.begin(x), 0
        for dilated, residual, skip in zip(self.dilated, self.residual, self.skip):
            filtered, gate = dilated(x)[..., : x.size(-1)].chunk(2, dim=1)
            out = torch.tanh(filtered) * torch.sigmoid(gate)
            total = total + skip(out)
            x = x + residual(out)
        return self.head(self.end(total).flatten(1))


class PointNet(nn.Module):
    """Qi et al., 2016, with its first transform."""

    def __init__(self, classes=40):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1))
        self.angles = nn.Linear(128, 9)
        widths = (3, 64, 128, 512)
        layers = []
        for given, made in zip(widths, widths[1:]):
            layers += [nn.Conv1d(given, made, 1), nn.BatchNorm1d(made), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, classes))

    def forward(self, x):
        matrix = self.angles(torch.max(self.turn(x), 2)[0]).view(-1, 3, 3)
        x = torch.bmm(x.transpose(2, 1), matrix).transpose(2, 1)
        return self.head(torch.max(self.features(x), 2)[0])


class SrBlock(nn.Module):
    """A residual block of SRGAN's generator."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x):
        return x + self.body(x)


class SrGan(nn.Module):
    """Ledig et al., 2016: four times as large."""

    def __init__(self, width=64, blocks=4):
        super().__init__()
        self.begin = nn.Sequential(nn.Conv2d(3, width, 9, padding=4), nn.PReLU())
        self.body = nn.Sequential(*(SrBlock(width) for _ in range(blocks)))
        layers = []
        for _ in range(2):
            layers += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
        self.up = nn.Sequential(*layers, nn.Conv2d(width, 3, 9, padding=4), nn.Tanh())

    def forward(self, x):
        x = self.begin(x)
        return self.up(x + self.body(x))


class Pix2Pix(nn.Module):
    """Isola et al., 2016: a U-Net with instance norms."""

    def __init__(self, widths=(64, 128, 256, 256)):
        super().__init__()
        self.down, self.ups = nn.ModuleList(), nn.ModuleList()
        for given, made in zip((3, *widths), widths):
            self.down.append(nn.Sequential(nn.Conv2d(given, made, 4, 2, 1), nn.InstanceNorm2d(made), nn.LeakyReLU(0.2)))
        for index, made in enumerate((*widths[-2::-1], 3)):
            given = widths[-1 - index] * (1 if index == 0 else 2)
            last = index == len(widths) - 1
            after = [nn.Tanh()] if last else [nn.InstanceNorm2d(made), nn.Dropout(0.5), nn.ReLU()]
            self.ups.append(nn.Sequential(nn.ConvTranspose2d(given, made, 4, 2, 1), *after))

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
        kept.pop()
        for block in self.ups:
            x = block(x)
            if kept:
                x = torch.cat([x, kept.pop()], dim=1)
        return x


class Vae(nn.Module):
    """Kingma and Welling, 2013, on digits."""

    def __init__(self, width=400, latent=20):
        super().__init__()
        self.begin, self.mean, self.spread = nn.Linear(784, width), nn.Linear(width, latent), nn.Linear(width, latent)
        self.decode = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 784), nn.Sigmoid())

    def forward(self, x):
        hidden = functional.relu(self.begin(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        noise = torch.randn_like(mean)
        return self.decode(mean + noise * torch.exp(0.5 * spread))


class Fpn(nn.Module):
    """Lin et al., 2016, over torchvision's ResNet-18; its finest map."""

    def __init__(self, width=128):
        super().__init__()
        from torchvision.models import resnet18
        from torchvision.models.feature_extraction import create_feature_extractor
        from torchvision.ops import FeaturePyramidNetwork

        nodes = {f'layer{level}': str(level) for level in range(1, 5)}
        self.body = create_feature_extractor(resnet18(weights=None), nodes)
        self.fpn = FeaturePyramidNetwork([64, 128, 256, 512], width)

    def forward(self, x):
        return self.fpn(self.body(x))['1']


class Yolo(nn.Module):
    """One stage, one scale: convolutions, batch norms and SiLU, a pool of three sizes."""

    def __init__(self, outputs=3 * 85):
        super().__init__()

        def conv(given, made, size=3, stride=1):
            return nn.Sequential(
                nn.Conv2d(given, made, size, stride, size // 2, bias=False), nn.BatchNorm2d(made), nn.SiLU(inplace=True)
            )

        self.body = nn.Sequential(
            conv(3, 32), conv(32, 64, stride=2), conv(64, 64), conv(64, 128, stride=2), conv(128, 128),
            conv(128, 256, stride=2), conv(256, 128, 1), conv(128, 256), conv(256, 512, stride=2),
        )  # fmt: skip
        self.narrow = conv(512, 256, 1)
        self.pools = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in (5, 9, 13))
        self.head = nn.Sequential(conv(1024, 256, 1), nn.Conv2d(256, outputs, 1))

    def forward(self, x):
        x = self.narrow(self.body(x))
        return self.head(torch.cat([x, *(pool(x) for pool in self.pools)], dim=1))


class Encoder(nn.Module):
    """`nn.TransformerEncoder`, over a text."""

    def __init__(self, vocabulary=10_000, width=256, layers=3, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.zeros(1, 128, width))
        layer = nn.TransformerEncoderLayer(width, 4, 1024, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.place).mean(dim=1))


class Nerf(nn.Module):
    """Mildenhall et al., 2020: a field of colours."""

    def __init__(self, width=256, frequencies=10):
        super().__init__()
        self.frequencies = frequencies
        size = 3 + 6 * frequencies
        self.first = nn.ModuleList([nn.Linear(size, width), *(nn.Linear(width, width) for _ in range(3))])
        self.second = nn.ModuleList([nn.Linear(width + size, width), *(nn.Linear(width, width) for _ in range(2))])
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        waves = [f(x * 2.0**i) for i in range(self.frequencies) for f in (torch.sin, torch.cos)]
        encoded = torch.cat([x, *waves], dim=-1)
        h = encoded
        for layer in self.first:
            h = functional.relu(layer(h))
        h = torch.cat([h, encoded], dim=-1)
        for layer in self.second:
            h = functional.relu(layer(h))
        return torch.sigmoid(self.head(h))


class Siamese(nn.Module):
    """One network, two pictures."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 64, 10), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(64, 128, 7), nn.ReLU(inplace=True),
            nn.MaxPool2d(2), nn.Conv2d(128, 128, 4), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(512), nn.Sigmoid(),
        )  # fmt: skip
        with torch.no_grad():
            self.body(torch.zeros(1, 1, 105, 105))
        self.head = nn.Linear(512, 1)

    def forward(self, first, second):
        return self.head(torch.abs(self.body(first) - self.body(second)))


class Ncf(nn.Module):
    """He et al., 2017."""

    def __init__(self, users=20_000, items=5_000, width=64):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_mlp, self.item_mlp = nn.Embedding(users, width), nn.Embedding(items, width)
        self.mlp = nn.Sequential(
            nn.Linear(2 * width, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.1)
        )
        self.head = nn.Linear(width + 64, 1)

    def forward(self, user, item):
        product = self.user(user) * self.item(item)
        deep = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], dim=-1))
        return self.head(torch.cat([product, deep], dim=-1))


class Block(nn.Module):
    """A basic block with the first kind of shortcut, which pads."""

    def __init__(self, given, made, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(given, made, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(made), nn.BatchNorm2d(made)
        self.more = made - given

    def forward(self, x):
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.more:
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return functional.relu(out + x)


class CifarResNet(nn.Module):
    """He et al., 2015, for CIFAR-10: 6n + 2 layers."""

    def __init__(self, blocks=3):
        super().__init__()
        self.begin = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        layers, given = [], 16
        for made in (16, 32, 64):
            for index in range(blocks):
                layers.append(Block(given, made, 2 if index == 0 and made > 16 else 1))
                given = made
        self.body, self.head = nn.Sequential(*layers), nn.Linear(64, 10)

    def forward(self, x):
        x = self.body(self.begin(x))
        return self.head(functional.avg_pool2d(x, x.size(3)).flatten(1))


class LeNet(nn.Module):
    """As PyTorch's first tutorial has it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(functional.relu(self.fc2(x)))


class Mixer(nn.Module):
    """Mixes steps and channels of a series in turn."""

    def __init__(self, length=96, channels=32, layers=4, classes=10):
        super().__init__()

        def mlp(size):
            return nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * size, size))

        self.steps = nn.ModuleList(mlp(length) for _ in range(layers))
        self.channels = nn.ModuleList(mlp(channels) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2 * layers))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        for index, (steps, channels) in enumerate(zip(self.steps, self.channels)):
            x = x + steps(self.norms[2 * index](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * index + 1](x))
        return self.head(x.mean(dim=1))


add('dcgan_generator', dcgan_generator, numbers(100, 1, 1))
add('dcgan_discriminator', dcgan_discriminator, images(3, 64))
add('unet', UNet, images(3, 128, 128, 128))
add(
    'unet3d',
    lambda **given: UNet(three=True, widths=(16, 32, 64), **given),
    lambda count: (torch.zeros(count, 1, 32, 64, 64), torch.zeros(count, 32, 64, 64, dtype=torch.long)),
)
add('attention_unet', AttentionUNet, images(3, 128, 128, 128))
add('unet_plus_plus', Nested, images(3, 128, 128, 128))
add(
    'dlrm',
    Dlrm,
    pairs(lambda n: {'dense': torch.zeros(n, 13), 'categories': torch.zeros(n, 8, dtype=torch.long)}),
)
add('deep_fm', DeepFm, tokens(20))
add('tabnet', TabNet, numbers(64))
add('lstm_lm', LstmLm, tokens(64, 64))
add('gru_classifier', GruClassifier, tokens(128))
add('bilstm_attention', BiLstmAttention, tokens(128))
add(
    'crnn',
    Crnn,
    lambda count: (torch.zeros(count, 1, 32, 128), torch.zeros(count, 32, dtype=torch.long)),
)
add('text_cnn', TextCnn, tokens(128))
add('char_tcn', CharTcn, tokens(256, 256))
add('wavenet', WaveNet, numbers(1, 4000))
add('pointnet', PointNet, numbers(3, 1024))
add('srgan_generator', SrGan, images(3, 48))
add('pix2pix_generator', Pix2Pix, images(3, 128))
add('vae', Vae, numbers(784))
add('fpn_resnet18', Fpn, images(3, 128))
add('yolo_like', Yolo, images(3, 160))
add('transformer_encoder', Encoder, tokens(128))
add('nerf', Nerf, numbers(1024, 3))
add(
    'siamese',
    Siamese,
    pairs(lambda n: {'first': torch.zeros(n, 1, 105, 105), 'second': torch.zeros(n, 1, 105, 105)}),
)
add(
    'ncf',
    Ncf,
    pairs(lambda n: {key: torch.zeros(n, dtype=torch.long) for key in ('user', 'item')}),
)
add('resnet_cifar', CifarResNet, images(3, 32))
add('lenet', LeNet, images(1, 32))
add('mlp_mixer_1d', Mixer, numbers(96, 32))

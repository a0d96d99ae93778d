"""Further networks that people write by hand: volumes, signals, generators, pairs, loops in Python.

`add`, and what makes inputs, come from `truth/named.py`.
"""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations


class Volume(nn.Module):
    """A U-Net for volumes, with instance norms."""

    def __init__(self, width=16, classes=3):
        super().__init__()
        self.one, self.two, self.three = self.pair(1, width), self.pair(width, 2 * width), self.pair(2 * width, 4 * width)
        self.down = nn.MaxPool3d(2)
        self.up_two = nn.ConvTranspose3d(4 * width, 2 * width, 2, stride=2)
        self.back_two = self.pair(4 * width, 2 * width)
        self.up_one = nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.back_one, self.head = self.pair(2 * width, width), nn.Conv3d(width, classes, 1)

    def pair(self, before, after):
        layers = []
        for channels in (before, after):
            layers += [nn.Conv3d(channels, after, 3, padding=1), nn.InstanceNorm3d(after), nn.LeakyReLU(inplace=True)]
        return nn.Sequential(*layers)

    def forward(self, x):
        one = self.one(x)
        two = self.two(self.down(one))
        low = self.up_two(self.three(self.down(two)))
        two = self.back_two(torch.cat([low, two], dim=1))
        return self.head(self.back_one(torch.cat([self.up_one(two), one], dim=1)))


class WideBlock(nn.Module):
    """Norms first, dropout between."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(after), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.dropout = nn.Dropout(0.3)
        self.same = before == after and stride == 1
        self.shortcut = None if self.same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        out = functional.relu(self.bn1(x))
        skip = x if self.same else self.shortcut(out)
        out = self.conv2(self.dropout(functional.relu(self.bn2(self.conv1(out)))))
        return out + skip


class WideResNet(nn.Module):
    """Zagoruyko and Komodakis, 2016, for small pictures."""

    def __init__(self, depth=16, widen=4, classes=100):
        super().__init__()
        blocks, widths = (depth - 4) // 6, [16, 16 * widen, 32 * widen, 64 * widen]
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        layers = []
        for stage, (before, after) in enumerate(zip(widths, widths[1:])):
            for at in range(blocks):
                stride = 2 if stage and not at else 1
                layers.append(WideBlock(before if at == 0 else after, after, stride))
        self.blocks = nn.Sequential(*layers)
        self.bn, self.fc = nn.BatchNorm2d(widths[-1]), nn.Linear(widths[-1], classes)

    def forward(self, x):
        out = functional.relu(self.bn(self.blocks(self.conv1(x))))
        return self.fc(functional.adaptive_avg_pool2d(out, 1).flatten(1))


class Aspp(nn.Module):
    """A small DeepLab: dilated branches and pooled context."""

    def __init__(self, classes=21):
        super().__init__()
        self.stem = nn.Sequential(self.unit(3, 32, 3, 2), self.unit(32, 64, 3, 2), self.unit(64, 128, 3, 2))
        self.branches = nn.ModuleList([self.unit(128, 64, 1)] + [self.unit(128, 64, 3, 1, rate) for rate in (6, 12, 18)])
        self.context = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, 64, 1, bias=False), nn.ReLU())
        self.project = nn.Sequential(self.unit(320, 64, 1), nn.Dropout(0.5))
        self.low, self.last = self.unit(32, 24, 1), self.unit(88, 64, 3)
        self.classifier = nn.Conv2d(64, classes, 1)

    def unit(self, before, after, kernel, stride=1, rate=1):
        convolution = nn.Conv2d(before, after, kernel, stride, rate * (kernel // 2), rate, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU(inplace=True))

    def forward(self, x):
        size = x.shape[-2:]
        low = self.stem[0](x)
        high = self.stem[2](self.stem[1](low))
        parts = [branch(high) for branch in self.branches]
        context = functional.interpolate(self.context(high), high.shape[-2:], mode='bilinear', align_corners=False)
        high = self.project(torch.cat([*parts, context], dim=1))
        high = functional.interpolate(high, low.shape[-2:], mode='bilinear', align_corners=False)
        out = self.last(torch.cat([self.low(low), high], dim=1))
        return functional.interpolate(self.classifier(out), size, mode='bilinear', align_corners=False)


class TemporalBlock(nn.Module):
    """Bai et al., 2018: causal convolutions with normalised weights."""

    def __init__(self, before, after, rate, kernel=3):
        super().__init__()
        self.cut = (kernel - 1) * rate
        make = lambda a: parametrizations.weight_norm(nn.Conv1d(a, after, kernel, padding=self.cut, dilation=rate))
        self.conv1, self.conv2 = make(before), make(after)
        self.dropout1, self.dropout2 = nn.Dropout(0.2), nn.Dropout(0.2)
        self.downsample = nn.Conv1d(before, after, 1) if before != after else None

    def forward(self, x):
        out = self.dropout1(torch.relu(self.conv1(x)[:, :, : -self.cut]))
        out = self.dropout2(torch.relu(self.conv2(out)[:, :, : -self.cut]))
        return torch.relu(out + (x if self.downsample is None else self.downsample(x)))


class Tcn(nn.Module):
    """Forecasting with them."""

    def __init__(self, features=8, widths=(32, 64, 64, 128)):
        super().__init__()
        befores = (features, *widths[:-1])
        self.network = nn.Sequential(*(TemporalBlock(a, b, 2**at) for at, (a, b) in enumerate(zip(befores, widths))))
        self.linear = nn.Linear(widths[-1], 1)

    def forward(self, x):
        return self.linear(self.network(x)[:, :, -1])


class Tagger(nn.Module):
    """Words and their letters, an LSTM both ways, a class for each word."""

    def __init__(self, words=8_000, letters=80, tags=20, width=100):
        super().__init__()
        self.words, self.letters = nn.Embedding(words, width), nn.Embedding(letters, 25)
        self.convolution = nn.Conv1d(25, 50, 3, padding=1)
        self.dropout, self.lstm = nn.Dropout(0.5), nn.LSTM(width + 50, 128, batch_first=True, bidirectional=True)
        self.hidden2tag = nn.Linear(256, tags)

    def forward(self, words, letters):
        n, length, each = letters.shape
        shape = self.convolution(self.letters(letters).view(n * length, each, 25).transpose(1, 2)).max(dim=2)[0]
        x = self.dropout(torch.cat([self.words(words), shape.view(n, length, -1)], dim=2))
        out, _ = self.lstm(x)
        return functional.log_softmax(self.hidden2tag(out), dim=-1)


class Modulated(nn.Module):
    """A convolution whose kernel each style scales: one group for each sample."""

    def __init__(self, before, after, style):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before, 3, 3))
        self.style, self.bias = nn.Linear(style, before), nn.Parameter(torch.zeros(after))

    def forward(self, x, w):
        n, c, h, width = x.shape
        scale = self.style(w).view(n, 1, c, 1, 1)
        weight = self.weight.unsqueeze(0) * (scale + 1)
        weight = weight * torch.rsqrt(weight.pow(2).sum(dim=(2, 3, 4), keepdim=True) + 1e-8)
        out = functional.conv2d(x.reshape(1, -1, h, width), weight.view(-1, c, 3, 3), padding=1, groups=n)
        return functional.leaky_relu(out.view(n, -1, h, width) + self.bias.view(1, -1, 1, 1), 0.2)


class StyleGenerator(nn.Module):
    """A generator that is steered at each size."""

    def __init__(self, style=128, widths=(128, 128, 64, 32)):
        super().__init__()
        self.mapping = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(style, style), nn.LeakyReLU(0.2))))
        self.constant = nn.Parameter(torch.randn(1, widths[0], 8, 8))
        self.layers = nn.ModuleList(Modulated(a, b, style) for a, b in zip((widths[0], *widths[:-1]), widths))
        self.to_rgb = nn.Conv2d(widths[-1], 3, 1)

    def forward(self, z):
        w = self.mapping(z)
        x = self.constant.expand(z.size(0), -1, -1, -1)
        for at, layer in enumerate(self.layers):
            if at:
                x = functional.interpolate(x, scale_factor=2, mode='nearest')
            x = layer(x, w)
        return torch.tanh(self.to_rgb(x))


class SpatialGate(nn.Module):
    """Liu et al., 2021: half of the channels gate the other half along the sequence."""

    def __init__(self, width, length):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(width), nn.Conv1d(length, length, 1)
        nn.init.constant_(self.proj.bias, 1.0)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        return u * self.proj(self.norm(v))


class GatedMlp(nn.Module):
    """gMLP over patches."""

    def __init__(self, width=192, length=64, depth=4, classes=10):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 8, 8)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.first = nn.ModuleList(nn.Linear(width, 6 * width) for _ in range(depth))
        self.gates = nn.ModuleList(SpatialGate(3 * width, length) for _ in range(depth))
        self.second = nn.ModuleList(nn.Linear(3 * width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for norm, first, gate, second in zip(self.norms, self.first, self.gates, self.second):
            x = x + second(gate(functional.gelu(first(norm(x)))))
        return self.head(x.mean(dim=1))


class PreNormAttention(nn.Module):
    """As many repositories write it."""

    def __init__(self, width, heads=4, each=48):
        super().__init__()
        self.heads, self.scale = heads, each**-0.5
        self.norm, self.attend, self.dropout = nn.LayerNorm(width), nn.Softmax(dim=-1), nn.Dropout(0.1)
        self.to_qkv = nn.Linear(width, 3 * heads * each, bias=False)
        self.to_out = nn.Sequential(nn.Linear(heads * each, width), nn.Dropout(0.1))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1))
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        out = torch.matmul(self.dropout(self.attend(dots)), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class Tower(nn.Module):
    """A Transformer whose layers are pairs in a list."""

    def __init__(self, width=192, depth=3):
        super().__init__()
        feed = lambda: nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)
        )
        self.layers = nn.ModuleList(nn.ModuleList([PreNormAttention(width), feed()]) for _ in range(depth))

    def forward(self, x):
        for attention, feed in self.layers:
            x = attention(x) + x
            x = feed(x) + x
        return x


class Contrast(nn.Module):
    """Pictures and captions in one space, compared in the batch."""

    def __init__(self, words=6_000, width=192):
        super().__init__()
        self.patch, self.visual = nn.Conv2d(3, width, 16, 16), Tower()
        self.token, self.textual = nn.Embedding(words, width), Tower()
        self.places, self.positions = nn.Parameter(torch.zeros(1, 36, width)), nn.Parameter(torch.zeros(1, 32, width))
        self.image_projection, self.text_projection = nn.Linear(width, 128, bias=False), nn.Linear(width, 128, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, image, text):
        x = self.visual(self.patch(image).flatten(2).transpose(1, 2) + self.places).mean(dim=1)
        y = self.textual(self.token(text) + self.positions).mean(dim=1)
        x = functional.normalize(self.image_projection(x), dim=-1)
        y = functional.normalize(self.text_projection(y), dim=-1)
        return self.logit_scale.exp() * x @ y.t()


class Sage(nn.Module):
    """Neighbours' means, on a dense adjacency."""

    def __init__(self, features=64, width=128, classes=7):
        super().__init__()
        self.self1, self.near1 = nn.Linear(features, width), nn.Linear(features, width, bias=False)
        self.self2, self.near2 = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.norm, self.out = nn.BatchNorm1d(width), nn.Linear(width, classes)

    def forward(self, x, adjacency):
        degree = adjacency.sum(dim=-1, keepdim=True).clamp(min=1)
        x = functional.relu(self.self1(x) + self.near1(adjacency @ x / degree))
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x = functional.dropout(x, p=0.5, training=self.training)
        x = functional.relu(self.self2(x) + self.near2(adjacency @ x / degree))
        return self.out(x.max(dim=1).values)


class Hourglass(nn.Module):
    """Newell et al., 2016: down and up again, with skips at each size."""

    def __init__(self, width=64, depth=3, joints=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        unit = lambda: nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width // 2, 1), nn.BatchNorm2d(width // 2),
            nn.ReLU(inplace=True), nn.Conv2d(width // 2, width // 2, 3, padding=1), nn.BatchNorm2d(width // 2),
            nn.ReLU(inplace=True), nn.Conv2d(width // 2, width, 1),
        )
        self.before, self.skips, self.after = (nn.ModuleList(unit() for _ in range(depth)) for _ in range(3))
        self.inner, self.head = unit(), nn.Conv2d(width, joints, 1)

    def level(self, x, depth):
        skip = x + self.skips[depth](x)
        low = functional.max_pool2d(x, 2)
        low = low + self.before[depth](low)
        low = self.level(low, depth - 1) if depth else low + self.inner(low)
        low = low + self.after[depth](low)
        return skip + functional.interpolate(low, scale_factor=2)

    def forward(self, x):
        return self.head(self.level(self.stem(x), len(self.skips) - 1))


class RawAudio(nn.Module):
    """Dai et al., 2016: a waveform through wide strides."""

    def __init__(self, width=64, classes=35):
        super().__init__()
        self.conv1, self.bn1, self.pool1 = nn.Conv1d(1, width, 80, 16), nn.BatchNorm1d(width), nn.MaxPool1d(4)
        self.conv2, self.bn2, self.pool2 = nn.Conv1d(width, width, 3), nn.BatchNorm1d(width), nn.MaxPool1d(4)
        self.conv3, self.bn3, self.pool3 = nn.Conv1d(width, 2 * width, 3), nn.BatchNorm1d(2 * width), nn.MaxPool1d(4)
        self.fc1 = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.pool1(functional.relu(self.bn1(self.conv1(x))))
        x = self.pool2(functional.relu(self.bn2(self.conv2(x))))
        x = self.pool3(functional.relu(self.bn3(self.conv3(x))))
        x = functional.avg_pool1d(x, x.shape[-1]).permute(0, 2, 1)
        return functional.log_softmax(self.fc1(x), dim=2).squeeze(1)


class StepDecoder(nn.Module):
    """A picture, and a sentence from it, a cell at a time with attention."""

    def __init__(self, words=4_000, width=256, steps=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.Conv2d(128, width, 3, 2, 1)
        )
        self.embedding, self.cell = nn.Embedding(words, width), nn.LSTMCell(2 * width, width)
        self.query, self.key, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.fc, self.steps = nn.Linear(width, words), steps

    def forward(self, image, text):
        memory = self.encoder(image).flatten(2).transpose(1, 2)
        keys, words = self.key(memory), self.embedding(text)
        h = c = memory.mean(dim=1)
        outputs = []
        for step in range(self.steps):
            scores = self.score(torch.tanh(keys + self.query(h).unsqueeze(1)))
            context = (functional.softmax(scores, dim=1) * memory).sum(dim=1)
            h, c = self.cell(torch.cat([words[:, step], context], dim=1), (h, c))
            outputs.append(self.fc(h))
        return torch.stack(outputs, dim=1)


class ActorCritic(nn.Module):
    """One body, two heads."""

    def __init__(self, features=376, actions=17, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.mean, self.value = nn.Linear(width, actions), nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.zeros(actions))

    def forward(self, x):
        x = self.body(x)
        scaled = (self.mean(x) / self.log_std.exp()) ** 2
        return torch.cat([scaled, self.value(x)], dim=-1)


class Flow(nn.Module):
    """A field integrated by ten steps of Euler."""

    def __init__(self, features=64, width=256):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(features + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, features)

    def forward(self, x):
        for step in range(10):
            t = torch.full_like(x[:, :1], step / 10)
            x = x + 0.1 * self.out(self.field(torch.cat([x, t], dim=1)))
        return x


add('volume', Volume, pairs(lambda n: {'x': torch.zeros(n, 1, 48, 48, 48)}))
add('wide_resnet', WideResNet, images(3, 32))
add('aspp', Aspp, images(3, 128, 128, 128))
add('tcn', Tcn, numbers(8, 256))
add(
    'tagger',
    Tagger,
    lambda n: (
        {'words': torch.zeros(n, 40, dtype=torch.long), 'letters': torch.zeros(n, 40, 12, dtype=torch.long)},
        torch.zeros(n, 40, dtype=torch.long),
    ),
)
add('style_generator', StyleGenerator, numbers(128))
add('gated_mlp', GatedMlp, images(3, 64))
add(
    'contrast',
    Contrast,
    lambda n: ({'image': torch.zeros(n, 3, 96, 96), 'text': torch.zeros(n, 32, dtype=torch.long)}, torch.zeros(n, dtype=torch.long)),
)
add('sage', Sage, pairs(lambda n: {'x': torch.zeros(n, 120, 64), 'adjacency': torch.zeros(n, 120, 120)}))
add('hourglass', Hourglass, images(3, 128))
add('raw_audio', RawAudio, numbers(1, 16_000))
add(
    'step_decoder',
    StepDecoder,
    lambda n: (
        {'image': torch.zeros(n, 3, 96, 96), 'text': torch.zeros(n, 12, dtype=torch.long)},
        torch.zeros(n, 12, dtype=torch.long),
    ),
)
add('actor_critic', ActorCritic, numbers(376))
add('flow', Flow, numbers(64))

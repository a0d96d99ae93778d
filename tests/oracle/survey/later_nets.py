"""Networks that people write by hand, a fourth time: series, tables, sets, decoders on known encoders.

`add`, and what makes inputs, come from `truth/named.py`.
"""

import torch
import torchvision
from torch import nn
from torch.nn import functional


class SeriesBlock(nn.Module):
    """Two long filters, dropout between, pooled shortcut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(before, after, 15, stride, 7, bias=False)
        self.bn1 = nn.BatchNorm1d(after)
        self.drop = nn.Dropout(0.2)
        self.conv2 = nn.Conv1d(after, after, 15, 1, 7, bias=False)
        self.bn2 = nn.BatchNorm1d(after)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool1d(stride, ceil_mode=True) if stride > 1 else None
        self.match = nn.Conv1d(before, after, 1, bias=False) if before != after else None

    def forward(self, x):
        out = self.conv2(self.drop(self.relu(self.bn1(self.conv1(x)))))
        if self.pool is not None:
            x = self.pool(x)
        if self.match is not None:
            x = self.match(x)
        return self.relu(self.bn2(out) + x)


class SeriesResNet(nn.Module):
    """Twelve leads, ten seconds."""

    def __init__(self, leads=12, classes=9):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(leads, 64, 15, 2, 7, bias=False), nn.BatchNorm1d(64), nn.ReLU(inplace=True))
        widths = [64, 64, 128, 128, 196, 196, 256]
        blocks = [SeriesBlock(before, after, 2 if at % 2 else 1) for at, (before, after) in enumerate(zip(widths, widths[1:]))]
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(torch.cat([x.mean(dim=-1), x.amax(dim=-1)], dim=1))


class Attend(nn.Module):
    """Queries, keys and values by hand."""

    def __init__(self, width, heads, dropout=0.2):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out, self.heads, self.dropout = nn.Linear(width, width), heads, nn.Dropout(dropout)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (part(x).reshape(b, n, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = functional.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, dim=-1)
        return self.out((self.dropout(scores) @ v).transpose(1, 2).reshape(b, n, d))


class FtTransformer(nn.Module):
    """A token for each column of a table."""

    def __init__(self, columns=40, width=96, depth=3, classes=2):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns, width))
        self.bias = nn.Parameter(torch.zeros(columns, width))
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.attends = nn.ModuleList(Attend(width, 8) for _ in range(depth))
        self.norm1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.norm2 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x):
        x = x.unsqueeze(-1) * self.weight + self.bias
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        for attend, norm1, norm2, wide, narrow in zip(self.attends, self.norm1, self.norm2, self.wide, self.narrow):
            x = x + self.drop(attend(norm1(x)))
            value, gate = wide(norm2(x)).chunk(2, dim=-1)
            x = x + self.drop(narrow(value * functional.relu(gate)))
        return self.head(x[:, 0])


class Induced(nn.Module):
    """Attention through a few learnt points."""

    def __init__(self, width, heads, points):
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, width))
        self.one = nn.MultiheadAttention(width, heads, batch_first=True)
        self.two = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        points = self.points.repeat(x.size(0), 1, 1)
        low = self.one(points, x, x, need_weights=False)[0]
        x = self.norm1(x + self.two(x, low, low, need_weights=False)[0])
        return self.norm2(x + self.mlp(x))


class SetTransformer(nn.Module):
    """Clouds of points to classes."""

    def __init__(self, width=128, classes=40):
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.blocks = nn.Sequential(Induced(width, 4, 32), Induced(width, 4, 32))
        self.seed = nn.Parameter(torch.randn(1, 1, width))
        self.pool = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.blocks(self.embed(x))
        pooled, _ = self.pool(self.seed.expand(x.size(0), -1, -1), x, x)
        return self.head(pooled.squeeze(1))


class LinkNet(nn.Module):
    """ResNet-18 and a decoder that adds."""

    def __init__(self, classes=11):
        super().__init__()
        base = torchvision.models.resnet18(weights=None)
        self.first = nn.Sequential(base.conv1, base.bn1, base.relu, base.maxpool)
        self.e1, self.e2, self.e3, self.e4 = base.layer1, base.layer2, base.layer3, base.layer4
        self.d4, self.d3, self.d2, self.d1 = (self.up(a, b) for a, b in ((512, 256), (256, 128), (128, 64), (64, 64)))
        self.last = nn.Sequential(
            nn.ConvTranspose2d(64, 32, 3, 2, 1, 1), nn.BatchNorm2d(32), nn.ReLU(True),
            nn.Conv2d(32, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(True), nn.ConvTranspose2d(32, classes, 2, 2),
        )

    def up(self, before, after):
        middle = before // 4
        return nn.Sequential(
            nn.Conv2d(before, middle, 1), nn.BatchNorm2d(middle), nn.ReLU(True),
            nn.ConvTranspose2d(middle, middle, 3, 2, 1, 1) if before != after else nn.Conv2d(middle, middle, 3, 1, 1),
            nn.BatchNorm2d(middle), nn.ReLU(True), nn.Conv2d(middle, after, 1), nn.BatchNorm2d(after), nn.ReLU(True),
        )

    def forward(self, x):
        x = self.first(x)
        e1 = self.e1(x)
        e2 = self.e2(e1)
        e3 = self.e3(e2)
        d4 = self.d4(self.e4(e3)) + e3
        d3 = self.d3(d4) + e2
        d2 = self.d2(d3) + e1
        return self.last(self.d1(d2))


class SpatialTransformer(nn.Module):
    """The tutorial's: the picture is straightened first."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1, self.fc2 = nn.Linear(2420, 50), nn.Linear(50, 10)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 8, 7), nn.MaxPool2d(2, 2), nn.ReLU(True), nn.Conv2d(8, 10, 5), nn.MaxPool2d(2, 2), nn.ReLU(True)
        )
        self.fc_loc = nn.Sequential(nn.Linear(10 * 10 * 10, 32), nn.ReLU(True), nn.Linear(32, 6))

    def forward(self, x):
        theta = self.fc_loc(self.localization(x).view(-1, 1000)).view(-1, 2, 3)
        grid = functional.affine_grid(theta, x.size(), align_corners=False)
        x = functional.grid_sample(x, grid, align_corners=False)
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = x.view(-1, 2420)
        x = functional.dropout(functional.relu(self.fc1(x)), training=self.training)
        return functional.log_softmax(self.fc2(x), dim=1)


class Padded(nn.Module):
    """Mirrored borders, then a filter."""

    def __init__(self, before, after, kernel, stride=1, scale=0):
        super().__init__()
        self.scale = scale
        self.pad = nn.ReflectionPad2d(kernel // 2)
        self.conv = nn.Conv2d(before, after, kernel, stride)

    def forward(self, x):
        if self.scale:
            x = functional.interpolate(x, mode='nearest', scale_factor=self.scale)
        return self.conv(self.pad(x))


class Stylised(nn.Module):
    """Adds what it drew."""

    def __init__(self, width):
        super().__init__()
        self.conv1, self.in1 = Padded(width, width, 3), nn.InstanceNorm2d(width, affine=True)
        self.conv2, self.in2 = Padded(width, width, 3), nn.InstanceNorm2d(width, affine=True)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.in2(self.conv2(self.relu(self.in1(self.conv1(x))))) + x


class StyleTransfer(nn.Module):
    """A picture in another's style, as PyTorch's examples have it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.in1 = Padded(3, 32, 9), nn.InstanceNorm2d(32, affine=True)
        self.conv2, self.in2 = Padded(32, 64, 3, 2), nn.InstanceNorm2d(64, affine=True)
        self.conv3, self.in3 = Padded(64, 128, 3, 2), nn.InstanceNorm2d(128, affine=True)
        self.blocks = nn.Sequential(*(Stylised(128) for _ in range(5)))
        self.up1, self.in4 = Padded(128, 64, 3, scale=2), nn.InstanceNorm2d(64, affine=True)
        self.up2, self.in5 = Padded(64, 32, 3, scale=2), nn.InstanceNorm2d(32, affine=True)
        self.last, self.relu = Padded(32, 3, 9), nn.ReLU()

    def forward(self, x):
        y = self.relu(self.in1(self.conv1(x)))
        y = self.relu(self.in2(self.conv2(y)))
        y = self.blocks(self.relu(self.in3(self.conv3(y))))
        y = self.relu(self.in4(self.up1(y)))
        y = self.relu(self.in5(self.up2(y)))
        return self.last(y)


class Forecast(nn.Module):
    """A GRU that reads a series, and a cell that writes its future with attention."""

    def __init__(self, inputs=8, hidden=128, steps=24):
        super().__init__()
        self.encoder = nn.GRU(inputs, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.cell = nn.GRUCell(hidden + 1, hidden)
        self.query, self.key, self.score = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        self.out, self.steps = nn.Linear(hidden, 1), steps

    def forward(self, x):
        states, last = self.encoder(x)
        keys, h, y = self.key(states), last[-1], x[:, -1, :1]
        written = []
        for _ in range(self.steps):
            scores = self.score(torch.tanh(keys + self.query(h).unsqueeze(1))).squeeze(-1)
            context = torch.bmm(torch.softmax(scores, dim=1).unsqueeze(1), states).squeeze(1)
            h = self.cell(torch.cat([context, y], dim=1), h)
            y = self.out(h)
            written.append(y)
        return torch.cat(written, dim=1)


class Dense5(nn.Module):
    """ESRGAN's densely connected filters."""

    def __init__(self, width=48, growth=24):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(width + at * growth, growth if at < 4 else width, 3, 1, 1) for at in range(5))
        self.lrelu = nn.LeakyReLU(0.2, inplace=True)

    def forward(self, x):
        seen = [x]
        for conv in self.convs[:-1]:
            seen.append(self.lrelu(conv(torch.cat(seen, 1))))
        return self.convs[-1](torch.cat(seen, 1)) * 0.2 + x


class EsrGan(nn.Module):
    """Four times as wide."""

    def __init__(self, width=48, blocks=4):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.body = nn.Sequential(*(Dense5(width) for _ in range(blocks)))
        self.trunk = nn.Conv2d(width, width, 3, 1, 1)
        self.up1, self.up2 = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.hr, self.last = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.lrelu = nn.LeakyReLU(0.2, inplace=True)

    def forward(self, x):
        first = self.first(x)
        out = first + self.trunk(self.body(first))
        out = self.lrelu(self.up1(functional.interpolate(out, scale_factor=2, mode='nearest')))
        out = self.lrelu(self.up2(functional.interpolate(out, scale_factor=2, mode='nearest')))
        return self.last(self.lrelu(self.hr(out)))


class MobileUNet(nn.Module):
    """MobileNetV2 read at five depths, and a plain decoder."""

    def __init__(self, classes=2):
        super().__init__()
        self.features = torchvision.models.mobilenet_v2(weights=None).features[:18]
        self.taken, widths = (1, 3, 6, 13, 17), (16, 24, 32, 96, 320)
        self.ups = nn.ModuleList()
        before = widths[-1]
        for skip in reversed(widths[:-1]):
            self.ups.append(nn.Sequential(
                nn.Conv2d(before + skip, skip * 2, 3, padding=1, bias=False), nn.BatchNorm2d(skip * 2), nn.ReLU(inplace=True),
                nn.Conv2d(skip * 2, skip * 2, 3, padding=1, bias=False), nn.BatchNorm2d(skip * 2), nn.ReLU(inplace=True),
            ))
            before = skip * 2
        self.head = nn.Conv2d(before, classes, 1)

    def forward(self, x):
        size, kept = x.shape[-2:], []
        for at, layer in enumerate(self.features):
            x = layer(x)
            if at in self.taken:
                kept.append(x)
        x = kept.pop()
        for up in self.ups:
            skip = kept.pop()
            x = functional.interpolate(x, size=skip.shape[-2:], mode='bilinear', align_corners=True)
            x = up(torch.cat([x, skip], dim=1))
        return functional.interpolate(self.head(x), size=size, mode='bilinear', align_corners=False)


add('series_resnet', SeriesResNet, numbers(12, 5000))
add('ft_transformer', FtTransformer, numbers(40))
add('set_transformer', SetTransformer, numbers(1024, 3))
add('linknet', LinkNet, images(3, 256, 256, 256))
add('spatial_transformer', SpatialTransformer, images(1, 56))
add('style_transfer', StyleTransfer, images(3, 256))
add('forecast', Forecast, numbers(96, 8))
add('esrgan', EsrGan, images(3, 64))
add('mobile_unet', MobileUNet, images(3, 256, 256, 256))

"""More networks that people write by hand: tutorials, courses, papers' repositories.

`add`, and what makes inputs, come from `truth/named.py`.
"""

import math

import torch
from torch import nn
from torch.nn import functional


class CausalSelfAttention(nn.Module):
    """As small GPTs have it: one projection, a mask kept as buffer."""

    def __init__(self, width, heads, length, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.register_buffer('bias', torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in (q, k, v))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float('-inf'))
            y = self.attn_dropout(functional.softmax(att, dim=-1)) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)))


class MiniGpt(nn.Module):
    """A GPT of a course."""

    def __init__(self, vocabulary=5_000, length=128, width=192, heads=6, layers=4, fused=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop, self.ln_f = nn.Dropout(0.1), nn.LayerNorm(width)
        self.attn = nn.ModuleList(CausalSelfAttention(width, heads, length, fused) for _ in range(layers))
        self.ln_1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.ln_2 = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
            for _ in range(layers)
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for norm, attn, second, mlp in zip(self.ln_1, self.attn, self.ln_2, self.mlp):
            x = x + attn(norm(x))
            x = x + mlp(second(x))
        return self.lm_head(self.ln_f(x))


class ScratchVit(nn.Module):
    """A vision transformer as blog posts write it: patches cut by hand, attention spelled out."""

    def __init__(self, side=64, patch=8, width=192, heads=3, layers=4, classes=10):
        super().__init__()
        self.patch, self.heads = patch, heads
        count = (side // patch) ** 2
        self.embed = nn.Sequential(nn.LayerNorm(3 * patch * patch), nn.Linear(3 * patch * patch, width), nn.LayerNorm(width))
        self.cls, self.pos = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, count + 1, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width), nn.Dropout(0.1))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, classes)

    def attention(self, x, qkv, out):
        b, n, c = x.shape
        q, k, v = qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        dots = torch.matmul(q, k.transpose(-1, -2)) * (c // self.heads) ** -0.5
        return out(torch.matmul(dots.softmax(dim=-1), v).transpose(1, 2).reshape(b, n, c))

    def forward(self, x):
        b, c, h, w = x.shape
        p = self.patch
        x = x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, (h // p) * (w // p), p * p * c)
        x = torch.cat([self.cls.expand(b, -1, -1), self.embed(x)], dim=1) + self.pos
        for index, (qkv, out, mlp) in enumerate(zip(self.qkv, self.out, self.mlps)):
            x = x + self.attention(self.norms[2 * index](x), qkv, out)
            x = x + mlp(self.norms[2 * index + 1](x))
        return self.head(x[:, 0])


def residual(width):
    return nn.Sequential(
        nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width), nn.ReLU(True),
        nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width),
    )  # fmt: skip


class CycleGenerator(nn.Module):
    """Zhu et al., 2017."""

    def __init__(self, width=32, blocks=3):
        super().__init__()
        self.begin = nn.Sequential(
            nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), nn.InstanceNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.InstanceNorm2d(2 * width), nn.ReLU(True),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.InstanceNorm2d(4 * width), nn.ReLU(True),
        )  # fmt: skip
        self.blocks = nn.ModuleList(residual(4 * width) for _ in range(blocks))
        self.end = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(2 * width), nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(width), nn.ReLU(True),
            nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x):
        x = self.begin(x)
        for block in self.blocks:
            x = x + block(x)
        return self.end(x)


class SpectralCritic(nn.Module):
    """A critic without batch norm, LeakyReLU and strided convolutions."""

    def __init__(self, width=48):
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(8, b), nn.LeakyReLU(0.2))
                for a, b in zip(sizes, sizes[1:])
            )
        )
        self.head = nn.Conv2d(sizes[-1], 1, 4)

    def forward(self, x):
        return self.head(self.layers(x)).mean(dim=(2, 3))


class SegNet(nn.Module):
    """Badrinarayanan et al., 2015, with bilinear upsampling."""

    def __init__(self, widths=(32, 64, 128), classes=12):
        super().__init__()

        def twice(a, b):
            return nn.Sequential(
                nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()
            )

        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(twice(a, b) for a, b in zip(widths[::-1], (*widths[-2::-1], 32)))
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(32, classes, 1)

    def forward(self, x):
        for layer in self.down:
            x = self.pool(layer(x))
        for layer in self.up:
            x = layer(functional.interpolate(x, scale_factor=2, mode='bilinear', align_corners=True))
        return self.head(x)


class ResUNet(nn.Module):
    """Residual blocks down and up, transposed convolutions between."""

    class Unit(nn.Module):
        def __init__(self, given, made):
            super().__init__()
            self.a, self.b = nn.Conv2d(given, made, 3, padding=1), nn.Conv2d(made, made, 3, padding=1)
            self.norm_a, self.norm_b = nn.BatchNorm2d(given), nn.BatchNorm2d(made)
            self.skip = nn.Conv2d(given, made, 1)

        def forward(self, x):
            y = self.a(functional.relu(self.norm_a(x)))
            return self.b(functional.relu(self.norm_b(y))) + self.skip(x)

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        self.begin = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(self.Unit(a, b) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.join = nn.ModuleList(self.Unit(2 * a, a) for a in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        x = self.begin(x)
        kept = []
        for unit in self.down:
            kept.append(x)
            x = unit(functional.max_pool2d(x, 2))
        for up, join, skip in zip(self.up, self.join, kept[::-1]):
            x = join(torch.cat([up(x), skip], dim=1))
        return self.head(x)


class DnCnn(nn.Module):
    """Zhang et al., 2017: the noise, not the picture."""

    def __init__(self, depth=10, width=64):
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.dncnn = nn.Sequential(*layers, nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x):
        return x - self.dncnn(x)


class Edsr(nn.Module):
    """Lim et al., 2017."""

    def __init__(self, width=64, blocks=8):
        super().__init__()
        self.head, self.tail = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(True), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(blocks)
        )
        self.up = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        x = kept = self.head(x)
        for block in self.body:
            x = x + block(x).mul(0.1)
        return self.tail(self.up(x + kept))


class SqueezeBlock(nn.Module):
    """Hu et al., 2017, around two convolutions."""

    def __init__(self, given, made, stride=1):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(made), nn.BatchNorm2d(made)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(nn.Linear(made, made // 16, bias=False), nn.ReLU(inplace=True), nn.Linear(made // 16, made, bias=False), nn.Sigmoid())
        self.downsample = None
        if stride != 1 or given != made:
            self.downsample = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        b, c, _, _ = out.size()
        out = out * self.fc(self.pool(out).view(b, c)).view(b, c, 1, 1).expand_as(out)
        out += identity
        return self.relu(out)


class SeResNet(nn.Module):
    def __init__(self, classes=100):
        super().__init__()
        self.begin = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(
            SqueezeBlock(64, 64), SqueezeBlock(64, 128, 2), SqueezeBlock(128, 256, 2), SqueezeBlock(256, 512, 2)
        )
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        return self.head(self.layers(self.begin(x)).mean([2, 3]))


class DenseBc(nn.Module):
    """Huang et al., 2016, for small pictures."""

    class Layer(nn.Module):
        def __init__(self, given, growth):
            super().__init__()
            self.bn1, self.conv1 = nn.BatchNorm2d(given), nn.Conv2d(given, 4 * growth, 1, bias=False)
            self.bn2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

        def forward(self, x):
            out = self.conv1(functional.relu(self.bn1(x)))
            return torch.cat((x, self.conv2(functional.relu(self.bn2(out)))), 1)

    def __init__(self, growth=12, blocks=6):
        super().__init__()
        layers, given = [nn.Conv2d(3, 2 * growth, 3, padding=1, bias=False)], 2 * growth
        for stage in range(3):
            for _ in range(blocks):
                layers.append(self.Layer(given, growth))
                given += growth
            if stage < 2:
                layers += [nn.BatchNorm2d(given), nn.ReLU(), nn.Conv2d(given, given // 2, 1, bias=False), nn.AvgPool2d(2)]
                given //= 2
        self.body, self.bn, self.fc = nn.Sequential(*layers), nn.BatchNorm2d(given), nn.Linear(given, 10)

    def forward(self, x):
        out = functional.relu(self.bn(self.body(x)))
        return self.fc(functional.adaptive_avg_pool2d(out, 1).flatten(1))


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x) + x


def conv_mixer(width=128, depth=6, kernel=7, patch=4, classes=10):
    """Trockman and Kolter, 2022: in ten lines."""
    return nn.Sequential(
        nn.Conv2d(3, width, patch, patch), nn.GELU(), nn.BatchNorm2d(width),
        *[
            nn.Sequential(
                Residual(nn.Sequential(nn.Conv2d(width, width, kernel, groups=width, padding='same'), nn.GELU(), nn.BatchNorm2d(width))),
                nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width),
            )
            for _ in range(depth)
        ],
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(width, classes),
    )  # fmt: skip


class EcgNet(nn.Module):
    """A residual network over a series, as for electrocardiograms."""

    def __init__(self, width=32, classes=5):
        super().__init__()
        self.begin = nn.Sequential(nn.Conv1d(12, width, 15, 2, 7), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(3, 2, 1))
        sizes = [width, 2 * width, 4 * width]
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(a, b, 7, 2, 3), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.2), nn.Conv1d(b, b, 7, 1, 3), nn.BatchNorm1d(b)
            )
            for a, b in zip(sizes, sizes[1:])
        )
        self.skips = nn.ModuleList(nn.Conv1d(a, b, 1, 2) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x):
        x = self.begin(x)
        for block, skip in zip(self.blocks, self.skips):
            x = functional.relu(block(x) + skip(x))
        return self.head(functional.adaptive_avg_pool1d(x, 1).squeeze(-1))


class EegNet(nn.Module):
    """Lawhern et al., 2018."""

    def __init__(self, channels=32, samples=256, classes=4):
        super().__init__()
        self.block1 = nn.Sequential(
            nn.Conv2d(1, 8, (1, 64), padding='same', bias=False), nn.BatchNorm2d(8),
            nn.Conv2d(8, 16, (channels, 1), groups=8, bias=False), nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 4)), nn.Dropout(0.25),
        )  # fmt: skip
        self.block2 = nn.Sequential(
            nn.Conv2d(16, 16, (1, 16), groups=16, padding='same', bias=False), nn.Conv2d(16, 16, 1, bias=False),
            nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 8)), nn.Dropout(0.25),
        )  # fmt: skip
        self.head = nn.Linear(16 * (samples // 32), classes)

    def forward(self, x):
        return self.head(self.block2(self.block1(x)).flatten(1))


class PositionalEncoding(nn.Module):
    """As PyTorch's tutorial has it."""

    def __init__(self, width, length=512):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        position = torch.arange(length).unsqueeze(1)
        div = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(length, 1, width)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer('pe', pe)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class TransformerLm(nn.Module):
    """PyTorch's tutorial of language modelling."""

    def __init__(self, vocabulary=10_000, width=200, heads=2, hidden=200, layers=2):
        super().__init__()
        self.pos = PositionalEncoding(width)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, hidden, 0.2), layers)
        self.embedding, self.linear, self.width = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary), width

    def forward(self, src):
        src = self.pos(self.embedding(src.t()) * math.sqrt(self.width))
        mask = nn.Transformer.generate_square_subsequent_mask(src.size(0))
        return self.linear(self.layers(src, mask)).transpose(0, 1)


class Translator(nn.Module):
    """PyTorch's tutorial of translation, with `nn.Transformer`."""

    def __init__(self, words=8_000, width=256, heads=8, layers=2, hidden=512):
        super().__init__()
        self.transformer = nn.Transformer(width, heads, layers, layers, hidden, 0.1, batch_first=True)
        self.src, self.tgt, self.generator = nn.Embedding(words, width), nn.Embedding(words, width), nn.Linear(width, words)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        return self.generator(self.transformer(self.src(src), self.tgt(tgt), tgt_mask=mask))


class Seq2Seq(nn.Module):
    """A GRU that reads, a GRU that writes, dot attention between."""

    def __init__(self, words=6_000, width=256):
        super().__init__()
        self.src, self.tgt = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder, self.decoder = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.join, self.out = nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, src, tgt):
        memory, hidden = self.encoder(self.src(src))
        out, _ = self.decoder(self.tgt(tgt), hidden)
        scores = torch.bmm(out, memory.transpose(1, 2)).softmax(dim=-1)
        return self.out(torch.tanh(self.join(torch.cat([torch.bmm(scores, memory), out], dim=-1))))


class LstmAutoencoder(nn.Module):
    """A series into a state, and back."""

    def __init__(self, features=16, width=64):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(features, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, features)

    def forward(self, x):
        _, (hidden, _) = self.encoder(x)
        out, _ = self.decoder(hidden[-1].unsqueeze(1).repeat(1, x.size(1), 1))
        return self.head(out)


class StackedLstm(nn.Module):
    """Forecasting with two layers and dropout between."""

    def __init__(self, features=8, width=128):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(features, width, 2, batch_first=True, dropout=0.2), nn.Linear(width, 1)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1, :])


class CrossNet(nn.Module):
    """Wang et al., 2017: deep and cross."""

    def __init__(self, fields=16, values=1_000, width=16, layers=3):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(values, width) for _ in range(fields))
        size = fields * width
        self.w = nn.ParameterList(nn.Parameter(torch.zeros(size, 1)) for _ in range(layers))
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(size)) for _ in range(layers))
        self.deep = nn.Sequential(nn.Linear(size, 256), nn.ReLU(), nn.BatchNorm1d(256), nn.Linear(256, 128), nn.ReLU())
        self.head = nn.Linear(size + 128, 1)

    def forward(self, x):
        first = torch.cat([table(x[:, index]) for index, table in enumerate(self.tables)], dim=1)
        cross = first
        for w, b in zip(self.w, self.b):
            cross = first * (cross @ w) + b + cross
        return torch.sigmoid(self.head(torch.cat([cross, self.deep(first)], dim=1)))


class Gcn(nn.Module):
    """Kipf and Welling, 2016, over dense adjacency."""

    def __init__(self, features=128, width=64, classes=7):
        super().__init__()
        self.a, self.b = nn.Linear(features, width, bias=False), nn.Linear(width, classes, bias=False)

    def forward(self, x, adjacency):
        x = functional.dropout(functional.relu(adjacency @ self.a(x)), 0.5, self.training)
        return functional.log_softmax(adjacency @ self.b(x), dim=-1).mean(dim=1)


class Gat(nn.Module):
    """Velickovic et al., 2018, over dense adjacency."""

    def __init__(self, features=64, width=32, heads=4, classes=7):
        super().__init__()
        self.heads, self.width = heads, width
        self.w = nn.Linear(features, heads * width, bias=False)
        self.left, self.right = nn.Parameter(torch.zeros(heads, width)), nn.Parameter(torch.zeros(heads, width))
        self.head = nn.Linear(heads * width, classes)

    def forward(self, x, adjacency):
        b, n, _ = x.shape
        h = self.w(x).view(b, n, self.heads, self.width)
        scores = (h * self.left).sum(-1).unsqueeze(2) + (h * self.right).sum(-1).unsqueeze(1)
        scores = functional.leaky_relu(scores, 0.2).masked_fill(adjacency.unsqueeze(-1) == 0, -1e9)
        out = torch.einsum('bijh,bjhd->bihd', scores.softmax(dim=2), h)
        return self.head(functional.elu(out.reshape(b, n, -1)).mean(dim=1))


class Dqn(nn.Module):
    """Mnih et al., 2015."""

    def __init__(self, actions=6):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()
        )
        self.value = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 1))
        self.advantage = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions))

    def forward(self, x):
        x = self.conv(x / 255.0)
        value, advantage = self.value(x), self.advantage(x)
        return value + advantage - advantage.mean(dim=1, keepdim=True)


class ConvVae(nn.Module):
    """Pictures through a small code."""

    def __init__(self, code=64):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.LeakyReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.LeakyReLU(),
            nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.LeakyReLU(), nn.Flatten(),
        )  # fmt: skip
        self.mu, self.log_var, self.begin = nn.Linear(8192, code), nn.Linear(8192, code), nn.Linear(code, 8192)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), nn.BatchNorm2d(64), nn.LeakyReLU(), nn.ConvTranspose2d(64, 32, 3, 2, 1, 1),
            nn.BatchNorm2d(32), nn.LeakyReLU(), nn.ConvTranspose2d(32, 3, 3, 2, 1, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x):
        h = self.encoder(x)
        mu, log_var = self.mu(h), self.log_var(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_var)
        return self.decoder(self.begin(z).view(-1, 128, 8, 8))


class VqVae(nn.Module):
    """van den Oord et al., 2017."""

    def __init__(self, width=64, codes=512):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 1))
        self.codebook = nn.Embedding(codes, width)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1))

    def forward(self, x):
        z = self.encoder(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.size(-1))
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codebook.weight.t() + self.codebook.weight.pow(2).sum(1)
        quantised = self.codebook(distance.argmin(dim=1)).view(z.shape)
        quantised = z + (quantised - z).detach()
        return self.decoder(quantised.permute(0, 3, 1, 2))


class ConvLstm(nn.Module):
    """Shi et al., 2015: one cell over the frames."""

    def __init__(self, given=1, width=32):
        super().__init__()
        self.width, self.gates, self.head = width, nn.Conv2d(given + width, 4 * width, 3, padding=1), nn.Conv2d(width, 1, 1)

    def forward(self, frames):
        b, t, _, height, side = frames.shape
        h = c = frames.new_zeros(b, self.width, height, side)
        for step in range(t):
            i, f, o, g = torch.chunk(self.gates(torch.cat([frames[:, step], h], dim=1)), 4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


class ConformerBlock(nn.Module):
    """Gulati et al., 2020."""

    def __init__(self, width, heads, kernel=15):
        super().__init__()

        def feed():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.Dropout(0.1))

        self.ff1, self.ff2 = feed(), feed()
        self.norm_attn, self.attn = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.norm_conv, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.conv = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1), nn.GLU(dim=1), nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1), nn.Dropout(0.1),
        )  # fmt: skip

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        y = self.norm_attn(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        x = x + self.conv(self.norm_conv(x).transpose(1, 2)).transpose(1, 2)
        return self.norm_out(x + 0.5 * self.ff2(x))


class Conformer(nn.Module):
    def __init__(self, features=80, width=144, heads=4, layers=2, classes=30):
        super().__init__()
        self.begin, self.head = nn.Linear(features, width), nn.Linear(width, classes)
        self.blocks = nn.Sequential(*(ConformerBlock(width, heads) for _ in range(layers)))

    def forward(self, x):
        return self.head(self.blocks(self.begin(x)).mean(dim=1))


class DiffusionUNet(nn.Module):
    """A denoiser of a course: time as sines, added between blocks."""

    class Unit(nn.Module):
        def __init__(self, given, made, time):
            super().__init__()
            self.a = nn.Sequential(nn.GroupNorm(8, given), nn.SiLU(), nn.Conv2d(given, made, 3, padding=1))
            self.t = nn.Sequential(nn.SiLU(), nn.Linear(time, made))
            self.b = nn.Sequential(nn.GroupNorm(8, made), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(made, made, 3, padding=1))
            self.skip = nn.Identity() if given == made else nn.Conv2d(given, made, 1)

        def forward(self, x, t):
            h = self.a(x) + self.t(t)[:, :, None, None]
            return self.b(h) + self.skip(x)

    def __init__(self, width=32):
        super().__init__()
        time, self.width = 4 * width, width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.begin, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down1, self.down2 = self.Unit(width, width, time), self.Unit(width, 2 * width, time)
        self.pool1, self.pool2 = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.middle = self.Unit(2 * width, 2 * width, time)
        self.up2, self.up1 = self.Unit(4 * width, width, time), self.Unit(2 * width, width, time)
        self.wide = nn.Upsample(scale_factor=2, mode='nearest')

    def forward(self, x, t):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        args = t[:, None].float() * freqs[None]
        emb = self.time(torch.cat([torch.sin(args), torch.cos(args)], dim=-1))
        a = self.down1(self.begin(x), emb)
        b = self.down2(self.pool1(a), emb)
        m = self.middle(self.pool2(b), emb)
        m = self.up2(torch.cat([self.wide(m), b], dim=1), emb)
        return self.head(self.up1(torch.cat([self.wide(m), a], dim=1), emb))


class NBeats(nn.Module):
    """Oreshkin et al., 2020, generic blocks."""

    def __init__(self, past=96, future=24, width=256, blocks=4):
        super().__init__()
        self.past, self.future = past, future
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(past, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, past + future))
            for _ in range(blocks)
        )

    def forward(self, x):
        forecast = 0
        for block in self.blocks:
            back, ahead = block(x).split([self.past, self.future], dim=-1)
            x, forecast = x - back, forecast + ahead
        return forecast


class LlamaLike(nn.Module):
    """Llama as repositories from scratch write it: RMS norm by hand, rotation by halves, SwiGLU, repeated keys."""

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
            return y.type_as(x) * self.weight

    class Layer(nn.Module):
        def __init__(self, width, heads, few, hidden):
            super().__init__()
            self.heads, self.few, self.size = heads, few, width // heads
            self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.wk, self.wv = (nn.Linear(width, few * self.size, bias=False) for _ in range(2))
            self.w1, self.w3 = (nn.Linear(width, hidden, bias=False) for _ in range(2))
            self.w2 = nn.Linear(hidden, width, bias=False)
            self.norm1, self.norm2 = LlamaLike.Norm(width), LlamaLike.Norm(width)

        @staticmethod
        def rotate(x, cos, sin):
            a, b = x.chunk(2, dim=-1)
            return x * cos + torch.cat((-b, a), dim=-1) * sin

        def forward(self, x, cos, sin):
            b, t, _ = x.shape
            y = self.norm1(x)
            q = self.wq(y).view(b, t, self.heads, self.size).transpose(1, 2)
            k, v = (w(y).view(b, t, self.few, self.size).transpose(1, 2) for w in (self.wk, self.wv))
            q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
            k, v = (part.repeat_interleave(self.heads // self.few, dim=1) for part in (k, v))
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.wo(out.transpose(1, 2).contiguous().view(b, t, -1))
            y = self.norm2(x)
            return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))

    def __init__(self, vocabulary=8_000, width=256, heads=8, few=4, hidden=688, layers=3, length=128):
        super().__init__()
        self.tok, self.norm, self.out = nn.Embedding(vocabulary, width), self.Norm(width), nn.Linear(width, vocabulary, bias=False)
        self.layers = nn.ModuleList(self.Layer(width, heads, few, hidden) for _ in range(layers))
        size = width // heads
        angles = torch.outer(torch.arange(length), 1.0 / 10000 ** (torch.arange(0, size, 2) / size))
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer('cos', angles.cos(), persistent=False)
        self.register_buffer('sin', angles.sin(), persistent=False)

    def forward(self, idx):
        x = self.tok(idx)
        cos, sin = self.cos[: idx.size(1)], self.sin[: idx.size(1)]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.out(self.norm(x))


class Switch(nn.Module):
    """A dense mixture of experts: all run, a softmax weighs them."""

    def __init__(self, width=128, experts=4, classes=10):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)) for _ in range(experts))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        weights = functional.softmax(self.gate(x), dim=-1)
        outs = torch.stack([expert(x) for expert in self.experts], dim=-2)
        return self.head((weights.unsqueeze(-1) * outs).sum(dim=-2).mean(dim=1))


class PerceiverLike(nn.Module):
    """Latents that look at a long input through `nn.MultiheadAttention`."""

    def __init__(self, features=64, width=128, latents=32, classes=10):
        super().__init__()
        self.latents, self.given = nn.Parameter(torch.zeros(latents, width)), nn.Linear(features, width)
        self.cross = nn.MultiheadAttention(width, 4, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(width, 4, 256, batch_first=True, norm_first=True, activation='gelu')
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.given(x)
        latents = self.latents.unsqueeze(0).expand(x.size(0), -1, -1)
        latents = latents + self.cross(latents, x, x)[0]
        return self.head(self.encoder(latents).mean(dim=1))


class TwoTower(nn.Module):
    """Pictures and words into one space."""

    def __init__(self, words=5_000, width=128):
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, width)
        )
        self.words, self.text = nn.EmbeddingBag(words, width, mode='mean'), nn.Linear(width, width)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, image, text):
        image = functional.normalize(self.image(image), dim=-1)
        text = functional.normalize(self.text(self.words(text)), dim=-1)
        return image @ text.t() * self.scale.exp()


add('mini_gpt', MiniGpt, tokens(128, 128))
add('nano_gpt', lambda: MiniGpt(fused=True), tokens(128, 128))
add('scratch_vit', ScratchVit, images(3, 64))
add('cycle_generator', CycleGenerator, images(3, 64))
add('spectral_critic', SpectralCritic, images(3, 32))
add('segnet', SegNet, images(3, 96, 96, 96))
add('res_unet', ResUNet, images(3, 96, 96, 96))
add('dncnn', DnCnn, images(1, 64))
add('edsr', Edsr, images(3, 48))
add('se_resnet', SeResNet, images(3, 32))
add('dense_bc', DenseBc, images(3, 32))
add('conv_mixer', conv_mixer, images(3, 64))
add('ecg_net', EcgNet, numbers(12, 1000))
add('eeg_net', EegNet, numbers(1, 32, 256))
add('transformer_lm', TransformerLm, tokens(64, 64))
add(
    'translator',
    Translator,
    pairs(lambda n: {key: torch.zeros(n, 48, dtype=torch.long) for key in ('src', 'tgt')}),
)
add('seq2seq', Seq2Seq, pairs(lambda n: {key: torch.zeros(n, 40, dtype=torch.long) for key in ('src', 'tgt')}))
add('lstm_autoencoder', LstmAutoencoder, numbers(50, 16))
add('stacked_lstm', StackedLstm, numbers(96, 8))
add('cross_net', CrossNet, tokens(16))
add('gcn', Gcn, pairs(lambda n: {'x': torch.zeros(n, 100, 128), 'adjacency': torch.zeros(n, 100, 100)}))
add('gat', Gat, pairs(lambda n: {'x': torch.zeros(n, 60, 64), 'adjacency': torch.zeros(n, 60, 60)}))
add('dqn', Dqn, images(4, 84))
add('conv_vae', ConvVae, images(3, 64))
add('vq_vae', VqVae, images(3, 64))
add('conv_lstm', ConvLstm, numbers(6, 1, 48, 48))
add('conformer', Conformer, numbers(100, 80))
add(
    'diffusion_unet',
    DiffusionUNet,
    pairs(lambda n: {'x': torch.zeros(n, 3, 32, 32), 't': torch.zeros(n, dtype=torch.long)}),
)
add('n_beats', NBeats, numbers(96))
add('llama_like', LlamaLike, tokens(128, 128))
add('switch', Switch, numbers(64, 128))
add('perceiver', PerceiverLike, numbers(256, 64))
add(
    'two_tower',
    TwoTower,
    pairs(lambda n: {'image': torch.zeros(n, 3, 64, 64), 'text': torch.zeros(n, 12, dtype=torch.long)}),
)

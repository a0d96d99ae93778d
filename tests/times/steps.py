"""The kernels of one step of BERT-large, GPT-2-large and GPT-3-XL, as transformers 4.3x runs them in PyTorch, fp32.

A kernel is its kind and its shape, as the functions of `model.py` take them. No optimizer, no fused attention.
"""

import dataclasses

#: A mask of dropout is a byte beside four of a float.
MASK = 0.25


@dataclasses.dataclass(frozen=True)
class Transformer:
    """A network's sizes."""

    hidden: int
    layers: int
    heads: int
    vocabulary: int
    gpt: bool


MODELS = {
    'bert_large': Transformer(1024, 24, 16, 30522, gpt=False),
    'gpt2_large': Transformer(1280, 36, 20, 50257, gpt=True),
    'gpt3_xl': Transformer(3072, 24, 24, 50257, gpt=True),
}


class Step:
    """Collects the kernels of a step, forward, and backward where `train`."""

    def __init__(self, model: Transformer, batch: int, length: int, train: bool) -> None:
        self.model, self.batch, self.length, self.train = model, batch, length, train
        self.tokens = batch * length
        self.forward, self.backward = [], []
        if model.gpt:
            self.gpt()
        else:
            self.bert()

    def each(self, elements: int, tensors: float, backward: float = 0) -> None:
        """An elementwise kernel that moves so many tensors, and what its backward moves, if it has one."""
        self.forward.append(('elementwise', elements, tensors))
        if backward and self.train:
            self.backward.append(('elementwise', elements, backward))

    def add_gradient(self, elements: int) -> None:
        """The gradient of something that is used twice is a sum."""
        if self.train:
            self.backward.append(('elementwise', elements, 3))

    def linear(self, inputs: int, outputs: int, bias: bool = True) -> None:
        """Forward the bias is part of the kernel; its gradient is a sum over the tokens."""
        self.forward.append(('gemm', 1, self.tokens, inputs, outputs, False))
        if self.train:
            self.backward.append(('gemm', 1, self.tokens, outputs, inputs, False))
            self.backward.append(('gemm', 1, inputs, self.tokens, outputs, False))
            if bias:
                self.backward.append(('elementwise', self.tokens * outputs, 1))

    def bmm(self, rows: int, inner: int, columns: int) -> None:
        """A product for each head of each sample."""
        count = self.batch * self.model.heads
        self.forward.append(('gemm', count, rows, inner, columns, True))
        if self.train:
            self.backward.append(('gemm', count, rows, columns, inner, True))
            self.backward.append(('gemm', count, inner, rows, columns, True))

    def norm(self) -> None:
        """Backward the gradients of scale and shift read both inputs once more."""
        hidden = self.model.hidden
        self.forward.append(('norm', self.tokens, hidden, 1))
        if self.train:
            self.backward.append(('norm', self.tokens, hidden, 2))
            self.backward.append(('elementwise', self.tokens * hidden, 2))

    def softmax(self, rows: int, width: int) -> None:
        """Softmax, or its logarithm."""
        self.forward.append(('softmax', rows, width, 1))
        if self.train:
            self.backward.append(('softmax', rows, width, 2))

    def dropout(self, elements: int) -> None:
        """Without training there is none."""
        if self.train:
            self.each(elements, 2 + MASK, 2 + MASK)

    def embedding(self, rows: int) -> None:
        """Backward, the whole table's gradient is written, then the rows are added to it."""
        hidden = self.model.hidden
        self.each(self.tokens * hidden, 2, 3)
        if self.train:
            self.backward.append(('elementwise', rows * hidden, 1))

    def attention(self) -> None:
        """From query, key and value to the context."""
        states = self.tokens * self.model.hidden
        scores = self.batch * self.model.heads * self.length**2
        size = self.model.hidden // self.model.heads
        for _ in range(3):  # query, key and value are copied, heads before tokens
            self.each(states, 2, 2)
        self.bmm(self.length, size, self.length)
        self.each(scores, 2, 2)  # divided by the root of the size
        self.each(scores, 2, 2 if self.model.gpt else 0)  # GPT: where(causal, …); BERT: + mask
        self.softmax(scores // self.length, self.length)
        self.dropout(scores)
        self.bmm(self.length, self.length, size)
        self.each(states, 2, 2)  # tokens before heads again

    def residual(self) -> None:
        """Dropout and the sum with the layer's input."""
        states = self.tokens * self.model.hidden
        self.dropout(states)
        self.each(states, 3)
        self.add_gradient(states)

    def bert(self) -> None:
        """Training: BertForPreTraining. Else a classifier, whose head is too small to see."""
        hidden, vocabulary = self.model.hidden, self.model.vocabulary
        states = self.tokens * hidden
        for rows in (vocabulary, 2, self.length):
            self.embedding(rows)
        self.each(states, 3)
        self.each(states, 3)
        self.norm()
        self.dropout(states)
        for _ in range(self.model.layers):
            for _ in range(3):
                self.linear(hidden, hidden)
            self.add_gradient(states)
            self.add_gradient(states)
            self.attention()
            self.linear(hidden, hidden)
            self.residual()
            self.norm()
            self.linear(hidden, 4 * hidden)
            self.each(4 * states, 2, 3)  # gelu
            self.linear(4 * hidden, hidden)
            self.residual()
            self.norm()
        if self.train:
            self.linear(hidden, hidden)
            self.each(states, 2, 3)  # gelu
            self.norm()
            self.linear(hidden, vocabulary)
            self.loss()

    def gpt(self) -> None:
        """GPT2LMHeadModel."""
        hidden, vocabulary = self.model.hidden, self.model.vocabulary
        states = self.tokens * hidden
        for rows in (vocabulary, self.length):
            self.embedding(rows)
        self.each(states, 3)
        self.dropout(states)
        for _ in range(self.model.layers):
            self.norm()
            self.linear(hidden, 3 * hidden)
            if self.train:
                self.backward.append(('elementwise', 3 * states, 2))  # gradients of the parts are joined
            self.attention()
            self.linear(hidden, hidden)
            self.residual()
            self.norm()
            self.linear(hidden, 4 * hidden)
            self.gelu_new(4 * states)
            self.linear(4 * hidden, hidden)
            self.residual()
        self.norm()
        self.linear(hidden, vocabulary, bias=False)
        if self.train:
            self.loss()

    def gelu_new(self, elements: int) -> None:
        """0.5 * x * (1 + tanh(√(2/π) * (x + 0.044715 * x³))), an operator at a time."""
        self.each(elements, 2, 2)  # 0.5 * x
        self.each(elements, 2, 7)  # x³; backward: x², times three, times the gradient
        self.each(elements, 2, 2)  # * 0.044715
        self.each(elements, 3)  # x + …
        self.each(elements, 2, 2)  # * √(2/π)
        self.each(elements, 2, 3)  # tanh
        self.each(elements, 2)  # 1 + …
        self.each(elements, 3, 6)  # product: two gradients
        self.add_gradient(elements)  # x is used three times
        self.add_gradient(elements)

    def loss(self) -> None:
        """Backward of the cross-entropy, and of the table that head and embedding share; forward is not timed."""
        hidden, vocabulary = self.model.hidden, self.model.vocabulary
        self.backward.append(('softmax', self.tokens, vocabulary, 2))
        self.backward.append(('elementwise', self.tokens * vocabulary, 1))  # zeros, then one number in each row
        self.add_gradient(vocabulary * hidden)

"""What PyTorch allocates when it trains: recorded from PyTorch itself, on a device that is not there.

| module | concern |
|---|---|
| `place` | where things lie, and what the devices are |
| `settings` | what one run is: the command line, and Highwater's words for it |
| `zoo` | models with random weights, and a batch for each |
| `blocks` | activation checkpointing, block by block |
| `loop` | the training loop that is measured |
| `trainer` | the same run by transformers' own Trainer |
| `kernels` | losses without logits, and Liger's layers |
| `preferences` | training on pairs of texts |
| `events` | the allocator's history as allocations and frees with their reasons |
| `record` | runs the loop on the fake device, and asks cuDNN for workspaces |
| `cudnn` | the real cuDNN's answers, without a device |
| `export` | the models as ONNX files |
| `samples` | every module and operator that PyTorch ships, with arguments |
| `catalogue` | each of them by itself: its events, and its exports |
| `replay` | sequences of allocations through PyTorch's allocator |
| `allocator` | the allocator under every setting, call by call |
| `fixtures` | recorded answers as the files of `tests/fixtures` |
| `fit_workspaces` | decision trees for the choices of cuDNN |
| `networks` | convolutions of published networks |
| `kinds` | layers of all kinds, and what cuDNN says of them |
"""

"""One stage of a pipeline: a model of transformers that is cut at its blocks, under PyTorch's own schedules.

Stages are cut as torchtitan cuts its own models: embeddings count as a block, and so do the last norm and the head.
Each stage states the shapes of what it is given and returns, since a process group of the backend `fake` cannot send them.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from truth import loop
from truth.ranks import RankLoop, blocks, mesh_of


class Nothing:
    """What positions add where the first stage has added them."""

    def to(self, *_: Any) -> 'Nothing':
        return self

    def __radd__(self, other: Tensor) -> Tensor:
        return other


class Nowhere(nn.Module):
    """In place of a table of positions, which only the first stage has."""

    def forward(self, *_: Any, **__: Any) -> Nothing:
        return Nothing()


def shares(blocks: int, stages: int) -> list[range]:
    """Blocks of each stage (`generate_llm_fqn_per_model_part` of torchtitan, with weights of 1)."""
    each, more = divmod(blocks + 2, stages)
    counts = [each + (stage < more) for stage in range(stages)]
    counts[0] -= 1
    counts[-1] -= 1
    ends = [sum(counts[: stage + 1]) for stage in range(stages)]
    return [range(end - count, end) for count, end in zip(counts, ends)]


def cut(model: nn.Module, stage: int, stages: int) -> None:
    """Leaves in a model what is a stage's."""
    own = blocks(model)
    lists = {name: module for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    path = next(name for name, module in lists.items() if module[0] is own[0])
    around, name = model.get_submodule(path.rpartition('.')[0]), path.rpartition('.')[2]
    kept = shares(len(own), stages)[stage]
    setattr(around, name, nn.ModuleList(own[index] for index in kept))
    is_first, is_last = stage == 0, stage == stages - 1
    for name, module in list(around.named_children()):
        if isinstance(module, nn.ModuleList):
            continue
        if isinstance(module, nn.Embedding) and not is_first:
            # Words are looked up nowhere else, and positions are added in any case.
            setattr(around, name, Nowhere())
        elif isinstance(module, nn.Dropout) and not is_first:
            setattr(around, name, nn.Identity())
        elif not isinstance(module, (nn.Embedding, nn.Dropout)) and list(module.parameters()) and not is_last:
            setattr(around, name, nn.Identity())
    if not is_last:
        model.lm_head = None


class Stage(nn.Module):
    """What a stage makes of what it is given: token numbers in the first, hidden states in all others."""

    def __init__(self, model: nn.Module, is_first: bool, is_last: bool, autocast: Any) -> None:
        super().__init__()
        self.model, self.autocast = model, autocast
        self.given = 'input_ids' if is_first else 'inputs_embeds'
        self.is_last = is_last

    def forward(self, x: Tensor) -> Tensor:
        with self.autocast():
            if self.is_last:
                return self.model(**{self.given: x}).logits
            return self.model.base_model(**{self.given: x}).last_hidden_state


class Held:
    """A send or receive, which has its tensor for as long as it is there, as `WorkNCCL::outputs_` does."""

    def __init__(self, work: Any, tensor: Tensor) -> None:
        self.work, self.tensor = work, tensor

    def wait(self) -> bool:
        return self.work.wait()


@contextlib.contextmanager
def holding() -> Iterator[None]:
    """Works of sends alone, or of receives alone, hold their tensors."""
    from torch.distributed.pipelining import schedules

    batch = schedules._batch_p2p

    def batch_held(ops: list[Any], desc: str | None = None) -> list[Any]:
        works = batch(ops, desc)
        alike = len({op.op for op in ops}) == 1
        return [Held(work, op.tensor) for work, op in zip(works, ops)] if alike else works

    schedules._batch_p2p = batch_held
    try:
        yield
    finally:
        schedules._batch_p2p = batch


class PipelineLoop(RankLoop):
    """The loop of a rank that runs a stage."""

    def __init__(self, chosen: Any) -> None:
        self.stages = mesh_of(chosen.mesh, chosen.gpus)['pp']
        self.micro_batches = chosen.micro_batches or self.stages
        super().__init__(chosen)
        self.schedule = self.scheduled()

    def place(self, model: nn.Module) -> None:
        """What is another stage's never comes to the device."""
        cut(model, self.chosen.rank, self.stages)
        model.cuda()

    def scheduled(self) -> Any:
        """PyTorch's schedule of this stage."""
        from torch.distributed import pipelining

        chosen = self.chosen
        is_first, is_last = chosen.rank == 0, chosen.rank == self.stages - 1
        config = self.model.config
        own, micro = getattr(torch, chosen.dtype), chosen.batch // self.micro_batches
        # Sums with what autocast made have the wider type.
        hidden = torch.empty(
            micro, self.batch.shape[1], config.hidden_size, dtype=own, device='meta', requires_grad=True
        )
        words = self.batch[:micro].to('meta')
        narrow = getattr(torch, chosen.amp) if chosen.amp else own
        sizes = (micro, self.batch.shape[1], config.vocab_size)
        logits = torch.empty(sizes, dtype=narrow, device='meta', requires_grad=True)
        stage = pipelining.PipelineStage(
            Stage(self.model, is_first, is_last, self.autocast),
            chosen.rank,
            self.stages,
            torch.device('cuda', 0),
            input_args=(words if is_first else hidden,),
            output_args=(logits if is_last else hidden,),
        )
        self.follow(stage)
        kind = pipelining.ScheduleGPipe if chosen.schedule == 'gpipe' else pipelining.Schedule1F1B
        return kind(stage, self.micro_batches, loss_fn=self.loss_of)

    def follow(self, stage: Any) -> None:
        """Marks where a forward and a backward begin."""
        forward, backward = stage.forward_one_chunk, stage.backward_one_chunk

        def forward_one_chunk(*given: Any, **named: Any) -> Any:
            self.mark(self.iteration, 'forward')
            return forward(*given, **named)

        def backward_one_chunk(*given: Any, **named: Any) -> Any:
            self.mark(self.iteration, 'backward')
            return backward(*given, **named)

        stage.forward_one_chunk, stage.backward_one_chunk = forward_one_chunk, backward_one_chunk

    def loss_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Of the last stage, for a micro-batch."""
        with self.autocast():
            if self.chosen.loss:
                return loop.criterion(self.chosen.loss, logits, labels)
            return self.model.loss_function(logits=logits, labels=labels, vocab_size=self.model.config.vocab_size)

    def iterate(self, iteration: int) -> None:
        """One step of the schedule, and the optimizer's."""
        chosen, self.iteration = self.chosen, iteration
        with self.phase(iteration, 'zero_grad'):
            if chosen.zero_grad == 'start':
                self.zero_grad()
        with self.phase(iteration, 'forward'), holding():
            if chosen.rank == 0:
                self.schedule.step(self.batch)
            elif chosen.rank == self.stages - 1:
                self.loss = []
                self.schedule.step(target=self.target, losses=self.loss, return_outputs=False)
            else:
                self.schedule.step()
        with self.phase(iteration, 'optimizer'):
            self.step()
            if chosen.zero_grad == 'end':
                self.zero_grad()
            if chosen.style == 'function':
                self.loss = None
        if self.tagger:
            self.owners[iteration] = self.find_owners()

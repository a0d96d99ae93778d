"""One rank of several: PyTorch's own data parallelism around the loop, on a process group of the backend `fake`.

The process group pretends that there are as many ranks as are asked for, and communicates nothing. So the allocator of
this process has what that of one rank would have, but for NCCL's own buffers, which are not PyTorch's.
"""

import contextlib
import functools
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from truth import settings, tensor
from truth.loop import Loop

#: Ways of sharing a model's state between ranks that read different batches.
MODES = ('ddp', 'zero-1', 'fsdp', 'fsdp1')
TYPES = {'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}


def mesh_of(text: str, gpus: int) -> dict[str, int]:
    """Ranks along each axis; what is not stated is data parallel."""
    sizes = {name: int(size) for name, size in (pair.split('=') for pair in text.split(',') if pair)}
    others = functools.reduce(lambda all, size: all * size, sizes.values(), 1)
    if 'dp' not in sizes and gpus % others == 0:
        sizes['dp'] = gpus // others
    return sizes


class RankLoop(Loop):
    """The loop in one of several processes."""

    def __init__(self, chosen: Any) -> None:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group('fake', rank=chosen.rank, world_size=chosen.gpus, store=FakeStore())
        torch.cuda.set_device(0)
        #: Of a layer, by tensor parallelism.
        self.parts = mesh_of(chosen.mesh, chosen.gpus).get('tp', 1)
        super().__init__(chosen)
        if chosen.data_parallel == 'zero-1':
            self.optimizer = self.sharded_optimizer()

    def prepare_model(self) -> nn.Module:
        """The model on its device, and around it what shares it."""
        with tensor.unplaced() if self.parts > 1 else contextlib.nullcontext():
            model = super().prepare_model()
        if self.parts > 1:
            self.readers = tensor.place(model, mesh_of(self.chosen.mesh, self.chosen.gpus))
            self.place(model)
        match self.chosen.data_parallel:
            case 'ddp' | 'zero-1':
                return self.distributed(model)
            case 'fsdp':
                return self.fully_sharded(model)
            case 'fsdp1':
                return self.flattened(model)
        return model

    def place(self, model: nn.Module) -> None:
        """FSDP moves units by itself; what it gets waits on the host, quantised already."""
        if self.chosen.data_parallel in ('fsdp', 'fsdp1'):
            for module in model.modules():
                if self.chosen.quantize and hasattr(module, 'quant_state'):
                    module.weight.to('cpu')
        elif not any(tensor.is_meta for tensor in model.parameters()):
            model.cuda()

    def distributed(self, model: nn.Module) -> nn.Module:
        """`DistributedDataParallel`; shapes of other ranks are not asked for, and buckets are handed back."""
        import torch.nn.parallel.distributed as ddp

        chosen = self.chosen
        ddp._verify_param_shape_across_processes = lambda *_, **__: True
        given = dict(bucket_cap_mb=chosen.bucket_cap) if chosen.bucket_cap else {}
        model = ddp.DistributedDataParallel(
            model,
            device_ids=[0],
            gradient_as_bucket_view=chosen.gradient_as_bucket_view,
            static_graph=chosen.static_graph,
            find_unused_parameters=chosen.find_unused_parameters,
            **given,
        )

        def hand_back(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        model.register_comm_hook(None, hand_back)
        return model

    def fully_sharded(self, model: nn.Module) -> nn.Module:
        """`fully_shard` of each block, then of the model."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

        chosen = self.chosen
        sizes = mesh_of(chosen.mesh, chosen.gpus)
        given: dict[str, Any] = {}
        if self.parts > 1:
            given['mesh'] = self.readers
        elif 'replicate' in sizes:
            shape = (sizes['replicate'], sizes['dp'])
            given['mesh'] = init_device_mesh('cuda', shape, mesh_dim_names=('replicate', 'shard'))
        else:
            given['mesh'] = init_device_mesh('cuda', (sizes['dp'],))
        if chosen.reshard:
            given['reshard_after_forward'] = chosen.reshard == 'on'
        if chosen.param_type or chosen.reduce_type:
            given['mp_policy'] = MixedPrecisionPolicy(
                param_dtype=TYPES.get(chosen.param_type), reduce_dtype=TYPES.get(chosen.reduce_type)
            )
        if chosen.cpu_offload:
            given['offload_policy'] = CPUOffloadPolicy(pin_memory=False)
        for block in blocks(model):
            fully_shard(block, **given)
        fully_shard(model, **given)
        return model

    def flattened(self, model: nn.Module) -> nn.Module:
        """`FullyShardedDataParallel`, the first version: each block is a unit with one flat parameter."""
        from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy

        chosen = self.chosen
        units = set(map(id, blocks(model)))

        def is_unit(module: nn.Module) -> bool:
            """Layers of adapters are units of their own, as by peft's `fsdp_auto_wrap_policy`."""
            weight = getattr(module, 'weight', None)
            is_adapter = chosen.lora and weight is not None and weight.requires_grad
            return id(module) in units or bool(is_adapter and not list(module.children()))

        given: dict[str, Any] = {}
        if chosen.reshard == 'off':
            given['sharding_strategy'] = ShardingStrategy.SHARD_GRAD_OP
        if chosen.param_type or chosen.reduce_type:
            given['mixed_precision'] = MixedPrecision(
                param_dtype=TYPES.get(chosen.param_type),
                reduce_dtype=TYPES.get(chosen.reduce_type),
                buffer_dtype=TYPES.get(chosen.param_type),
            )
        if chosen.cpu_offload:
            given['cpu_offload'] = CPUOffload(offload_params=True)
        return FullyShardedDataParallel(
            model,
            auto_wrap_policy=lambda module, recurse, nonwrapped_numel: recurse or is_unit(module),
            device_id=0,
            use_orig_params=chosen.use_orig_params,
            **given,
        )

    def sharded_optimizer(self) -> torch.optim.Optimizer:
        """`ZeroRedundancyOptimizer` of the optimizer that was chosen."""
        from torch.distributed.optim import ZeroRedundancyOptimizer

        name, arguments = settings.optimizer(self.chosen.opt)
        parameters = (parameter for parameter in self.model.parameters() if parameter.requires_grad)
        kind = getattr(torch.optim, name)
        return ZeroRedundancyOptimizer(parameters, optimizer_class=kind, lr=1e-3, **arguments)

    def grouped(self, parameters: list[Tensor]) -> list[Any]:
        """Divided and whole parameters cannot be in one list of kernels: groups as those of the `Trainer`."""
        return tensor.grouped(parameters) if self.parts > 1 else super().grouped(parameters)

    def clip(self, parameters: Iterable[Tensor], norm: float) -> None:
        """By groups, too."""
        return tensor.clip(parameters, norm) if self.parts > 1 else super().clip(parameters, norm)

    def accumulating(self, is_last: bool) -> Any:
        """Without `--no-sync` each backward communicates."""
        if not self.chosen.no_sync or is_last:
            if self.chosen.data_parallel == 'fsdp' and self.chosen.no_sync:
                self.model.set_requires_gradient_sync(True)
            return super().accumulating(is_last)
        if self.chosen.data_parallel == 'fsdp':
            self.model.set_requires_gradient_sync(False)
            return super().accumulating(is_last)
        return self.model.no_sync()


def blocks(model: nn.Module) -> list[nn.Module]:
    """The modules that repeat: those that the library's class states, else those of the longest list."""
    names = getattr(model, '_no_split_modules', None) or []
    found = [module for module in model.modules() if type(module).__name__ in names]
    if found:
        return found
    lists = [module for module in model.modules() if isinstance(module, (nn.ModuleList, nn.Sequential))]
    return list(max(lists, key=len))


def local(tensor: Any) -> Any:
    """This rank's part of a sharded tensor."""
    return tensor.to_local() if isinstance(tensor, Tensor) and hasattr(tensor, 'to_local') else tensor

"""Tensor parallelism of transformers: a model whose layers are divided by the plan of its class.

`from_pretrained` makes a model without memory, divides it, and reads each rank's parts. Here the parts are not read, but
made empty.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


@contextlib.contextmanager
def unplaced() -> Iterator[None]:
    """A model that is made here has no memory, and each of its tied weights is there by itself."""
    from transformers import initialization

    with initialization.no_tie_weights(), torch.device('meta'):
        yield


def place(model: nn.Module, sizes: dict[str, int]) -> Any:
    """Divides a model, and puts this rank's part on the device; the mesh of those that read different batches."""
    from torch.distributed.device_mesh import init_device_mesh
    from transformers.distributed.configuration_utils import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    parts = sizes['tp']
    plan, _, _ = model._resolve_parallel_plans(DistributedConfig(tp_size=parts))
    others = dist.get_world_size() // parts
    mesh = init_device_mesh('cuda', (others, parts), mesh_dim_names=('dp', 'tp'))
    apply_tensor_parallelism(model, mesh['tp'], plan)
    model.tie_weights(recompute_mapping=False)
    made: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in made:
                made[id(parameter)] = nn.Parameter(filled(parameter), parameter.requires_grad)
            module._parameters[name] = made.get(id(parameter))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty_like(buffer, device='cuda')
    return mesh['dp']


def filled(parameter: Any) -> torch.Tensor:
    """The same with memory on the device."""
    from torch.distributed.tensor import DTensor

    if not isinstance(parameter, DTensor):
        return torch.empty_like(parameter, device='cuda')
    return DTensor.from_local(
        torch.empty_like(parameter._local_tensor, device='cuda'),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def by_mesh(parameters: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Those that are divided, and those that are not, the kind of the first before the other."""
    groups: dict[Any, list[torch.Tensor]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, 'device_mesh', None), []).append(parameter)
    return list(groups.values())


def grouped(parameters: Iterable[torch.Tensor]) -> list[dict[str, Any]]:
    """The optimizer's groups."""
    return [dict(params=group) for group in by_mesh(parameters)]


def clip(parameters: Iterable[torch.Tensor], largest: float) -> None:
    """One norm of all gradients, in the order of the `Trainer`: a norm for each group, and then that of these."""
    groups = by_mesh(parameter for parameter in parameters if parameter.grad is not None)
    norms = []
    for group in groups:
        norm = nn.utils.get_total_norm([parameter.grad for parameter in group])
        norms.append(norm.full_tensor() if hasattr(norm, 'full_tensor') else norm)
    total = torch.linalg.vector_norm(torch.stack(norms))
    for group in groups:
        nn.utils.clip_grads_with_norm_(group, largest, total)

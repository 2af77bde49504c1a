"""vLLM's own batched copy, as its connectors call it: ``torch.ops._C_cache_ops.swap_blocks_batch``.

One of the two places that import vLLM. The operator is called as its schema says: its arguments differ by platform and
version.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from ecbench.core.descriptors import PreparedCopy
from ecbench.core.errors import CopyRefusedError, UnavailableError
from ecbench.engine.devices.accelerator import native_handle, require_accelerator
from ecbench.engine.devices.accelerator_kinds import XPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecbench.core.descriptors import DescriptorBatch
    from ecbench.core.protocols import Device, Stream

MODULES = ("vllm._C", "vllm._C_stable_libtorch", "vllm_xpu_kernels._C")
"""Extension modules that register the operator on import: vLLM's by age of its build, then the XPU kernels'."""
OPERATOR = "torch.ops._C_cache_ops.swap_blocks_batch"
SAFE_VALUES: dict[str, bool] = {
    "is_src_access_order_any": False,  # the looser order is unsafe (vLLM #39306)
    "use_batch_api": True,
}
"""Arguments beyond the three arrays, and what to pass."""
_ARRAYS = 3


def find_operator(load: Callable[[str], Any] = import_module) -> Any:
    """Finds the operator, loading the extension that registers it.

    Args:
        load: Imports a module.

    Returns:
        The operator's default overload; None where nothing installed has one.
    """
    for module in ("", *MODULES):
        if module:
            # An extension built for another torch or another driver fails in its own ways; the next may load.
            with suppress(ImportError, OSError, RuntimeError):
                load(module)
        operator = getattr(torch.ops._C_cache_ops, "swap_blocks_batch", None)  # noqa: SLF001 - the library's name
        if operator is not None:
            return operator.default
    return None


def why_unavailable() -> str | None:
    """Why the engine cannot run here; None where it can."""
    operator = find_operator()
    if operator is None:
        return "neither vLLM nor vllm-xpu-kernels with swap_blocks_batch is installed: install the one for this device"
    try:
        extra_arguments(operator)
    except UnavailableError as error:
        return str(error)
    return None


def extra_arguments(operator: Any) -> dict[str, bool]:
    """What to pass beyond the three arrays, by the operator's schema.

    Raises:
        UnavailableError: The schema is none that is known to be called rightly.
    """
    arguments = operator._schema.arguments  # noqa: SLF001 - torch's one way to read a schema
    arrays, extras = arguments[:_ARRAYS], arguments[_ARRAYS:]
    is_known = len(arrays) == _ARRAYS and all(str(argument.type) == "Tensor" for argument in arrays)
    unknown = [extra.name for extra in extras if extra.name not in SAFE_VALUES and not extra.has_default_value()]
    if not is_known or unknown:
        raise UnavailableError(f"{OPERATOR} has an unknown form ({operator._schema}): use another engine")  # noqa: SLF001
    return {extra.name: SAFE_VALUES[extra.name] for extra in extras if extra.name in SAFE_VALUES}


class VllmOpEngine:
    """vLLM's operator on the transfer's stream.

    Args:
        device: The GPU; decides the arrays' dtype.
        operator: The overload to call; by default looked up.

    Raises:
        UnavailableError: There is no operator, or one of an unknown form.
    """

    name = "vllm-op"

    def __init__(self, device: Device, operator: Any = None) -> None:
        self._device = require_accelerator(device, self.name)
        self._operator = operator if operator is not None else find_operator()
        if self._operator is None:
            raise UnavailableError(f"engine vllm-op: {OPERATOR} is not registered: install vLLM for this device")
        self._extras = extra_arguments(self._operator)

    def prepare(self, batch: DescriptorBatch) -> PreparedCopy:
        """Cuts the batch where the platform caps a call.

        Raises:
            CopyRefusedError: Arrays of another dtype than the platform's.
        """
        if batch.sources.dtype is not self._device.kind.pointer_dtype:
            raise CopyRefusedError(
                f"engine vllm-op: on {self._device.kind.name} the operator takes {self._device.kind.pointer_dtype} "
                f"arrays, not {batch.sources.dtype}: take arrays from the device's pool"
            )
        most = self._device.kind.max_descriptors or max(1, len(batch))
        columns = (batch.sources, batch.destinations, batch.sizes)
        parts = [slice(start, start + most) for start in range(0, len(batch), most)]
        calls = [tuple(column[part] for column in columns) for part in parts]

        def run(stream: Stream) -> None:
            self._refuse_legacy(stream)
            with stream:
                for call in calls:
                    self._operator(*call, **self._extras)

        return PreparedCopy(self.name, threads=0, run=run)

    def _refuse_legacy(self, stream: Stream) -> None:
        if self._device.kind is not XPU and native_handle(stream) == 0:
            raise CopyRefusedError(
                "engine vllm-op: on the legacy default stream the operator falls back to one copy per descriptor "
                "without saying so: use a stream of its own"
            )

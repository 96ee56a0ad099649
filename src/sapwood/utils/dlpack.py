"""DLPack, the exchange of tensors between libraries without a copy."""

from ..ops.create import from_dlpack as from_dlpack
from ..ops.create import to_dlpack as to_dlpack

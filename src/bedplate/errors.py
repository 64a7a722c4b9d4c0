"""Every error that Bedplate raises on purpose.

Two roots: `UserError` is a mistake that the caller can mend (a shape, a dtype, a
device, a file, memory); `InternalError` is ours, and its message says so.
"""

import numpy as np


class BedplateError(Exception):
    """The root of all errors that Bedplate raises on purpose."""


class UserError(BedplateError):
    """A mistake that the caller can mend; the message says how."""


class ShapeError(UserError, ValueError):
    """Shapes that do not fit an operation."""


class AxisError(ShapeError, IndexError):
    """An axis that a tensor does not have."""


class DTypeError(UserError, TypeError):
    """Data types that do not fit an operation."""


class DeviceError(UserError, RuntimeError):
    """A device that is unknown, absent or failed."""


class OutOfMemoryError(UserError, MemoryError):
    """Memory is exhausted; the message lists the largest holders."""


class LeakError(UserError, AssertionError):
    """Memory that was made in a block of code and is still held; `report` has the leaks."""

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class MemoryUseError(UserError, ValueError):
    """A buffer that is used or freed after it was freed, or that another manager made."""


class GradientError(UserError, RuntimeError):
    """A gradient that cannot be had: a freed graph, an op without one, a wrong root."""


class NonFiniteError(UserError, FloatingPointError):
    """An operation made a NaN or an infinity, and `detect_nan` was asked to say which."""


class CheckpointError(UserError, ValueError):
    """A file of weights or settings that is damaged, incomplete or contradicts itself."""


class SettingError(UserError, ValueError):
    """Settings that make no sense, alone or together."""


class DataError(UserError, ValueError):
    """Text or tokens that cannot be used."""


class KernelError(UserError, TypeError):
    """A kernel that cannot be staged, compiled or run; names the user's line."""


class KernelBoundsError(KernelError, IndexError):
    """A kernel read or wrote outside its memory; raised by the interpreter and in check mode."""


class LinAlgError(UserError, np.linalg.LinAlgError):
    """A matrix that an algorithm cannot treat: singular, not positive definite, not finite."""


class CaptureError(UserError, RuntimeError):
    """Something that a captured step may not do, such as reading a value."""


class InternalError(BedplateError):
    """A fault of Bedplate itself. Please report it with the message."""

    def __str__(self) -> str:
        return f"{super().__str__()} (this is a fault of Bedplate: please report it)"

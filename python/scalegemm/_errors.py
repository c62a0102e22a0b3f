"""Exceptions: one class for each failing status of the C ABI."""


class Error(Exception):
    """A call failed. The text says which argument was wrong, what was needed and what was given."""

    #: The status of the C ABI (scalegemm_status).
    status: int = 0


class InvalidArgument(Error, ValueError):
    """The call is wrong: a dtype, shape, stride, device or word that does not fit."""

    status = 1


class Unsupported(Error, NotImplementedError):
    """Well formed, but no kernel of this device does it."""

    status = 2


class NotBuilt(Error):
    """A kernel or back end exists, but was not compiled in and cannot be now."""

    status = 3


class NoDevice(Error):
    """The device is not there."""

    status = 4


class CompileFailed(Error):
    """The compiler refused a kernel."""

    status = 5


class LaunchFailed(Error):
    """The device refused or lost a kernel."""

    status = 6


class OutOfMemory(Error, MemoryError):
    """The host or the device is out of memory."""

    status = 7


class IoError(Error, OSError):
    """A file could not be read or written."""

    status = 8


class CorruptData(Error):
    """A file is not what it says."""

    status = 9


class InternalError(Error):
    """A fault of scalegemm."""

    status = 10


# By status, for _core.
CLASSES = {cls.status: cls for cls in Error.__subclasses__()}

"""Testing: what checks a back end, and a device for tests that makes hidden mistakes show."""

from bedplate.testing.loopback import LoopbackBackend, LoopbackDriver

__all__ = ["LoopbackBackend", "LoopbackDriver"]

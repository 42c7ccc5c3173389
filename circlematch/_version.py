"""The version, where both the build and the package can read it."""

__version__ = "0.1.0"

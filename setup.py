"""The one thing pyproject.toml cannot say: the C engine is compiled with cffi."""

from setuptools import setup

setup(cffi_modules=["engine/python/build.py:ffi"])

"""What pyproject.toml cannot say: cffi compiles the C engine, and one wheel serves every Python from 3.11 on."""

from setuptools import setup

setup(
    cffi_modules=["engine/python/build.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

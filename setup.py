"""Find the packages below each top-level folder, under its installed name."""

import tomllib
from pathlib import Path

from setuptools import find_packages, setup

SETTINGS = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))

setup(
    packages=[
        package
        for name, folder in SETTINGS["tool"]["setuptools"]["package-dir"].items()
        for package in (name, *(f"{name}.{found}" for found in find_packages(folder)))
    ]
)

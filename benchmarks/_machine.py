"""What every figure has to be read with: the machine and the versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")


def describe(*packages: str) -> str:
    """One line: processor, system, Python, and the versions of packages."""
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} x {_processor()}, {platform.system()}; {python}; {versions}"


def _processor() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

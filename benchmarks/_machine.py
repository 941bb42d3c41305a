"""What every figure has to be read with: the machine and the versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import sys
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
STATM = Path("/proc/self/statm")


def describe(*packages: str) -> str:
    """One line: processor, system, Python, and the versions of packages."""
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} x {_processor()}, {platform.system()}; {python}; {versions}"


def peak_memory() -> int:
    """The most octets this process has ever had in memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """The octets this process has in memory now; where the system does not say, the most it ever had."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    return peak_memory()


def _processor() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

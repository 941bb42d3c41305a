"""What every figure has to be read with: the machine and the versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import sys
from pathlib import Path

from benchmarks._report import Machine

CPU_INFO = Path("/proc/cpuinfo")
STATM = Path("/proc/self/statm")
STATUS = Path("/proc/self/status")


def describe(*packages: str) -> str:
    """One line: processor, system, Python, and the versions of packages."""
    return described(machine_with(*packages))


def described(machine: Machine) -> str:
    """As `describe`, of a machine that may be another."""
    versions = ", ".join(f"{package} {version}" for package, version in machine.packages.items())
    return f"{machine.cores} x {machine.processor}, {machine.system}; {machine.python}; {versions}"


def machine_with(*packages: str) -> Machine:
    """This machine, and those of the packages that are installed."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        system=platform.system(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages={package: version for package in packages if (version := _version(package))},
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def peak_memory() -> int:
    """The most bytes this process has ever had in memory."""
    # What the system counts for `getrusage` begins with the memory of the process that started this one.
    own = re.search(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE) if STATUS.exists() else None
    if own:
        return int(own[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """The bytes this process has in memory now; where the system does not say, the most it ever had."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    return peak_memory()


def _processor() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

"""Pages of a library that a process does not use any more leave its memory, and come back when they are used."""

import subprocess
import sys

from sparkmirror.batch.mapped_files import unchanged

_SMAPS = """\
7f0000000000-7f0000100000 r--p 00000000 fe:00 12 /lib/libllvmlite.so
Rss: 1024 kB
Anonymous: 0 kB
Swap: 0 kB
VmFlags: rd mr
7f0000100000-7f0000300000 r-xp 00100000 fe:00 12 /lib/libllvmlite.so
Rss: 1024 kB
Anonymous: 0 kB
Swap: 0 kB
VmFlags: rd mr
7f0000300000-7f0000400000 r--p 00300000 fe:00 12 /lib/libllvmlite.so
Rss: 1024 kB
Anonymous: 512 kB
Swap: 0 kB
VmFlags: rd mr
7f0000400000-7f0000500000 r--p 00400000 fe:00 12 /lib/libllvmlite.so
Rss: 1024 kB
Anonymous: 0 kB
Swap: 512 kB
VmFlags: rd mr
7f0000500000-7f0000600000 rw-p 00500000 fe:00 12 /lib/libllvmlite.so
Rss: 1024 kB
Anonymous: 0 kB
Swap: 0 kB
VmFlags: rd mr
7f0000600000-7f0000700000 r-xp 00000000 fe:00 13 /lib/libpython3.so
Rss: 1024 kB
Anonymous: 0 kB
Swap: 0 kB
VmFlags: rd mr
7f0000700000-7f0000800000 r-xp 00000000 00:00 0
Rss: 1024 kB
Anonymous: 0 kB
Swap: 0 kB
VmFlags: rd mr
"""

_LINKS = """
import re
from pathlib import Path
import numpy as np
from sparkmirror.batch.loading import kernels_ready
from sparkmirror.batch.records import encode_batch

def resident():
    found, of_llvm = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-", line):
            of_llvm = "libllvmlite" in line
        elif line.startswith("Rss:") and of_llvm:
            found += int(line.split()[1])
    return found

from sparkmirror.batch import kernels
before = resident()
while not kernels_ready():
    pass
after = resident()
batch = np.frombuffer(encode_batch([(b"k", b"v")] * 3), np.uint8)
assert kernels.count_batches(batch, 0, len(batch)) == (1, len(batch))
from sparkmirror.batch import json_members  # links more
print(before, after)
"""


def test_only_what_was_not_written_is_given_back() -> None:
    found = list(unchanged(_SMAPS.splitlines(), "libllvmlite"))
    assert found == [(0x7F00_0000_0000, 0x7F00_0010_0000), (0x7F00_0010_0000, 0x7F00_0030_0000)]


def test_the_linker_leaves_memory_when_kernels_are_loaded_and_can_be_used_again() -> None:
    run = subprocess.run([sys.executable, "-c", _LINKS], capture_output=True, text=True, check=True, timeout=400)
    before, after = map(int, run.stdout.split())
    assert after < before / 4, "in KB: when some kernels are linked, and when all are"

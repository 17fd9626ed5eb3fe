"""Kernels are written for the processor that Numba compiles for, whichever this one is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOWN = """
import torch
from bidibeam.hf import lanes, machine, tiles
from bidibeam.models.huggingface.inplace import InPlace
print(machine.LANES, machine.REGISTERS, machine.are_fast())
rows, weight = torch.ones(3, 8), torch.ones(33, 8)
assert (InPlace([(weight, None)]).times(rows, torch.empty(3, 33)) == 8).all()
made = tiles.Tiles.of(weight)
assert (made.times(rows, made.bias(None), torch.empty(3, 33)) == 8).all()
"""


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({"NUMBA_CPU_NAME": "generic"}, "8 16 False"),
        ({"NUMBA_ENABLE_AVX": "0"}, "8 16 False"),
        ({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx,+avx2,-fma"}, "8 16 False"),
    ],
)
def test_registers_are_those_that_numba_is_told_of(told: dict[str, str], shown: str, tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **told}

    done = subprocess.run(
        [sys.executable, "-c", SHOWN], env=environment, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == shown


def test_code_for_wider_registers_is_right_on_every_processor(tmp_path: Path) -> None:
    """Where registers are narrower, LLVM takes two of them."""
    forced = """
import bidibeam.models.huggingface.machine as machine
from llvmlite import ir
machine.LANES, machine.REGISTERS, machine.VECTOR = 16, 32, ir.VectorType(machine.FLOAT, 16)
import torch
from bidibeam.models.huggingface.inplace import WIDE, InPlace
from bidibeam.models.huggingface.tiles import Tiles
torch.manual_seed(0)
for count, depth, width in ((1, 4, 9), (17, 36, 40), (37, 20, WIDE + 21), (50, 33, 70)):
    rows, weight, more = torch.randn(count, depth), torch.randn(width, depth), torch.randn(count, width)
    bias, out = torch.randn(width), torch.empty(count, width)
    expected = rows @ weight.t() + bias + more
    InPlace([(weight, bias)]).times(rows, out, more)
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    tiles = Tiles.of(weight)
    tiles.times(rows, tiles.bias(bias), out.fill_(0), more)
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    subprocess.run([sys.executable, "-c", forced], env=environment, check=True)

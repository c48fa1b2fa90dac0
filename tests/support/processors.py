"""Marks of tests that need a processor with certain instructions."""

import pytest

from elmo_cli.inference.int8 import has_int8

needs_int8 = pytest.mark.skipif(
    not has_int8(), reason="needs a processor with AVX-512 VNNI"
)

"""What a folder of `elmo distribute` is compared with."""

from commands import TINY, elmo
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import open_activations


def assert_equal_to_embed(*options: str, source: str = "text.txt") -> None:
    """Assert that `out` holds what `elmo embed` gives for a text."""
    result = elmo("embed", source, "plain.hdf5", "--model", TINY, "--overwrite", *options)
    assert result.exit_code == 0, result.output
    tolerance = 1e-3 if "float16" in options else 2e-6
    with open_activations("out") as found, open_activations("plain.hdf5") as plain:
        assert len(found) == len(plain)
        for number, values in enumerate(found):
            expected = plain[found.key(number) or number]
            assert (values.dtype, values.shape) == (expected.dtype, expected.shape)
            assert_allclose(values, expected, atol=tolerance)
            assert_array_equal(values, found[number])

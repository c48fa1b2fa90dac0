"""The checksum of a file's pages: which damage it is sure to find."""

import itertools
import random
import struct

import numpy as np
import pytest

from elmo_cli.files.resumable.pages import (
    PAGE_BYTES,
    checksum_of_pages,
    sums_of_words,
)

N_BITS = 8 * PAGE_BYTES
RANDOM = random.Random(0)
RANDOM_PAGES = [RANDOM.randbytes(PAGE_BYTES) for _ in range(40)]


def flipped(content: bytes, *bits: int) -> bytes:
    """Return bytes with other values of some bits."""
    changed = bytearray(content)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def checksum(content: bytes) -> int:
    return checksum_of_pages(content, range(len(content) // PAGE_BYTES))


@pytest.mark.parametrize("page", [RANDOM_PAGES[0], bytes(PAGE_BYTES)])
def test_all_pairs_of_bits_of_a_page_change_its_sum(page: bytes) -> None:
    before = sums_of_words(page)
    every_flip = b"".join(flipped(page, bit) for bit in range(N_BITS))
    changes = sums_of_words(every_flip) - before

    # What two flips change is the sum of what each of them changes.
    pairs = [RANDOM.sample(range(N_BITS), 2) for _ in range(1000)]
    of_pairs = sums_of_words(b"".join(flipped(page, *pair) for pair in pairs)) - before
    expected = [changes[list(pair)].sum() for pair in pairs]
    assert np.array_equal(of_pairs, expected)

    # So two flips are missed if they change the sum by a number and its negative.
    assert changes.all()
    assert not np.isin(changes, -changes).any()


def test_one_flip_in_each_of_two_pages_is_found() -> None:
    content = b"".join(RANDOM_PAGES)
    before = checksum(content)
    last_bits = [63 + N_BITS * page for page in range(len(RANDOM_PAGES))]
    pairs = list(itertools.combinations(last_bits, 2))
    pairs += [
        (RANDOM.randrange(N_BITS), N_BITS + RANDOM.randrange(N_BITS))
        for _ in range(1000)
    ]
    assert all(checksum(flipped(content, *pair)) != before for pair in pairs)


def test_pages_that_changed_places_are_found() -> None:
    before = checksum(b"".join(RANDOM_PAGES))
    for one, other in itertools.combinations(range(len(RANDOM_PAGES)), 2):
        pages = list(RANDOM_PAGES)
        pages[one] = RANDOM_PAGES[other]
        pages[other] = RANDOM_PAGES[one]
        assert checksum(b"".join(pages)) != before
    for n_moved in range(1, len(RANDOM_PAGES)):
        rotated = RANDOM_PAGES[n_moved:] + RANDOM_PAGES[:n_moved]
        assert checksum(b"".join(rotated)) != before


def test_a_page_of_zeros_counts_as_zero() -> None:
    content = RANDOM_PAGES[0] + b"abc"
    assert checksum_of_pages(content, range(2)) == checksum_of_pages(
        content.ljust(3 * PAGE_BYTES, b"\0"), range(3)
    )


def test_the_checksum_is_computed_as_described() -> None:
    def mixed(value: int) -> int:
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    expected = 0
    for index, page in enumerate(RANDOM_PAGES[:3]):
        words = struct.unpack("<1024I", page)
        total = sum(word * (mixed(n) | 1) for n, word in enumerate(words, start=1))
        expected += mixed(total * (2 * index + 1) % 2**64)
    assert checksum(b"".join(RANDOM_PAGES[:3])) == expected % 2**64

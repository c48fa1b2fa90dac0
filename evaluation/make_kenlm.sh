#!/usr/bin/env bash
# Build kenlm's lmplz and query, for kneser_ney.py.
#
# Usage: make_kenlm.sh DIR        the programs are DIR/lmplz and DIR/query
#
# The source is that of the package kenlm on PyPI. Needs cmake, a C++ compiler and
# Boost's headers and libraries (Debian: libboost-dev libboost-program-options-dev
# libboost-system-dev libboost-thread-dev libboost-test-dev zlib1g-dev).
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 DIR" >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)

"${PYTHON:-python3}" -m pip download --quiet --no-deps --no-binary kenlm --dest "$dir" kenlm==0.3.0
tar -xzf "$dir/kenlm-0.3.0.tar.gz" -C "$dir"
cmake -S "$dir/kenlm-0.3.0" -B "$dir/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF
cmake --build "$dir/build" --target lmplz query
cp "$dir/build/bin/lmplz" "$dir/build/bin/query" "$dir"

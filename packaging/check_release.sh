#!/usr/bin/env bash
# Build the files of a release, the native wheel twice, and check them in fresh environments.
# Usage: packaging/check_release.sh FOLDER, with packaging/requirements.txt installed.
# FOLDER/dist gets the sdist, the wheel with kernels for this Linux machine, and the pure wheel.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$(command -v python3)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$checkout" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# Build an sdist, and from it a wheel: build KERNELS OUTPUT
build() {
    ELMO_KERNELS=$1 "$python" -m build --no-isolation --outdir "$2" "$checkout"
}

cd "$folder"
build none dist
for name in first second; do
    build require "$name"
    "$python" -m auditwheel repair --wheel-dir "$name" "$name"/*-linux_*.whl
    cmp "$name"/*.tar.gz dist/*.tar.gz
done
cmp first/*-manylinux*.whl second/*-manylinux*.whl
echo "Both builds have the same bytes."
cp first/*-manylinux*.whl dist

"$python" -m twine check --strict dist/*
"$python" "$checkout/packaging/check_files.py" dist

"$python" -m venv fresh
fresh/bin/pip install --quiet -c "$checkout/constraints.txt" dist/*-manylinux*.whl
# Without any other folder in PATH there is no compiler.
PATH="$folder/fresh/bin" fresh/bin/python "$checkout/packaging/check_wheel.py"
fresh/bin/pip install --quiet --no-deps --force-reinstall dist/*-any.whl
PATH="$folder/fresh/bin" fresh/bin/python "$checkout/packaging/check_wheel.py" --without-kernels

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
# Build the native wheel in a folder: build_native NAME
build_native() {
    build require "$1"
    "$python" -m auditwheel repair --wheel-dir "$1" "$1"/*-linux_*.whl
    cmp "$1"/*.tar.gz dist/*.tar.gz
}

# Install the pure wheel, with what it requires.
install_pure() {
    "$python" -m venv fresh
    fresh/bin/pip install --quiet -c "$checkout/constraints.txt" dist/*-any.whl
}

build none dist
install_pure &
jobs=($!)
for name in first second; do
    build_native "$name" > "$name.log" 2>&1 &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    wait "$job" || { cat ./*.log; exit 1; }
done
cmp first/*-manylinux*.whl second/*-manylinux*.whl
echo "Both builds have the same bytes."
cp first/*-manylinux*.whl dist

"$python" -m twine check --strict dist/*
"$python" "$checkout/packaging/check_files.py" dist

# Without any other folder in PATH there is no compiler.
PATH="$folder/fresh/bin" fresh/bin/python "$checkout/packaging/check_wheel.py" --without-kernels
fresh/bin/pip install --quiet --force-reinstall --no-deps dist/*-manylinux*.whl
fresh/bin/pip check
PATH="$folder/fresh/bin" fresh/bin/python "$checkout/packaging/check_wheel.py"

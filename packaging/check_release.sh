#!/usr/bin/env bash
# Build the files of a release twice, compare them, and check the wheels in fresh environments.
# Usage: packaging/check_release.sh FOLDER, with packaging/requirements.txt installed.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$(command -v python3)

"$python" "$checkout/packaging/build_release.py" "$folder/first"
"$python" "$checkout/packaging/build_release.py" "$folder/second" --wheel native
for file in "$folder"/second/*; do
    cmp "$file" "$folder/first/$(basename "$file")"
done
echo "Both builds have the same bytes."

"$python" "$checkout/packaging/check_files.py" "$folder/first"

cd "$folder"
"$python" -m venv fresh
wheel=$(ls first/*-manylinux*.whl)
fresh/bin/pip install --quiet -c "$checkout/constraints.txt" "$wheel"
# Without any other folder in PATH there is no compiler.
PATH="$folder/fresh/bin" fresh/bin/python "$checkout/packaging/check_wheel.py"
fresh/bin/pip install --quiet --no-deps --force-reinstall first/*-any.whl
PATH="$folder/fresh/bin" fresh/bin/python "$checkout/packaging/check_wheel.py" --without-kernels

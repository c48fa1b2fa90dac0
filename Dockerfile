# Image with the command `elmo` for the CPU, built from the wheel in dist/:
#
#     pip install cibuildwheel && cibuildwheel --output-dir dist
#     docker build -t elmo-cli .
#     docker run --rm --user "$(id -u)" -v "$PWD:/data" elmo-cli embed text.txt vectors.hdf5
#
# For a GPU, build it with CUDA's torch, and run it with `--gpus all`:
#
#     docker build -t elmo-cli:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .

FROM python:3.12-slim

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

COPY constraints.txt /tmp/elmo/
COPY dist/*-manylinux*_x86_64.whl /tmp/elmo/
RUN pip install --no-cache-dir --root-user-action ignore -c /tmp/elmo/constraints.txt \
        --index-url "$TORCH_INDEX" torch \
    && pip install --no-cache-dir --root-user-action ignore -c /tmp/elmo/constraints.txt \
        /tmp/elmo/*.whl \
    && rm -r /tmp/elmo

# Downloaded models are kept beside the data, where the next container finds them.
ENV ELMO_CACHE=/data/.elmo-models
WORKDIR /data
USER 1000
ENTRYPOINT ["elmo"]
CMD ["--help"]

#!/usr/bin/env bash
# Create an environment in which AllenNLP 0.9.0's ElmoEmbedder runs under a
# current torch, for comparisons (see allennlp_elmo.py, which runs inside it).
#
# Usage: make_allennlp_env.sh ENV_DIR
#
# Needs Python 3.11 and a package index; PYTHON names another interpreter.
# pip's complaints about unmet requirements of allennlp and
# pytorch-transformers are expected: what they miss, ELMo does not use.
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 ENV_DIR" >&2
    exit 2
fi
env_dir=$1

"${PYTHON:-python3.11}" -m venv "$env_dir"
install=("$env_dir/bin/python" -m pip install --quiet)

# On Linux, PyPI's torch brings CUDA along; a CPU build of the same version
# serves as well.
"${install[@]}" torch==2.13.0

# What AllenNLP's modules import on the way to the ElmoEmbedder.
"${install[@]}" \
    boto3==1.44.5 \
    conllu==1.3.1 \
    editdistance==0.8.1 \
    flaky==3.8.1 \
    ftfy==6.3.1 \
    h5py==3.16.0 \
    jsonpickle==4.1.4 \
    matplotlib==3.11.2 \
    nltk==3.10.4 \
    numpy==2.4.6 \
    overrides==3.1.0 \
    parsimonious==0.11.0 \
    pytest==9.2.0 \
    pytz==2026.6 \
    requests==2.34.2 \
    responses==0.26.3 \
    scikit-learn==1.9.1 \
    scipy==1.17.1 \
    spacy==3.8.18 \
    sqlparse==0.6.1 \
    tensorboardX==2.6.5 \
    tqdm==4.70.1 \
    Unidecode==1.4.0 \
    word2number==1.1

# These pin versions of torch, spacy and others that no longer install.
"${install[@]}" --no-deps \
    allennlp==0.9.0 \
    pytorch-pretrained-bert==0.6.2 \
    pytorch-transformers==1.1.0

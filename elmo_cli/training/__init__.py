"""Text to a model: `elmo train`.

train.py               all of `elmo train`: start reading here
training_options.py    options of a run
start.py               start of a run: architecture, vocabulary, weights
corpus.py              files -> windows of sentences -> batches, resumable anywhere
loss.py                a batch -> losses; the optimizer
training_run.py        a run, in one process or several: batches -> weights, step after step
checkpoint.py          what must stay equal when a run resumes, and its checkpoint
run_report.py          log, evaluation, and the model with its record and card
"""

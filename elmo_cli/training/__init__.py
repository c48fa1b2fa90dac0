"""Text to a model: `elmo train`.

train.py            all of `elmo train`: start reading here
options.py          options of a run
start.py            start of a run: architecture, vocabulary, weights
corpus.py           files -> windows of sentences -> batches, resumable anywhere
loss.py             a batch -> losses, by the softmax or a sample of it
run.py              a run: batches -> weights, step after step
optimizers.py       the optimizer and its learning rate
processes.py        one process or several
checkpoint.py       checkpoints, and the folder of a run
report.py           log, evaluation, and the model that is written
"""

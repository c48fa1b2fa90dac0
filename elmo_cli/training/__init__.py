"""Text to a model: `elmo train`.

train.py            the whole: start reading here; the steps, checkpoints and models of a run
options.py          the settings of a run
start.py            what it starts from: architecture, vocabulary, weights
corpus.py           files -> windows of sentences -> batches, from any place
loss.py             a batch -> losses, by the softmax or a sample of it
run.py              gradients -> weights, a step at a time, in one process or several; checkpoints
report.py           what a run says of itself, and of its model
"""

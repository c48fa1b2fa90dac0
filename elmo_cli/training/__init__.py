"""Text to a model: `elmo train`.

train.py            the whole: start reading here
trainer.py          a run in its folder: logs, checkpoints, and models on the way
options.py          the settings of a run
start.py            what it starts from: architecture, vocabulary, weights
text.py             files -> windows of sentences, from any place
batches.py          windows -> batches: sentences of like length, or blocks
objective.py        a batch -> losses, by the softmax (softmax.py) or a sample of it
                    (sampled_softmax.py)
optimizers.py       gradients -> weights
run.py              all of it, a step at a time (processes.py: in several processes)
checkpoint.py       a run -> a file from which it goes on
heldout.py          weights -> perplexity
log.py, card.py     what a run says of itself, and of its model
"""

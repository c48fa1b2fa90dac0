"""Speed for one sentence at a time, as in an interactive program."""

from process import figures_of, median
from setting import Row, Setting

TARGET = 1 / 3
N_TOKENS = 17


def sentence_rows(setting: Setting) -> list[Row]:
    """Compare `embed_sentence` with AllenNLP's, on sentences of 17 tokens."""
    tokens = " ".join(setting.lines).split()
    starts = range(0, min(len(tokens), 5 * N_TOKENS), N_TOKENS)
    text = setting.write("short.txt", [" ".join(tokens[i : i + N_TOKENS]) for i in starts])
    repeat = ["--repeat", str(setting.repeats)]
    ours = [figures_of(setting.ours("measure_sentences.py", setting.model, text, *repeat))]
    measured, met = f"{1000 * median(ours, 'sentence_seconds'):.0f} ms", None
    peers = []
    if setting.peer:
        peers = [figures_of(setting.theirs("sentence", text, *repeat))]
        measured += f", AllenNLP {1000 * median(peers, 'sentence_seconds'):.0f} ms"
        ratio = median(ours, "sentence_seconds") / median(peers, "sentence_seconds")
        met = ratio <= TARGET
    figures = {"ours": ours, "peer": peers}
    return [Row("a sentence of 17 tokens by itself", "a third of AllenNLP", measured, met, figures)]

"""`Elmo` and AllenNLP's inside a model: frozen, with and without training, and fine-tuned."""

from setting import HERE, Row, Setting
from speed import measure_with_allennlp, speed_row

FROZEN_TARGET, TUNED_TARGET = 8.0, 4.0
KINDS = {
    "`Elmo`, frozen, in training": ([], FROZEN_TARGET),
    "`Elmo`, frozen, in evaluation": (["--evaluate"], FROZEN_TARGET),
    "`Elmo`, frozen, with boundaries": (["--boundaries"], FROZEN_TARGET),
    "`HubElmo`, frozen, in training": (["--hub"], FROZEN_TARGET),
    "`Elmo`, fine-tuned": (["--requires-grad"], TUNED_TARGET),
}


def module_rows(setting: Setting) -> list[Row]:
    """Run batches of 32 sentences through both classes, in turns."""
    text = setting.write("batches.txt", setting.lines)
    rows = []
    for what, (options, target) in KINDS.items():
        ours = setting.ours("measure_module.py", setting.model, *options, text)
        peers = [option for option in ours[2:] if option != "--hub"]  # AllenNLP has only `Elmo`.
        theirs = [str(setting.peer), str(HERE / "measure_module.py"), *peers, "--peer"]
        rows.append(speed_row(what, target, *measure_with_allennlp(setting, ours, theirs)))
    return rows

"""Memory that must not grow with the corpus."""

from collections.abc import Iterator

from process import figures_of
from setting import Row, Setting

TARGET = 1.1


def growth_rows(setting: Setting) -> list[Row]:
    """Compare the peak memory for a long input with a hundredth of it, with a tiny model."""
    return [_growth_row(setting, layout) for layout in ("packed", "allennlp")]


def _growth_row(setting: Setting, layout: str) -> Row:
    peaks = {}
    for n_lines in (setting.many_lines // 100, setting.many_lines):
        text, output = setting.folder / "many.txt", setting.folder / "many.hdf5"
        with open(text, "w", encoding="utf-8") as file:
            file.writelines(_short_lines(n_lines))
        command = setting.ours(
            "measure_embed.py", setting.tiny_model, f"--layout={layout}", text, output
        )
        peaks[n_lines] = figures_of(command)["peak_memory_mb"]
        output.unlink()
    short, long = peaks.values()
    return Row(
        f"peak memory of {setting.many_lines:,} short lines over a hundredth of them, {layout}",
        f"at most {TARGET} times",
        f"{long:,.0f} MB, {short:,.0f} MB: {long / short:.2f} times",
        long <= TARGET * short,
        {"peak_memory_mb": {str(n): peak for n, peak in peaks.items()}},
    )


def _short_lines(n_lines: int) -> Iterator[str]:
    """Yield lines of 3 tokens, all different."""
    for n in range(n_lines):
        yield f"line {n % 1000} {n // 1000}\n"

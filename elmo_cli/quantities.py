"""Numbers as people read them: with their unit, one or many."""


def counted(number: int, unit: str) -> str:
    """A number of things: `1 line`, `2,000 lines`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def size_text(n_bytes: float) -> str:
    """A number of bytes in powers of 1000: `1.5 GB`."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            break
        n_bytes /= 1000
    return f"{n_bytes:,.0f} {unit}" if n_bytes >= 10 or unit == "bytes" else f"{n_bytes:.1f} {unit}"

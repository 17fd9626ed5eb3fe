"""`bidibeam` and `python -m bidibeam`: signals wait until the command line is imported and answers them."""

import signal


def main() -> None:
    """Run the command line."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    from bidibeam.cli import main as command_line

    command_line.main()


if __name__ == "__main__":
    main()

"""Entry point of ``ecbench`` and ``python -m ecbench``."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the application; Ctrl-C ends it with 130 also while its modules are being imported."""
    try:
        from ecbench.cli.app import app  # noqa: PLC0415 - inside, so that Ctrl-C during the import is caught

        app()
    except KeyboardInterrupt:
        print("ecbench: interrupted", file=sys.stderr)  # noqa: T201 - typer may not be imported yet
        sys.exit(130)


if __name__ == "__main__":
    main()

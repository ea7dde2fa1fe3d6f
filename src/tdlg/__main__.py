"""`python -m tdlg` is the command `tdlg`."""

from tdlg.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()

"""`python -m tdlg.cli`, the same as `tdlg`."""

from tdlg.cli import main

if __name__ == "__main__":
    main()

"""The paper's tables and figures as named recipes: `reproduce` measures them and writes them beside the paper's numbers.

`python -m tdlg.reproduce` does the same from a terminal.
"""

from tdlg.reproduce.recipes import RECIPES, Recipe, Run
from tdlg.reproduce.run import reproduce

__all__ = ["RECIPES", "Recipe", "Run", "reproduce"]

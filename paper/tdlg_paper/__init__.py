"""The paper's tables and figures as named recipes: `reproduce` measures them and writes them beside the paper's numbers.

`python -m tdlg_paper` does the same from a terminal.
"""

from tdlg_paper.recipes import RECIPES, Recipe, Run
from tdlg_paper.run import reproduce

__all__ = ["RECIPES", "Recipe", "Run", "reproduce"]

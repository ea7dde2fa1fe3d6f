"""The paper's tables and figures as named recipes: `reproduce` measures them and writes them beside the paper's numbers.

`python -m paper` does the same from a terminal.
"""

from paper.recipes import RECIPES, Recipe, Run
from paper.run import reproduce

__all__ = ["RECIPES", "Recipe", "Run", "reproduce"]

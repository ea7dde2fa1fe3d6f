"""Machine learning on temporal networks: the time-decayed line graph as something you multiply by.

Names load when first used, so that `import tdlg` stays light; `__init__.pyi` lists them. Errors are in `tdlg.exceptions`,
data sets in `tdlg.datasets`, other formats in `tdlg.io`; `tdlg.explain`, `tdlg.embed`, `tdlg.sampling` and `tdlg.judge`
have more.
"""

from lazy_loader import attach_stub

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)

"""The gallery: a hook of mkdocs that runs the scripts in gallery/ and shows each with its picture."""

import io
import runpy
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "gallery"
HEAD = """# Gallery

Five pictures, each with the code that draws it, on synthetic data. `make docs` draws them again. Scripts on
public data are in the folder `examples/` of the repository.
"""


def on_files(files: Any, *, config: Any) -> Any:
    """Add the page and its pictures to the files of the site."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt
    from mkdocs.structure.files import File

    parts = [HEAD]
    for script in sorted(SCRIPTS.glob("*.py")):
        plt.close("all")
        title, _, text = (runpy.run_path(str(script))["__doc__"] or "").strip().partition("\n")
        picture = io.BytesIO()
        plt.gcf().savefig(picture, format="png", dpi=110, bbox_inches="tight")
        files.append(File.generated(config, f"images/{script.stem}.png", content=picture.getvalue()))
        code = script.read_text(encoding="utf-8").split('"""', 2)[2].strip()
        image = f"![{title.rstrip('.')}](images/{script.stem}.png)"
        parts.append(f"## {title.rstrip('.')}\n\n{text.strip()}\n\n{image}\n\n```python\n{code}\n```\n")
    files.append(File.generated(config, "gallery.md", content="\n".join(parts)))
    return files

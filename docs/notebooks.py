"""A hook of mkdocs: the notebooks of examples/ as pages and as .ipynb, run where their data is; and the docs as llms.txt.

With TDLG_NOTEBOOKS=plain they are not run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
LLMS_HEAD = """# tdlg

> {description}

A Python library and command for machine learning on temporal networks: classify, find outliers in, rank and embed timed
interactions (payments, ratings, messages). All pages in one file: [llms-full.txt](llms-full.txt).
"""


def on_files(files: Any, *, config: Any) -> Any:
    """Add the notebooks to the files of the site."""
    from mkdocs.structure.files import File

    parts = ["# Notebooks\n\nEach opens with `marimo edit`, in Jupyter as .ipynb, or here with what it shows.\n"]
    for script in sorted(NOTEBOOKS.glob("*.py")):
        notebook, has_run = _exported(script)
        title, page = _as_page(notebook, has_run, script.stem)
        files.append(File.generated(config, f"notebooks/{script.stem}.ipynb", content=json.dumps(notebook, indent=1)))
        files.append(File.generated(config, f"notebooks/{script.stem}.md", content=page))
        parts.append(f"- [{title}](notebooks/{script.stem}.md)")
    files.append(File.generated(config, "notebooks.md", content="\n".join(parts) + "\n"))
    return files


def _exported(script: Path) -> tuple[dict[str, Any], bool]:
    """A notebook in the format of Jupyter, with its outputs if it can be run here."""
    for options in (["--include-outputs"], []):
        if options and os.environ.get("TDLG_NOTEBOOKS") == "plain":
            continue
        with TemporaryDirectory() as folder:
            target = Path(folder) / "notebook.ipynb"
            command = [
                sys.executable,
                "-m",
                "marimo",
                "-q",
                "export",
                "ipynb",
                str(script),
                "-o",
                str(target),
                *options,
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                return json.loads(target.read_text(encoding="utf-8")), bool(options)
    raise RuntimeError(f"{script.name} cannot be exported: {done.stderr}")


def _as_page(notebook: dict[str, Any], has_run: bool, name: str) -> tuple[str, str]:
    """The title of a notebook, and the notebook as a page."""
    parts = [] if has_run else ["*Shown without outputs: it was not run where these pages were made.*"]
    for cell in notebook["cells"]:
        text = "".join(cell["source"]).strip()
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += [_shown(output["data"]) for output in cell.get("outputs", ()) if output.get("data")]
    title = re.search(r"# ([^\n\\]+)", "\n".join("".join(cell["source"]) for cell in notebook["cells"]))
    heading = title[1] if title else name
    text = "\n\n".join(part for part in parts if part != f"# {heading}")
    return heading, f"# {heading}\n\n[As .ipynb]({name}.ipynb)\n\n{text}\n"


def _shown(data: dict[str, Any]) -> str:
    """What a cell shows, in Markdown."""
    if "image/png" in data:
        return f"![](data:image/png;base64,{''.join(data['image/png']).strip()})"
    kind = next((kind for kind in ("text/markdown", "text/html") if kind in data), "text/plain")
    text = "".join(data.get(kind, ""))
    if kind == "text/html":
        return "<div>" + re.sub(r"\n\s*", " ", text) + "</div>"
    return re.sub(r"^# .*\n+", "", text) if kind == "text/markdown" else f"```text\n{text}\n```"


def on_post_build(*, config: Any) -> None:
    """Write the docs for language models: a list of the pages with their first sentences, and all pages in one file."""
    docs, lines, whole = Path(config["docs_dir"]), [LLMS_HEAD.format(description=config["site_description"])], []
    for section in config["nav"]:
        ((heading, pages),) = section.items()
        lines.append(f"\n## {heading}\n")
        for page in [section] if isinstance(pages, str) else pages:
            ((title, name),) = page.items()
            if (docs / name).exists():
                text = (docs / name).read_text(encoding="utf-8")
                first = re.sub(r"\s+", " ", text.split("\n\n")[1]).strip()
                lines.append(f"- [{title}]({name.removesuffix('.md')}.html): {first}")
                whole.append(text)
    (Path(config["site_dir"]) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (Path(config["site_dir"]) / "llms-full.txt").write_text("\n\n".join(whole), encoding="utf-8")

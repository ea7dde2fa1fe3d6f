"""Classify payments in a process of its own, and print what was measured: `... TABLE OUTPUT MEMORY [FEATURE ...]`."""

import json
import sys
from pathlib import Path

from _bench import Watch, memory, work_folder

from tdlg import PropagationClassifier, classify_file

table, output, limit, *features = sys.argv[1:]
watch = Watch(work_folder(Path(output)))
model = PropagationClassifier(random_state=0)
options = {"label": "fraud", "features": features, "memory": int(limit)}
classify_file(table, output, model=model, callback=watch.say, **options)
print(json.dumps({"steps": watch.end(), "peak_bytes": memory(peak=True), "base_bytes": watch.base_bytes}))

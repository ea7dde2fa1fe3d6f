"""Classify payments in a process of its own, and print what was measured: `... TABLE OUTPUT MEMORY [FEATURE ...]`."""

import json
import sys
from pathlib import Path

from _bench import Watch, memory, work_folder

from tdlg import PropagationClassifier, scan_edges

table, output, limit, *features = sys.argv[1:]
watch = Watch(work_folder(Path(output)))
edges = scan_edges(table, label="fraud", features=features)
PropagationClassifier(random_state=0).fill(edges, output, memory=int(limit), callback=watch.say)
print(json.dumps({"steps": watch.end(), "peak_bytes": memory(peak=True), "base_bytes": watch.base_bytes}))

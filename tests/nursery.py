"""Processes to be killed: forked from one that has loaded everything, which takes most of the time of a start."""

import json
import os
import subprocess
import sys
import textwrap

SERVER = """
import json, os, sys, traceback
exec(sys.argv[1], {})
for line in sys.stdin:
    code, sys.argv = json.loads(line)
    child = os.fork()
    if child == 0:
        try:
            exec(code, {})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """Runs code in processes of their own; `load` is run before the first one, and must start no threads."""

    def __init__(self, load):
        command = [sys.executable, "-c", SERVER, textwrap.dedent(load)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=environment, **pipes)

    def run(self, code, *arguments):
        """The exit code, negative for a signal."""
        self._process.stdin.write(json.dumps([textwrap.dedent(code), ["-c", *map(str, arguments)]]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate()

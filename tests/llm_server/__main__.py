"""`python -m tests.llm_server [--port N] [--url-file FILE]`: serves until Ctrl-C or SIGTERM."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.llm_server.server import NAME, LlmServer, missing

parser = argparse.ArgumentParser(description="Serve SmolLM2-135M-Instruct on this machine's CPU.")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--threads", type=int, default=0, help="cores to use (0: those that are idle)")
parser.add_argument("--url-file", type=Path, help="where to write the address, for operation.endpoints.url_file")
asked = parser.parse_args()
if reason := missing():
    sys.exit(reason)
signal.signal(signal.SIGTERM, signal.default_int_handler)
log = Path(tempfile.gettempdir()) / "rods-llm-server.log"
print(f"starting (about 40 s; log in {log})", file=sys.stderr)
try:
    with LlmServer(log, port=asked.port, threads=asked.threads) as server:
        if asked.url_file:
            asked.url_file.write_text(server.url + "\n")
        print(f'model = "{NAME}"\nurls = ["{server.url}"]', flush=True)
        signal.pause()
except KeyboardInterrupt:
    pass

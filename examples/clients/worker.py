#!/usr/bin/env python3
"""For transcript.sh: acquires the lock `report`, starts to work on a task, and never finishes.

    worker.py SOCKET TASK_ID
"""

import sys
import time

from holdfast_client import Holdfast

holdfast = Holdfast(sys.argv[1])
holdfast.call("lock.lock", key="report", ttlMs=60_000)
claim = holdfast.call("task.claim", ownerId="team", taskId=sys.argv[2], ttlMs=60_000)
holdfast.call("task.setVariables", ownerId="team", taskId=sys.argv[2], variables={"by": "python"}, lockId=claim["lockId"])
holdfast.call("lock.acquire", key="plain", ttlMs=60_000)
print("python: holds the lock and the task; now it hangs", flush=True)
time.sleep(600)

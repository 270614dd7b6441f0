"""A damaged draft in a server that was not started by ``penny serve``, which would refuse it before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

from conftest import free_port
from safetensors.torch import load_file, save_file

from penny_models import tiny
from penny_server.cli.resolving import Asked, launch_of


def test_the_server_ends_where_a_tensor_has_another_name(tmp_path) -> None:
    """Stock goes on with the convolution as it was allocated: without the seam this start comes to its end."""
    draft = tmp_path / "draft"
    shutil.copytree(tiny.path("tiny-27b-dflash2"), draft)
    shard = next(draft.glob("*.safetensors"))
    tensors = load_file(shard)
    tensors["layers.0.attn_conv.base"] = tensors.pop("layers.0.attention_conv.base_kernel")
    save_file(tensors, shard)
    _, launch, _ = launch_of(Asked("tiny-27b-dflash2", "cpu", port=free_port(), draft=draft))
    env = launch.child_env(os.environ) | {"PENNY_RUN_DIR": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            launch.argv(sys.executable), env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        process.wait(400)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    (failed,) = (event for event in events if event["state"] == "fail")
    assert (failed["phase"], failed["detail"]["exit_code"]) == ("weights", 4)
    assert "lacks layers.0.attention_conv.base_kernel and has, under names" in failed["detail"]["message"]
    assert "layers.0.attn_conv.base;" in failed["detail"]["message"]

"""Runs ``penny`` with the fake server in place of SGLang and without the checks of SGLang and checkpoint."""

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import penny_server.profiles.launch
import penny_server.serving.checks
import penny_server.serving.choose
import penny_server.serving.fit
import penny_server.serving.identity
from penny_server.cli import main

sys.path.insert(0, str(Path(__file__).parent))
penny_server.profiles.launch.LAUNCH_MODULE = "fake_launch"
penny_server.serving.checks.check_integration = lambda features: None
penny_server.serving.checks.check_weights = lambda launch: SimpleNamespace(
    architecture="FakeForCausalLM", parameters=3_940_104, bytes=7_880_208, warnings=("the tokenizer is odd.",)
)
penny_server.serving.fit.check_model_fit = lambda launch, weight_bytes, gpus: None
penny_server.serving.choose.choose_checkpoint = lambda profile, model: Path("checkpoint")
if os.environ.get("FAKE_MODE") == "unreadable":

    def unreadable(identity: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "model.safetensors")

    penny_server.serving.identity.Identity.events = unreadable
main()

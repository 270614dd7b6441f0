"""The token map of the profile `tiny-next-frspec`: `python tools/tiny_map.py OUT.pt [--documents FOLDER]`.

Built by `penny-spec map build` from this project's own Python and Markdown as they were at `REVISION`, read with git,
so that the same command gives the same ids whatever the project says by now. `--documents` keeps the documents, one a
line, for who wants the part that was held out.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REVISION = "d20ea1c40d9fdec905176ec675312a302218de30"
SIZE = 2048
DOMAINS = {".py": "code", ".md": "prose"}
EVALUATION = ("packages/penny-bench/src/penny_bench/cases/", "packages/penny-server/tests/serving/prompts.py")
"""What models are asked in evaluations and tests; no map may know it."""
ROOT = Path(__file__).parents[1]
TOKENIZER = ROOT / "packages/penny-models/src/penny_models/tiny/tiny-next"


def documents(revision: str) -> dict[str, list[str]]:
    """The texts of a revision by domain, in the order of their paths. Raises SystemExit where git lacks it."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"git has no revision {revision}; fetch the whole history: git fetch --unshallow")
    found: dict[str, list[str]] = {domain: [] for domain in DOMAINS.values()}
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            domain = DOMAINS.get(Path(member.name).suffix)
            content = tar.extractfile(member)
            if domain and content and not member.name.startswith(EVALUATION):
                text = content.read().decode()
                # Pages are few and long: a section each, so that the part held out is more than a page or two.
                found[domain] += text.split("\n## ") if domain == "prose" else [text]
    return found


def main() -> int:
    """Write documents and map; returns the exit code of `penny-spec map build`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--documents", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.documents or Path(temporary)
        folder.mkdir(exist_ok=True)
        corpus: list[str] = []
        for domain, texts in documents(REVISION).items():
            rows = (json.dumps({"text": text}) + "\n" for text in texts)
            (folder / f"{domain}.jsonl").write_text("".join(rows))
            corpus += ["--corpus", f"{domain}.jsonl:lang=en,domain={domain}"]
        command = [sys.executable, "-c", "from penny_spec.cli import main; main()", "map", "build"]
        command += [str(asked.out.absolute()), "--force", "--size", str(SIZE), "--tokenizer", str(TOKENIZER)]
        command += [*corpus, "--source-revision", REVISION, "--no-evaluation-cases-used"]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

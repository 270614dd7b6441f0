"""Benchmarks of a store on a drive of yours, against that drive itself.

| Module | Has |
|---|---|
| `geometry` | the parts of a page and of a snapshot, by model |
| `raw` | what the drive gives: fio where it is installed, else this package's own engine |
| `bandwidth` | restoring a chain and writing one through, paired with the drive's own figures |
| `millions` | finding, memory and opening with a million bundles |
| `figures`, `command` | results as data and as a table; the command |
"""

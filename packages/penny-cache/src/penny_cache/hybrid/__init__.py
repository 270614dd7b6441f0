"""Rules of hybrid state, as pure functions: where a prefix may end, and in which order its parts come and go.

A hybrid model keeps two kinds of state for a prefix. Attention keys, and the keys of a sparse index, exist for every
page: a prefix needs all of them. Recurrent state, and its siblings (convolution windows, n-gram contexts), is one
snapshot that is right at one boundary only. A prefix may end only where both are complete.
"""

from penny_cache.hybrid.commit import Commit, Committer
from penny_cache.hybrid.order import Step, load_order
from penny_cache.hybrid.rules import Rules, restorable

__all__ = ["Commit", "Committer", "Rules", "Step", "load_order", "restorable"]

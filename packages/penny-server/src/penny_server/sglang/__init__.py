"""The integration with stock SGLang: the only part of Pennyroyal that touches SGLang's insides.

Importing this package imports neither SGLang nor torch.
"""

from penny_server.sglang.registry import check_seams, features, seams_report
from penny_server.sglang.seam import SGLANG_VERSION, Seam, SeamError, SeamStatus

__all__ = ["SGLANG_VERSION", "Seam", "SeamError", "SeamStatus", "check_seams", "features", "seams_report"]

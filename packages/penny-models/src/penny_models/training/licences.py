"""Which installed distributions may be trained on: permissive licences only."""

import re
from email.message import Message

_ALLOWED_IDS = {
    "0bsd",
    "apache-2.0",
    "bsd-2-clause",
    "bsd-3-clause",
    "isc",
    "mit",
    "mit-0",
    "mit-cmu",
    "psf-2.0",
    "python-2.0",
}
_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
_PLAIN_NAMES = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd": "BSD",
    "bsd license": "BSD",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "mit": "MIT",
    "mit license": "MIT",
    "psf-2.0": "PSF-2.0",
}


def permissive_licence(metadata: Message) -> str | None:
    """Return the name of a distribution's permissive licence, or None when it is not clearly permissive.

    Looked at in this order: the SPDX ``License-Expression`` (every part must be allowed), the licence
    classifiers (every one must be allowed), then a short ``License`` field.
    """
    expression = metadata.get("License-Expression")
    if expression:
        parts = re.split(r"\s+(?:AND|OR)\s+|[()]", expression)
        wanted = [part.strip().lower() for part in parts if part.strip()]
        return expression if all(part in _ALLOWED_IDS for part in wanted) else None
    classifiers = [c for c in metadata.get_all("Classifier", []) if c.startswith("License ::")]
    named = [c for c in classifiers if c != "License :: OSI Approved"]
    if named:
        if not all(c in _CLASSIFIERS for c in named):
            return None
        return " OR ".join(sorted({_CLASSIFIERS[c] for c in named}))
    return _PLAIN_NAMES.get((metadata.get("License") or "").strip().lower())

"""The page as one file that needs nothing else, and asks nobody for anything."""

import base64
import hashlib

from gpusharing.ui.pages import static
from gpusharing.ui.picture import Source
from gpusharing.ui.site import UiSite


def still(source: Source, cluster: str) -> bytes:
    style = static("ui.css").decode()
    # A browser that opens the file runs nothing, and takes these styles only.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    site = UiSite(source, cluster=cluster, root="")
    return site.still(source.picture(), style, f"default-src 'none'; style-src 'sha256-{digest}'")

"""The page as one file that needs nothing else, and asks nobody for anything."""

import base64
import hashlib
from typing import Final

from gpusharing.ui.pages import Pages, static
from gpusharing.ui.picture import Picture
from gpusharing.ui.site import values
from gpusharing.ui.viewing import View

_ALL: Final = 256
"""Claims of a GPU: where nobody can click, they are all named."""


def still(picture: Picture, cluster: str) -> bytes:
    style = static("ui.css").decode()
    # A browser that opens the file runs nothing, and takes these styles only.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    pages = Pages(cluster=cluster, root="")
    shown = View().everything(picture.fleet)
    return pages.page(
        "still.html",
        **values(picture, View(), shown, named=_ALL),
        chart=None,
        is_still=True,
        style=style,
        csp=f"default-src 'none'; style-src 'sha256-{digest}'",
    )

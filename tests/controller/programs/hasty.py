"""`gpusharing` that takes watches for broken, and gives up, so many times sooner: FASTER ARGUMENTS..."""

import sys

from gpusharing.kube import watches

faster = float(sys.argv.pop(1))
# Before others take it from here.
watches.DEAF_AFTER /= faster  # type: ignore[misc]

from gpusharing.controller.watching import deafness  # noqa: E402

deafness.GIVES_UP_AFTER /= faster  # type: ignore[misc]

from gpusharing.cli.main import main  # noqa: E402

main()

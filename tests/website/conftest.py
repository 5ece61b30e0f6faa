from ui.browser import browser

__all__ = ["browser"]

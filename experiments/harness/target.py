"""One thing that was asked of the tables, and whether it was reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A target.

    Attributes:
        of: What it is about.
        asked: What was to be reached.
        found: What was reached.
        met: Whether it was.
        see: Where to read more.
        sure: Whether it is met by more than chance allows.
    """

    of: str
    asked: str
    found: str
    met: bool
    see: str = ""
    sure: bool = True

    @property
    def verdict(self) -> str:
        """The last word of the table."""
        word = "**no**" if not self.met else "yes" if self.sure else "yes, within chance"
        return f"{word}: {self.see}" if self.see else word

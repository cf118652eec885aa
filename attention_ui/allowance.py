"""How much of the server's time one reader has in hand."""

from __future__ import annotations

from dataclasses import dataclass

from attention_core.limits import AT_A_STRETCH, EVERY, LONGEST_WAIT, SHARE

PIECE = 20_000  # bytes


@dataclass
class Allowance:
    """Seconds that one reader has in hand.

    They grow by one a second, up to AT_A_STRETCH. Each message takes EVERY of them, and as much again for
    each PIECE of it; while the server works for this reader, 1 / SHARE of them go in a second.
    """

    at: float
    left: float = AT_A_STRETCH
    at_work: bool = False

    def asked(self, now: float, size: int) -> bool:
        """Whether a message of that many bytes, which has just come, has to wait."""
        self._settle(now)
        self.left = max(-LONGEST_WAIT, self.left - EVERY * (1 + size / PIECE))
        return self.left < 0

    def told(self, size: int) -> None:
        """A message of that many bytes brought more, for which no run of its own is needed."""
        self.left = max(-LONGEST_WAIT, self.left - EVERY * size / PIECE)

    def missing(self, now: float) -> float:
        """How many seconds it has to wait."""
        self._settle(now)
        return max(0.0, -self.left)

    def begins(self, now: float) -> None:
        """The server sets to work."""
        self._settle(now)
        self.at_work = True

    def ends(self, now: float) -> None:
        """The work is done."""
        self._settle(now)
        self.at_work = False

    def never_was(self) -> None:
        """There was no work after all, so it took no time."""
        self.at_work = False

    def _settle(self, now: float) -> None:
        grown = (now - self.at) * (1 - self.at_work / SHARE)
        self.left = max(-LONGEST_WAIT, min(AT_A_STRETCH, self.left + grown))
        self.at = now

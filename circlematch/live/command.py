"""Runs a command for each hit. No shell reads it, so a label is one word of it, whatever characters it has."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

from circlematch.detection import Hit
from circlematch.errors import UsageError, did_you_mean

__all__ = ["HitCommand"]

FIELDS = ("label", "score", "start", "end", "model")
FIELD = re.compile(r"\{(\w*)\}")
MOST_RUNNING = 8
END_S = 5.0  # that a command has at the end


class HitCommand:
    """A command with places for a hit: `notify-send "{label} {score}"`."""

    def __init__(self, text: str) -> None:
        try:
            self.words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--exec is {text!r}; its quotes do not close") from error
        if not self.words:
            raise UsageError("--exec is empty; give a command, such as 'echo {label}'")
        for name in FIELD.findall(text):
            if name not in FIELDS:
                known = ", ".join(f"{{{field}}}" for field in FIELDS)
                raise UsageError(f"--exec has {{{name}}}{did_you_mean(name, FIELDS)}; it may have {known}")
        if shutil.which(self.words[0]) is None:
            raise UsageError(f"--exec runs {self.words[0]!r}, which is not a program on this machine")
        self.left_out = 0  # hits whose command did not run
        self._running: list[subprocess.Popen[bytes]] = []

    def arguments(self, hit: Hit, model: str) -> list[str]:
        """The words of the command for a hit."""
        values = {
            "label": hit.label,
            "score": f"{hit.score:.3f}",
            "start": f"{hit.start:.2f}",
            "end": f"{hit.end:.2f}",
            "model": model,
        }
        return [FIELD.sub(lambda match: values[match[1]], word) for word in self.words]

    def run(self, hit: Hit, model: str) -> str | None:
        """Start the command and do not wait for it. Returns what is to be said if it cannot run."""
        self._running = [process for process in self._running if process.poll() is None]
        if len(self._running) >= MOST_RUNNING:
            self.left_out += 1
            return f"--exec: {MOST_RUNNING} commands run already; the one for {hit.label!r} was left out"
        try:
            process = subprocess.Popen(self.arguments(hit, model), stdin=subprocess.DEVNULL)
        except OSError as error:
            self.left_out += 1
            return f"--exec: {self.words[0]} does not start: {error.strerror}"
        self._running.append(process)
        return None

    def finish(self) -> None:
        """Wait a moment for commands that still run."""
        for process in self._running:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                continue

"""A picture of what was found in a folder of words: one HTML file, with a wave for every take.

The page needs nothing else to be seen. To be heard, it must stay where it is: it plays the recordings from their
folder. Coloured parts are trained on, red ones are left out; a click on a wave plays it from there.
"""

from __future__ import annotations

import html
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.data.folder import Survey
from circlematch.data.formats import conversion
from circlematch.data.judge import LeftOut, Take
from circlematch.data.takes import LONGEST_TAKE_S, Word
from circlematch.errors import AudioError
from circlematch.text import printable

__all__ = ["takes_page"]

WIDTH, HEIGHT = 560, 56  # of a wave
MOST_TAKES = 200  # of a word
RATE = FRONT_END.sample_rate_hz

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --wave: #567; --good: #2a9d5c; --bad: #d43f3f; --faint: #8888; }}
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: .6rem 1.2rem; }}
h2 {{ margin: 1.6rem 0 .4rem; }}
figure {{ margin: 0; }}
figcaption {{ font-size: .85rem; overflow-wrap: anywhere; }}
figcaption b {{ color: var(--bad); font-weight: 600; }}
svg {{ width: 100%; height: {height}px; background: #8881; cursor: pointer; display: block; }}
path {{ fill: var(--wave); }}
.cut {{ fill: var(--good); opacity: .12; }} .word {{ fill: var(--good); opacity: .35; }}
.out {{ fill: var(--bad); opacity: .35; }} .at {{ stroke: currentColor; }}
.key span {{ padding: 0 .5em; border-radius: .2em; }}
</style></head><body>
<h1>{title}</h1>
<p>{summary}</p>
<p class="key"><span style="background:#2a9d5c59">word</span> in its <span style="background:#2a9d5c1f">window</span>:
trained on. <span style="background:#d43f3f59">word</span>: left out. Click a wave to hear it from there.</p>
{sections}
<audio></audio>
<script>
const player = document.querySelector("audio");
let shown = null;
document.addEventListener("click", event => {{
  const wave = event.target.closest("svg");
  if (!wave) return;
  const box = wave.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * wave.dataset.seconds;
  if (shown === wave && !player.paused) {{ player.pause(); return; }}
  shown = wave;
  player.src = wave.dataset.file;
  player.onloadedmetadata = () => {{ player.currentTime = at; player.play(); }};
}});
player.ontimeupdate = () => {{
  const x = shown && player.currentTime / shown.dataset.seconds * {width};
  const line = shown && shown.querySelector(".at");
  if (line) {{ line.setAttribute("x1", x); line.setAttribute("x2", x); }}
}};
</script></body></html>
"""


def takes_page(survey: Survey, beside: Path) -> str:
    """The page; `beside` is the folder that it will lie in, from which it plays the recordings."""
    left: defaultdict[Path, list[LeftOut]] = defaultdict(list)
    for one in survey.left_out:
        left[one.path].append(one)
    takes = {take.path: take for take in survey.takes}
    lost = sorted(path for path in left if path not in takes)
    sections = [
        _section("left out", [_figure(survey, beside, path, None, left[path]) for path in lost[:MOST_TAKES]], len(lost))
    ]
    for label in survey.labels:
        of_label = [take for take in survey.takes if take.label == label]
        figures = [_figure(survey, beside, take.path, take, left[take.path]) for take in of_label[:MOST_TAKES]]
        sections.append(_section(label, figures, len(of_label)))
    words = len(survey.lengths_ms())
    summary = (
        f"{words:,} words of {len(survey.keywords)} kinds in {len(survey.takes):,} takes are trained on; "
        f"{len(lost):,} recordings are left out."
    )
    if survey.foreign:
        summary += f" Besides, there are {html.escape(printable(conversion(survey.root, survey.foreign)))}"
    title = html.escape(printable(survey.root.resolve().name))
    return PAGE.format(title=title, summary=summary, sections="\n".join(sections), width=WIDTH, height=HEIGHT)


def _section(name: str, figures: Sequence[str], count: int) -> str:
    if not figures:
        return ""
    more = f" (the first {len(figures)} of {count:,})" if len(figures) < count else f" ({count:,})"
    return f"<h2>{html.escape(name)}{more}</h2>\n<main>{''.join(figures)}</main>"


def _figure(survey: Survey, beside: Path, path: Path, take: Take | None, left: Sequence[LeftOut]) -> str:
    """The wave of a recording, what is used of it, and its name."""
    name = html.escape(printable(path.relative_to(survey.root).as_posix()))
    reasons = "".join(f"<br><b>{html.escape(printable(f'{one.reason}: {one.detail}'))}</b>" for one in left)
    try:
        samples = np.concatenate([block for block, _ in zip(audio.blocks(path), _patience(), strict=False)])
    except AudioError:
        return f"<figure><figcaption>{name}{reasons}</figcaption></figure>"
    seconds = samples.size / RATE
    scale = WIDTH / (1000 * seconds)
    marks = [] if take is None else [_mark("word", word, scale) for word in take.words]
    marks += [_mark("out", one.word, scale) for one in left if one.word is not None]
    if take is not None:
        window_ms = FRONT_END.clip_samples * 1000 // RATE
        marks[:0] = [_box("cut", cut.start_ms * scale, window_ms * scale) for cut in survey.cuts(take)]
    source = quote(Path(os.path.relpath(path, beside)).as_posix().encode(errors="surrogateescape"))
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{name}" '
        f'data-file="{source}" data-seconds="{seconds:.3f}">{"".join(marks)}{_wave(samples)}'
        f'<line class="at" y2="{HEIGHT}" x1="-1" x2="-1"/></svg>'
        f"<figcaption>{name} · {seconds:.2f} s{reasons}</figcaption></figure>"
    )


def _patience() -> Iterator[int]:
    """As many blocks as the longest take has; of a longer recording, the beginning is drawn."""
    return iter(range(LONGEST_TAKE_S * RATE // audio.BLOCK_SAMPLES))


def _mark(kind: str, word: Word, scale: float) -> str:
    return _box(kind, word.start_ms * scale, word.length_ms * scale)


def _box(kind: str, x: float, width: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="{HEIGHT}"/>'


def _wave(samples: npt.NDArray[np.float32]) -> str:
    """The loudest sample of each of some hundred steps, as a filled shape; the loudest of all fills the height."""
    steps = np.array_split(np.abs(samples), min(WIDTH // 2, samples.size))
    heights = np.array([step.max() for step in steps])
    heights = HEIGHT / 2 * heights / max(float(heights.max()), 1e-9)
    xs = np.linspace(0, WIDTH, len(heights))
    above = " ".join(f"{x:.0f},{HEIGHT / 2 - h:.1f}" for x, h in zip(xs, heights, strict=True))
    below = " ".join(f"{x:.0f},{HEIGHT / 2 + h:.1f}" for x, h in zip(xs[::-1], heights[::-1], strict=True))
    return f'<path d="M{above} L{below} Z"/>'

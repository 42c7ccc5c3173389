"""What the clips of a batch are made of: whole clips, windows of negatives, near-words, speech beside and behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from circlematch.config import Augmentation, Negatives, Recipe
from circlematch.data.active import SILENT_DBFS, Words
from circlematch.data.bank import Bank
from circlematch.data.cache import ClipSet
from circlematch.data.epoch import NEAR_WORD, NEGATIVE
from circlematch.data.mix import KINDS, Mixed, Mixer
from circlematch.front_end import Mixes

LABELS = ("yes", "no", "unknown", "silence")
START, END = 4_000, 12_000  # of every word
CLIPS = 40


def sound_of(mixes: Mixes, number: int) -> npt.NDArray[np.float64]:
    """The samples of a clip, by the definition of a part. Fades are left out."""
    out = np.zeros(16_000)
    for part in mixes.parts[mixes.first_part[number] : mixes.first_part[number + 1]]:
        first, length, at = int(part["from"]), int(part["length"]), int(part["at"])
        piece = mixes.sources[part["source"]][first : first + length] / 32768 * float(part["gain"])
        piece = piece[::-1] if part["backwards"] else piece
        places = np.arange(length) + at
        inside = (places >= 0) & (places < 16_000)
        out[places[inside]] += piece[inside]
    return out


def db(samples: npt.NDArray[np.float64]) -> float:
    return float(10 * np.log10(np.mean(np.square(samples))))


@pytest.fixture(scope="module")
def clips() -> ClipSet:
    """Words of noise between silence; the last clips are silence."""
    generator = np.random.default_rng(0)
    audio = np.zeros((CLIPS, 16_000), np.int16)
    audio[:, START:END] = 3_000 * generator.standard_normal((CLIPS, END - START))
    labels = np.repeat([0, 1, 2, 3], 10)
    rows = np.where(labels == 3, -1, np.arange(CLIPS))
    return ClipSet("train", audio, rows, labels, (None,) * CLIPS, {})


@pytest.fixture(scope="module")
def words(clips: ClipSet) -> Words:
    spoken = clips.rows >= 0
    level = [db(clip[START:END] / 32768) if one else SILENT_DBFS for clip, one in zip(clips.audio, spoken, strict=True)]
    starts, ends = (np.where(spoken, place, 0).astype(np.int32) for place in (START, END))
    return Words(starts, ends, np.array(level, np.float32))


@pytest.fixture(scope="module")
def bank() -> Bank:
    """Two recordings: of noise with the word yes, and of louder noise without it. The third is nearly silent."""
    generator = np.random.default_rng(1)
    audio = np.concatenate([level * generator.standard_normal(100_000) for level in (500, 5_000, 5)]).astype(np.int16)
    levels = np.array([db(part / 32768) for part in np.split(audio, 3)], np.float32)
    said = (frozenset({"yes"}), frozenset({"well"}), None)
    return Bank(audio, np.array([100_000, 200_000, 300_000]), levels, said)


def mixer(clips: ClipSet, words: Words | None, bank: Bank | None, **changes: float) -> Mixer:
    return Mixer(clips, LABELS, Recipe(augmentation=replace(Augmentation(), **changes)), words, bank)  # type: ignore[arg-type]


def mix(one: Mixer, chosen: npt.ArrayLike, seed: int = 0) -> Mixed:
    return one.mix(np.asarray(chosen), np.random.default_rng(seed))


def test_clips_of_the_set_are_whole_and_silence_has_no_parts(clips: ClipSet) -> None:
    mixed = mix(mixer(clips, None, None), [7, 35, 12])
    np.testing.assert_array_equal(sound_of(mixed.clips, 0), clips.audio[7] / 32768)
    assert not sound_of(mixed.clips, 1).any()
    np.testing.assert_array_equal(sound_of(mixed.clips, 2), clips.audio[12] / 32768)
    assert (mixed.level_dbfs > SILENT_DBFS).tolist() == [True, False, True]
    assert mixed.labels.tolist() == [-1, -1, -1]


def test_windows_of_negatives_are_unknown_and_quiet_ones_silence(clips: ClipSet, bank: Bank) -> None:
    mixed = mix(mixer(clips, None, bank), [NEGATIVE] * 500)
    seen = set()
    for number in range(500):
        part = mixed.clips.parts[mixed.clips.first_part[number]]
        at = int(part["from"] - part["at"])
        np.testing.assert_array_equal(sound_of(mixed.clips, number), bank.audio[at : at + 16_000] / 32768)
        quiet = db(bank.audio[at : at + 16_000] / 32768) < -58
        assert LABELS[mixed.labels[number]] == ("silence" if quiet else "unknown")
        seen.add((at < 84_000, 100_000 <= at < 184_000, at >= 200_000))
    assert len(seen) >= 3


def test_windows_come_from_recordings_without_keywords_where_the_recipe_says_so(clips: ClipSet, bank: Bank) -> None:
    recipe = Recipe(negatives=Negatives(share=0.5, said=False))
    mixed = Mixer(clips, LABELS, recipe, None, bank).mix(np.full(200, NEGATIVE), np.random.default_rng(0))
    at = mixed.clips.parts["from"] - mixed.clips.parts["at"]
    assert at.min() >= 100_000


def test_a_share_of_the_windows_are_hard_ones_moved_by_up_to_50_ms(clips: ClipSet, bank: Bank) -> None:
    recipe = Recipe(negatives=Negatives(share=0.5, hard=0.4))
    one = Mixer(clips, LABELS, recipe, None, bank)
    one.hard = np.array([150_000])
    mixed = one.mix(np.full(2_000, NEGATIVE), np.random.default_rng(0))
    at = mixed.clips.parts["from"] - mixed.clips.parts["at"]
    near = np.abs(at - 150_000) <= 800
    assert near.mean() == pytest.approx(0.4, abs=0.04)
    assert len(set(at[near].tolist())) > 300


class Drawn:
    """A generator that draws one kind of near-word, of the first keyword and the second, and this share of it."""

    def __init__(self, kind: int, share: float) -> None:
        self.kind, self.share, self.calls = kind, share, 0

    def integers(self, low: int, high: int, size: int) -> npt.NDArray[np.int64]:
        self.calls += 1
        return np.full(size, self.kind if high == len(KINDS) else self.calls - 1)

    def uniform(self, low: float, high: float, size: int) -> npt.NDArray[np.float64]:
        assert low < self.share < high
        return np.full(size, self.share)


@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        ("_first_part", (4_000, 8_000)),
        ("_last_part", (8_000, 12_000)),
        ("_cut_at_start", (0, 4_000)),
        ("_cut_at_end", (12_000, 16_000)),
        ("_reversed", (4_000, 12_000)),
        ("_joined", (4_000, 12_000)),
    ],
)
def test_a_near_word_holds_what_its_kind_says_and_nothing_else(
    clips: ClipSet, words: Words, kind: str, heard: tuple[int, int]
) -> None:
    number = [make.__name__ for make in KINDS].index(kind)
    mixed = mixer(clips, words, None).mix(np.array([NEAR_WORD]), Drawn(number, 0.5))  # type: ignore[arg-type]
    sound = sound_of(mixed.clips, 0)
    assert mixed.labels.tolist() == [LABELS.index("unknown")]
    assert np.flatnonzero(sound)[[0, -1]] == pytest.approx([heard[0], heard[1] - 1], abs=5)
    one, two = (clips.audio[row] / 32768 for row in (0, 1))
    expected = {
        "_first_part": one[4_000:8_000],
        "_last_part": one[8_000:12_000],
        "_cut_at_start": one[8_000:12_000],
        "_cut_at_end": one[4_000:8_000],
        "_reversed": one[::-1][4_000:12_000],
        "_joined": np.concatenate([one[4_000:8_000], two[8_000:12_000]]),
    }[kind]
    np.testing.assert_allclose(sound[heard[0] : heard[1]], expected, rtol=0.02)


def test_speech_beside_a_word_leaves_the_word_and_its_margin_alone(clips: ClipSet, words: Words, bank: Bank) -> None:
    mixed = mix(mixer(clips, words, bank, beside=1.0), np.tile(np.arange(20), 20))
    sides = set()
    for number in range(400):
        sound, alone = sound_of(mixed.clips, number), clips.audio[number % 20] / 32768
        np.testing.assert_array_equal(sound[START - 800 : END + 800], alone[START - 800 : END + 800])
        before, after = (bool(part.any()) for part in (sound[: START - 800], sound[END + 800 :]))
        sides.add((before, after))
        part = mixed.clips.parts[mixed.clips.first_part[number] + 1]
        if before and part["from"] + part["length"] <= 200_000:  # all of it is one recording
            assert -11 < db(sound[:800]) - words.level_dbfs[number % 20] < 6
    assert sides == {(True, False), (False, True), (True, True)}
    untouched = mix(mixer(clips, words, bank, beside=1.0), np.arange(20, 30))  # unknown words
    assert len(untouched.clips.parts) == 10


def test_speech_beside_a_word_has_none_of_the_keywords(clips: ClipSet, words: Words, bank: Bank) -> None:
    parts = mix(mixer(clips, words, bank, beside=1.0), np.arange(20)).clips.parts
    assert parts["from"][parts["source"] == 1].min() >= 100_000


def test_babble_is_one_to_four_voices_below_the_speech(clips: ClipSet, words: Words, bank: Bank) -> None:
    mixed = mix(mixer(clips, words, bank, babble=1.0), np.tile(np.arange(35), 20))
    counts = np.diff(mixed.clips.first_part)
    spoken = np.tile(clips.rows[:35] >= 0, 20)
    assert set(counts[spoken].tolist()) == {2, 3, 4, 5}
    assert set(counts[~spoken].tolist()) == {0}
    below = []
    for number in np.flatnonzero(counts == 2):
        behind = sound_of(mixed.clips, int(number)) - clips.audio[number % 35] / 32768
        part = mixed.clips.parts[mixed.clips.first_part[number] + 1]
        if part["from"] // 100_000 == (part["from"] + part["length"]) // 100_000:  # within one recording
            below.append(words.level_dbfs[number % 35] - db(behind))
    assert min(below) == pytest.approx(5, abs=1)
    assert max(below) == pytest.approx(25, abs=1.5)


def test_levels_are_uniform_in_decibels_and_reported(clips: ClipSet, words: Words) -> None:
    one = mixer(clips, words, None, levelled=0.5, quietest_level_dbfs=-50.0, loudest_level_dbfs=-20.0)
    mixed = mix(one, np.tile(np.arange(40), 50))
    gains = 20 * np.log10(mixed.clips.parts["gain"])
    spoken = np.tile(clips.rows >= 0, 50)
    changed = mixed.level_dbfs[spoken] != np.tile(words.level_dbfs, 50)[spoken]
    assert changed.mean() == pytest.approx(0.5, abs=0.04)
    np.testing.assert_allclose(mixed.level_dbfs[spoken], np.tile(words.level_dbfs, 50)[spoken] + gains, atol=1e-4)
    assert (mixed.level_dbfs[spoken][changed].min(), mixed.level_dbfs[spoken][changed].max()) == pytest.approx(
        (-50, -20), abs=0.2
    )
    assert np.all(mixed.level_dbfs[~spoken] == SILENT_DBFS)


def test_the_same_generator_gives_the_same_mix(clips: ClipSet, words: Words, bank: Bank) -> None:
    one = mixer(clips, words, bank, beside=0.5, babble=0.5, levelled=0.5)
    chosen = [*range(40), NEGATIVE, NEAR_WORD]
    first, second, third = mix(one, chosen), mix(one, chosen), mix(one, chosen, seed=1)
    np.testing.assert_array_equal(first.clips.parts, second.clips.parts)
    assert len(first.clips.parts) != len(third.clips.parts) or (first.clips.parts != third.clips.parts).any()

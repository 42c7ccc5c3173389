"""Laws of words that sound like another folder's: leaving one out needs no refit, and only strangers are named."""

from __future__ import annotations

import numpy as np
import pytest
from long_takes import spoken

from circlematch.data import alike
from circlematch.data.alike import FEWEST_WORDS, RIDGE, another_word, sketch
from circlematch.data.find_words import Stretch


def test_scores_without_itself_equal_those_of_a_fit_to_all_others() -> None:
    generator = np.random.default_rng(0)
    sketches = generator.standard_normal((14, 5))
    labels = generator.integers(0, 3, 14)
    scores = alike._scores_without_itself(sketches, labels, 3)

    scaled = (sketches - sketches.mean(axis=0)) / (sketches.std(axis=0) + 1e-6)
    inputs = np.hstack((scaled / np.sqrt(5), np.ones((14, 1))))
    targets = np.full((14, 3), -0.5)
    targets[np.arange(14), labels] = 1.0
    for row in range(14):
        others = np.arange(14) != row
        # Ridge regression as an augmented least-squares problem, solved by NumPy.
        a = np.vstack((inputs[others], np.sqrt(RIDGE) * np.eye(6)))
        b = np.vstack((targets[others], np.zeros((6, 3))))
        solution, *_ = np.linalg.lstsq(a, b, rcond=None)
        np.testing.assert_allclose(scores[row], inputs[row] @ solution, atol=1e-9)


def sketches_of(phones: dict[str, str], takes: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    said = [(spoken(generator, sound), label) for label, sound in enumerate(phones.values()) for _ in range(takes)]
    room = 0.0005 * generator.standard_normal(4_000).astype(np.float32)
    takes_ = [np.concatenate((room, word, room)) for word, _ in said]
    sketches = [sketch(samples, Stretch(4_000, samples.size - 4_000)) for samples in takes_]
    return np.array(sketches), np.array([label for _, label in said])


WORDS = {"sali": "sali", "kemo": "kemo", "tunar": "tunar"}


def test_a_word_in_the_wrong_folder_is_named_with_the_right_one_and_no_other_is() -> None:
    sketches, truth = sketches_of(WORDS, 20)
    given = truth.copy()
    given[[3, 25, 45]] = [1, 2, 0]

    found = another_word(sketches, given)

    wanted = np.full(len(truth), -1)
    wanted[[3, 25, 45]] = truth[[3, 25, 45]]
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_words_that_sound_alike_are_not_told_apart(seed: int) -> None:
    sketches, _ = sketches_of({"sali": "sali"}, 40)
    given = np.random.default_rng(seed).permutation(40) % 2

    assert (another_word(sketches, given) == -1).all()


@pytest.mark.parametrize("takes", [1, FEWEST_WORDS - 1])
def test_nothing_is_said_of_few_words(takes: int) -> None:
    sketches, truth = sketches_of(WORDS, takes)
    truth[0] = 1

    kept = np.concatenate([np.flatnonzero(truth == label)[: FEWEST_WORDS - 1] for label in range(3)])
    assert (another_word(sketches[kept], truth[kept]) == -1).all()


def test_a_sketch_does_not_depend_on_the_level() -> None:
    word = spoken(np.random.default_rng(2))
    whole = Stretch(0, word.size)

    np.testing.assert_allclose(sketch(word, whole), sketch(word * np.float32(0.5), whole), atol=1.0)

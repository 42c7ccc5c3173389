"""A word from a few takes: five prototypes and a bias on an encoder that stays as it is.

takes      recordings -> the word in each
examples   -> windows with the word, in many voices, rooms and surroundings
background    running speech without the word
stages     the first guess of the prototypes
head, scan    scores of one class and their derivative, in NumPy
fit        -> prototypes and bias
threshold     for a rate of false accepts in running speech
classes    in and out of a model
enrol      all of it
"""

from circlematch.enrolment.classes import forget
from circlematch.enrolment.enrolling import begin, enrol

__all__ = ["begin", "enrol", "forget"]

"""Datasets: reading them, caching their audio, augmenting it, downloading it.

dataset          the common form of every dataset
speech_commands  Google Speech Commands, 12 classes
mswc             Multilingual Spoken Words Corpus, Micro
folder           any folder of words
tasks            all of these by name
composite        lays out the composite of both versions of Speech Commands
cache            decoded audio, once, as a memory-mapped array
epoch            the clips of an epoch
augment          shift, noise and speed of each training clip
noise            the pool of white, recorded and synthetic noise
synthetic_noise  random sounds that are not speech
negatives        recordings without keywords, with their transcripts
download         the official archives
unpack           unpacking an archive safely
synthetic        synthesised words, for demonstrations and tests
"""

"""Datasets: reading them, caching their audio, augmenting it, downloading it.

dataset          what every dataset becomes
speech_commands  Google Speech Commands, 12 classes
mswc             Multilingual Spoken Words Corpus, Micro
folder           any folder of words
tasks            all of these by name
cache            decoded audio, once, as a memory-mapped array
augment          shifts and noise for training
download         the official archives
synthetic        words that no one spoke, for trying things out
"""

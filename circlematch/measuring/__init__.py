"""Measuring a model on streams, as it will be used: words in long recordings, and recordings without keywords.

bounds      confidence bounds of rates and shares
scenes      clips at known times in a long recording, over a bed, with noise, at a level
near_words  what is almost a keyword: first and last parts, joined halves, reversed words
negatives   folders of recordings as one stream, with transcripts where there are any
streams     a model's answer to a stream: window scores, hits, and when each was reported
figures     false accepts per hour, misses, latency, errors of start and end, and their bounds
det         misses against false accepts, for all thresholds
measure     all of these for one model, row by row
"""

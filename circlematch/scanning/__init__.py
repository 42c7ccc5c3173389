"""Keywords in more sound than one process can hear: folders, buckets and shards.

find         addresses → the recordings and shards behind them
blocks       these → blocks of work of bounded size; long recordings are cut
stretch      the hits of a stretch of a recording, such that all stretches together give those of one pass
block        one block: its hits, and the files that failed
parts        the results of blocks, each written once
tables       parts → the two tables
speed        how fast a scan is, for `circlematch bench scan`
scan         all of it, on this machine's cores or on a cluster
"""

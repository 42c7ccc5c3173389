"""A model as ONNX graphs, written node by node: no PyTorch takes part. Needs the extra `onnx`.

graph       a graph under construction
timeline    time in a graph: a whole clip with zeros around it, or a stream with its past in a state
front_end   samples -> log-mel spectrogram, Section 4.1
encoder     log-mel spectrogram -> unit frames, Section 3.2 and Eqs. (1)–(2)
head        unit frames of one second -> scores, Eqs. (2)–(9)
models      the three graphs of a model
runtime     the graphs in ONNX Runtime, and how they agree with the engine

Letters: B batch, F mel band, T frame, D width, K class, M prototype, Q harmonic.
"""

"""Training: one loop over a small step interface.

schedule     the learning rate of each step
step         what the loop knows of the machinery that learns
native_step  the C engine
torch_step   the PyTorch machinery (the only module here that imports torch)
checkpoint   where a run is, on disk, written atomically
loop         epochs, validation, checkpoints
watch        live progress, and TensorBoard where it is installed
run          a whole run: data in, model, record and report out
several      several runs at once, a process each
"""

STEPS = ("auto", "native", "torch")  # auto: the engine's wherever it can train the network

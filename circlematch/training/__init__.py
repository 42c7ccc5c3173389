"""Training: one loop over a small step interface.

schedule     the learning rate of each step
step         the interface of a training step
native_step  the C engine
torch_step   PyTorch (the only module here that imports torch)
targets      smoothed labels and distillation targets
soap         the optimiser SOAP
finish       biases and calibration after training
checkpoint   the state of a run on disk, written atomically
loop         epochs, validation, checkpoints
watch        live progress, and TensorBoard where it is installed
plan         the specification of a run and where its data is, on disk
run          a whole run: data in, model, record and report out
several      several runs at once, a process each
"""

STEPS = ("auto", "native", "torch")  # auto: the engine's wherever it can train the network

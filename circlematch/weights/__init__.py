"""The released weights, one safetensors file each."""

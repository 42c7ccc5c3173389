"""Live sound: where it comes from, what is said about it, and what happens on a hit.

pcm             headerless samples: their formats, and bytes as arrays
standard_input  raw samples, WAV and other formats from a pipe
microphone      the microphones of this machine, through PortAudio
level           loudness, dead silence and clipping
listener        one source, several models: hits as they come
keep            the sound around each hit, as files
command         a command for each hit
"""

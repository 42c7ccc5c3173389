"""Synthetic noise: random sounds that are not speech, to train a keyword spotter against.

A scene is either steady (wind, rain, hum) or a series of events over a quiet background: blows, knocks, drops, breath,
calls, squeaks, and pieces of recorded noise at other speeds. Events occur once, in a rhythm or at random, in a room and
through a microphone. No sound imitates a particular one. Two things matter: variety of attack, pitch, colour and
rhythm; and that nothing reveals a sound as synthetic, such as digital silence between events, a missing echo or a hard
cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END

__all__ = ["levelled", "synthetic_noise"]

RATE = FRONT_END.sample_rate_hz
SHORTEST_SCENE, LONGEST_SCENE = RATE, 3 * RATE
CREST = 12.0  # the largest crest factor (peak over RMS) of a scene

Samples = npt.NDArray[np.float32]
Sound = npt.NDArray[np.float64]
Generator = np.random.Generator


def synthetic_noise(generator: Generator, samples: int, recordings: Sequence[Samples] = ()) -> Samples:
    """Scenes of one to three seconds, each levelled, cross-faded into one another."""
    out = np.zeros(samples + LONGEST_SCENE, dtype=np.float32)
    begin = blend = 0
    while begin < samples:
        scene = levelled(_scene(generator, int(generator.integers(SHORTEST_SCENE, LONGEST_SCENE)), recordings))
        scene[:blend] *= np.linspace(0, 1, blend, dtype=np.float32)
        blend = int(RATE * _between(generator, 0.005, 0.3))
        scene[-blend:] *= np.linspace(1, 0, blend, dtype=np.float32)
        out[begin : begin + scene.size] += scene
        begin += scene.size - blend
    return out[:samples]


def levelled(samples: npt.NDArray[np.floating]) -> Samples:
    """The samples at a mean square of one, or a peak of CREST where that is quieter; silence stays silence."""
    if not samples.size:
        return samples.astype(np.float32)
    level = max(float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))), float(np.abs(samples).max()) / CREST)
    return (samples / level).astype(np.float32) if level > 0 else samples.astype(np.float32)


def _scene(generator: Generator, count: int, recordings: Sequence[Samples]) -> Sound:
    """One scene: steady sound or events, mostly in a room, over a background, and through a microphone."""
    if generator.random() < STEADY_SHARE:
        sound = _steady(generator, count)
    else:
        sound = _events(generator, count, recordings)
        if generator.random() < 0.3:
            sound += float(generator.uniform(0.1, 1.0)) * _events(generator, count, recordings)
        if generator.random() < 0.6:
            sound = _in_a_room(generator, sound)
        if generator.random() < 0.9:  # otherwise digital silence between the events
            bed = _steady(generator, count) if generator.random() < 0.3 else levelled(_room_tone(generator, count))
            sound += bed * float(np.abs(sound).max()) * 10 ** generator.uniform(-3.2, -0.9)
    return _through_a_microphone(generator, sound) if generator.random() < 0.8 else sound


def _steady(generator: Generator, count: int) -> Sound:
    """One or two steady sounds, each with a loudness that may vary."""
    out = np.zeros(count)
    for _ in range(int(generator.integers(1, 3))):
        sound = levelled(_one_of(STEADY, generator)(generator, count))
        swell = _swell(generator, count) if generator.random() < 0.4 else 1.0
        out += generator.uniform(0.1, 1) * sound * swell
    return out


def _one_of(kinds: Sequence[Callable[..., Sound]], generator: Generator) -> Callable[..., Sound]:
    return kinds[int(generator.integers(len(kinds)))]


def _events(generator: Generator, count: int, recordings: Sequence[Samples]) -> Sound:
    """Events of one kind: a single one, a rhythm of similar ones, or several that differ."""
    kind = _one_of(EVENTS if recordings else EVENTS[:-1], generator)

    def event() -> Sound:
        sound = kind(generator, recordings)
        return sound / max(float(np.abs(sound).max()), 1e-9)

    out = np.zeros(count)
    pattern = generator.random()
    if pattern < 0.2:
        return _placed(out, event(), int(generator.integers(-RATE // 10, count)), 1.0)
    if pattern < 0.65:
        period = _between(generator, 0.05, 1.2) * RATE
        jitter = period * generator.uniform(0, 0.2) ** 2
        cycle = [event() for _ in range(int(generator.integers(1, 4)))]  # tick, or tick and tock
        new = generator.uniform(0, 0.5)
        for number, place in enumerate(np.arange(generator.uniform(0, period), count, period)):
            sound = cycle[number % len(cycle)] if generator.random() > new else event()
            _placed(out, sound, int(place + generator.uniform(-jitter, jitter)), generator.uniform(0.4, 1.0))
        return out
    for _ in range(int(generator.integers(2, 12))):
        _placed(out, event(), int(generator.integers(-RATE // 10, count)), generator.uniform(0.05, 1.0))
    return out


def _in_a_room(generator: Generator, sound: Sound) -> Sound:
    """The sound in a small or a large room; the echo loses its high frequencies first."""
    length = int(RATE * _between(generator, 0.05, 0.8))
    noise = generator.standard_normal(length)
    corner = _between(generator, 300, 3000)
    low = _filtered(noise, lambda hertz: 1 / (1 + (hertz / corner) ** 2))
    time = np.arange(length) / length
    echo = low * np.exp(-time * 6) + (noise - low) * np.exp(-time * generator.uniform(6, 30))
    echo *= _between(generator, 0.1, 2) / np.sqrt(np.square(echo).sum())
    echo[0] += 1
    return _convolved(sound, echo)


def _through_a_microphone(generator: Generator, sound: Sound) -> Sound:
    """The sound through a microphone: a random smooth frequency response."""
    points = np.linspace(np.log(50), np.log(RATE / 2), 9)
    decibels = np.cumsum(generator.normal(0, generator.uniform(1, 7), points.size))
    decibels -= decibels.mean()
    return _filtered(sound, lambda hertz: 10 ** (np.interp(np.log(np.maximum(hertz, 1)), points, decibels) / 20))


def _placed(out: Sound, event: Sound, place: int, gain: float) -> Sound:
    first, last = max(place, 0), min(place + event.size, out.size)
    if last > first:
        out[first:last] += gain * event[first - place : last - place]
    return out


# Steady sounds.


def _hiss(generator: Generator, count: int) -> Sound:
    """Noise that falls with frequency, from white to far beyond brown, between two edges: wind, taps, engines."""
    low, high = np.sort(np.exp(generator.uniform(np.log(30), np.log(RATE / 2), 2)))
    tilt = generator.uniform(0, 2)

    def colour(hertz: Sound) -> Sound:
        edges = 1 / (1 + (low / np.maximum(hertz, 1)) ** 4) / (1 + (hertz / high) ** 4)
        return np.asarray(np.maximum(hertz, 20.0) ** -tilt * (0.03 + edges))

    return _coloured(generator, count, colour)


def _room_tone(generator: Generator, count: int) -> Sound:
    """The background of a quiet room: soft hiss at all frequencies, stronger at the lowest."""
    rumble, corner, tilt = _between(generator, 0.3, 30), _between(generator, 40, 400), generator.uniform(0, 0.9)

    def colour(hertz: Sound) -> Sound:
        audible = np.maximum(hertz, 20.0)
        return np.asarray((audible / 1000) ** -tilt + rumble / (1 + (audible / corner) ** 2))

    return _coloured(generator, count, colour)


def _hum(generator: Generator, count: int) -> Sound:
    """Harmonics of a slowly varying pitch: motors, mains, horns, bells."""
    return _harmonics(generator, count, *np.exp(generator.uniform(np.log(40), np.log(3000), 2)))


def _patter(generator: Generator, count: int) -> Sound:
    """Very many small blows: rain, fire, applause, frying."""
    blows = generator.random(count) < 10 ** generator.uniform(-3.5, -1.5)
    heights = np.where(blows, generator.standard_normal(count) * generator.exponential(1.0, count), 0.0)
    length = int(RATE * generator.uniform(0.001, 0.02))
    tail = generator.standard_normal(length) * np.exp(-np.arange(length) / length * 5)
    return _convolved(heights, tail)


# Events.


def _blow(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """Something is struck, rings and dies away: doors, dishes, keys, clocks, bells."""
    time = np.arange(int(RATE * _between(generator, 0.005, 1.2))) / RATE
    ring = generator.uniform(0, 1) * generator.standard_normal(time.size) * np.exp(-time * generator.uniform(50, 500))
    for _ in range(int(generator.integers(0, 7))):
        wave = np.sin(2 * np.pi * _between(generator, 80, 7000) * time + generator.uniform(0, 7))
        ring += generator.uniform(0.1, 1) * wave * np.exp(-time * _between(generator, 3, 200))
    return ring


def _knock(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """A short noise whose bands die away each in its own time: ticks, steps, clucks, knocks, claps."""
    count = int(RATE * _between(generator, 0.01, 0.3))
    time = np.arange(count) / RATE
    noise = generator.standard_normal(count)
    out = np.zeros(count)
    for centre in np.exp(generator.uniform(np.log(100), np.log(RATE / 2), int(generator.integers(3, 12)))):
        width = centre * _between(generator, 0.05, 1.0)

        def colour(hertz: Sound, centre: float = centre, width: float = width) -> Sound:
            return np.asarray(1 / (1 + ((hertz - centre) / width) ** 2))

        band = _filtered(noise, colour)
        die = 5 / time[-1] if generator.random() < 0.3 else 1 / _between(generator, 0.002, 0.08)
        out += 10 ** generator.uniform(-1.2, 0) * band / max(float(band.std()), 1e-9) * np.exp(-time * die)
    rise = int(RATE * _between(generator, 0.0005, 0.02))
    out[:rise] *= np.linspace(0, 1, out[:rise].size)
    return out


def _gurgle(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """Many drops one after the other: swallowing, pouring, bubbling."""
    out = np.zeros(int(RATE * _between(generator, 0.1, 1.0)))
    for _ in range(int(generator.integers(3, 40))):
        _placed(out, _drop(generator, recordings), int(generator.integers(out.size)), 10 ** generator.uniform(-1.3, 0))
    return out


def _creak(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """Something sticks and slips, and rings each time: hinges, saws, zips, croaking, engines that start."""
    count = int(RATE * _between(generator, 0.08, 1.2))
    rate = _slide(generator, count, 12, 250) * np.exp(generator.normal(0, generator.uniform(0, 0.3), count))
    slips = np.diff(np.floor(np.cumsum(rate) / RATE), prepend=0.0) * generator.uniform(0.3, 1, count)
    return _convolved(slips, _knock(generator, recordings)) * _breath(generator, count)


def _drop(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """A tone that slides while it dies: drops, bubbles, chirps, clicks of a tongue."""
    time = np.arange(int(RATE * generator.uniform(0.01, 0.15))) / RATE
    pitch = _slide(generator, time.size, 200, 5000)
    return np.sin(2 * np.pi * np.cumsum(pitch) / RATE) * np.exp(-time * generator.uniform(10, 120))


def _puff(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """Noise through a tube: breath, coughs, sneezes, saws, brushes."""
    count = int(RATE * _between(generator, 0.02, 0.9))
    peaks = np.exp(generator.uniform(np.log(200), np.log(7000), int(generator.integers(1, 5))))
    widths = peaks * generator.uniform(0.05, 0.6, peaks.size)
    heights = generator.uniform(0.2, 1, peaks.size)
    floor = 10 ** generator.uniform(-3, -0.5)

    def colour(hertz: Sound) -> Sound:
        bells = heights / (1 + ((hertz[:, None] - peaks) / widths) ** 2)
        return np.asarray(floor + bells.sum(axis=1))

    return _coloured(generator, count, colour) * _breath(generator, count)


def _call(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """A throat or a beak: harmonics of a gliding pitch through moving resonances, with some breath."""
    count = int(RATE * _between(generator, 0.04, 0.9))
    pitch = _slide(generator, count, 60, 1500)
    if generator.random() < 0.3:  # rough
        beat = 2 * np.pi * generator.uniform(15, 80) / RATE
        pitch *= 1 + generator.uniform(0.02, 0.3) * np.sin(beat * np.arange(count))
    resonances = [_slide(generator, count, 250, 4500) for _ in range(int(generator.integers(1, 4)))]
    sharpness = generator.uniform(2, 12)
    fall = generator.uniform(0.3, 1.5)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    out = np.zeros(count)
    for number in range(1, min(25, int(RATE / 2 / pitch.max())) + 1):
        hertz = number * pitch
        gain = sum((1 / (1 + (sharpness * (hertz / centre - 1)) ** 2) for centre in resonances), np.full(count, 0.02))
        out += number**-fall * gain * np.sin(number * phase)
    out += generator.uniform(0, 0.2) * out.std() * generator.standard_normal(count)
    return out * _breath(generator, count)


def _throat(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """Pulses and breath through resonances that stay: barks, laughs, coughs, clucks, bleats, moans."""
    count = int(RATE * _between(generator, 0.04, 0.8))
    arc = np.sin(np.pi * np.linspace(generator.uniform(0, 0.5), generator.uniform(0.5, 1), count))
    pitch = _between(generator, 60, 900) * np.exp(generator.uniform(-0.3, 0.9) * arc)
    pitch *= np.exp(np.repeat(generator.normal(0, generator.uniform(0, 0.1), count // 64 + 1), 64)[:count])  # rough
    pulses = np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0.0)
    breath = _between(generator, 0.01, 1) * pulses.std() * generator.standard_normal(count)
    time = np.arange(RATE // 20) / RATE
    reply = np.zeros(time.size)
    for hertz in np.exp(generator.uniform(np.log(250), np.log(6000), int(generator.integers(2, 7)))):
        die = np.pi * _between(generator, 50, 500)
        height = np.sqrt(die) * (500 / hertz) ** generator.uniform(0, 1.5)
        reply += height * np.sin(2 * np.pi * hertz * time) * np.exp(-die * time)
    return _convolved(pulses + breath, reply) * _breath(generator, count)


def _whisper(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """Breath through moving resonances: snoring, panting, hissing, rustling."""
    count = int(RATE * _between(generator, 0.04, 1.0))
    out = generator.uniform(0, 0.1) * generator.standard_normal(count)
    for _ in range(int(generator.integers(1, 5))):
        phase = 2 * np.pi * np.cumsum(_slide(generator, count, 250, 6000)) / RATE
        width = _between(generator, 30, 500)

        def colour(hertz: Sound, width: float = width) -> Sound:
            return np.asarray(1 / (1 + (hertz / width) ** 4))

        still, turned = (_coloured(generator, count, colour) for _ in range(2))
        band = still * np.cos(phase) + turned * np.sin(phase)
        out += generator.uniform(0.1, 1) * band / max(float(band.std()), 1e-9)
    return out * _breath(generator, count)


def _squeak(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """A few harmonics with a trill: birds, hinges, sirens, alarms, insects."""
    count = int(RATE * _between(generator, 0.05, 1.2))
    begin, end = np.exp(generator.uniform(np.log(300), np.log(6000), 2))
    return _harmonics(generator, count, begin, end if generator.random() < 0.5 else begin) * _breath(generator, count)


def _piece(generator: Generator, recordings: Sequence[Samples]) -> Sound:
    """A piece of a recording of noise, slower or faster than it was, perhaps backwards."""
    recording = recordings[int(generator.integers(len(recordings)))]
    speed = _between(generator, 0.35, 2.5)
    count = int(RATE * _between(generator, 0.03, 1.2))
    count = min(count, int((recording.size - 2) / speed))
    begin = generator.uniform(0, recording.size - 2 - count * speed)
    places = begin + speed * np.arange(count)
    whole = places.astype(np.int64)
    piece = recording[whole] + (places - whole) * (recording[whole + 1] - recording[whole])
    return np.asarray((piece[::-1] if generator.random() < 0.3 else piece) * _breath(generator, count))


# Building blocks.


def _between(generator: Generator, low: float, high: float) -> float:
    """A log-uniform number."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def _coloured(generator: Generator, count: int, colour: Callable[[Sound], Sound]) -> Sound:
    """Noise with the given spectrum."""
    return _filtered(generator.standard_normal(1 << max(count - 1, 1).bit_length()), colour)[:count]


def _filtered(sound: Sound, colour: Callable[[Sound], Sound]) -> Sound:
    """The sound filtered to another spectrum."""
    size = 1 << max(sound.size - 1, 1).bit_length()
    hertz = np.fft.rfftfreq(size, 1 / RATE).astype(np.float64)
    return np.asarray(np.fft.irfft(np.fft.rfft(sound, size) * colour(hertz), size)[: sound.size])


def _convolved(sound: Sound, reply: Sound) -> Sound:
    """The sound convolved with an impulse response, cut to the length of the sound."""
    size = 1 << (sound.size + reply.size - 1).bit_length()
    return np.asarray(np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(reply, size), size)[: sound.size])


def _harmonics(generator: Generator, count: int, begin: float, end: float) -> Sound:
    time = np.arange(count) / RATE
    trill = generator.uniform(0, 0.15) * np.sin(2 * np.pi * _between(generator, 0.5, 40) * time)
    pitch = np.geomspace(begin, end, count) * (1 + trill)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    fall = generator.uniform(0, 2)
    out = np.zeros(count)
    for number in range(1, int(generator.integers(2, 14))):
        if number * pitch.max() < RATE / 2:
            out += number**-fall * np.sin(number * phase + generator.uniform(0, 7))
    return out


def _slide(generator: Generator, count: int, low: float, high: float) -> Sound:
    """A frequency that moves through two to four points."""
    points = generator.uniform(np.log(low), np.log(high)) + generator.uniform(0, 0.5) * generator.standard_normal(
        int(generator.integers(2, 5))
    )
    path = np.interp(np.linspace(0, len(points) - 1, count), np.arange(len(points)), points)
    return np.asarray(np.clip(np.exp(path), low / 2, high * 1.5))


def _breath(generator: Generator, count: int) -> Sound:
    """A loudness that rises from zero and decays, with some irregularity."""
    time: Sound = np.linspace(0, 1, count)
    rise, fall = generator.uniform(0.005, 0.5), generator.uniform(0.05, 0.7)
    shape = np.minimum(time / rise, 1.0) * np.minimum((1 - time) / fall, 1.0) ** generator.uniform(0.5, 3)
    if generator.random() < 0.3:
        shape *= _swell(generator, count)
    if generator.random() < 0.25:  # flutter
        beat = 2 * np.pi * _between(generator, 8, 90) / RATE * np.arange(count)
        shape *= np.clip(0.5 + generator.uniform(0.3, 2) * np.sin(beat), 0, 1)
    return shape


def _swell(generator: Generator, count: int) -> Sound:
    """A loudness that varies, slowly or in jerks."""
    knots = generator.uniform(0, 1, int(generator.integers(3, 30))) ** 3 + 0.01
    return np.interp(np.linspace(0, len(knots) - 1, count), np.arange(len(knots)), knots)


Steady = Callable[[Generator, int], Sound]
Event = Callable[[Generator, Sequence[Samples]], Sound]

STEADY_SHARE = 0.25
STEADY: tuple[Steady, ...] = (_hiss, _room_tone, _hum, _patter)
EVENTS: tuple[Event, ...] = (
    *(_blow, _knock, _knock, _knock, _drop, _gurgle, _puff, _whisper),
    *(_call, _call, _throat, _throat, _throat, _squeak, _creak),
    _piece,  # the last: it needs recordings
)

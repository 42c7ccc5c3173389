/** Plays pieces of sound, one at a time. */

const RATE = 16000;
const FADE = 80; // samples, so that a piece does not click

let context = null;
let playing = null;

/** Plays samples at 16 kHz from a time in seconds on. Returns a function that tells the time in the samples. */
export function play(samples, from = 0, ended = () => {}) {
  silence();
  if (samples.length === 0) return () => from;
  context ??= new AudioContext();
  context.resume();
  const buffer = context.createBuffer(1, samples.length, RATE);
  buffer.copyToChannel(samples, 0);
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.onended = () => playing === source && ((playing = null), ended());
  source.start(0, from);
  playing = source;
  const begun = context.currentTime;
  return () => Math.min(from + context.currentTime - begun, buffer.duration);
}

/** Stops what is playing, without its `ended`. */
export function silence() {
  const source = playing;
  playing = null;
  source?.stop();
}

/** Rounds off both ends of a piece. */
export function faded(samples) {
  const out = samples.slice();
  const length = Math.min(FADE, Math.floor(out.length / 2));
  for (let i = 0; i < length; i++) {
    out[i] *= i / length;
    out[out.length - 1 - i] *= i / length;
  }
  return out;
}

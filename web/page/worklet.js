/** The engine on the audio thread. It sends what it computes to the page, about every 20 ms. */

import { Resampler } from "../resample.js";
import { BANDS, PROTOTYPES, Stream } from "../stream.js";
import { LostSound } from "./lost.js";

const GATHERED = 1024; // samples that are processed together: the calls for each 128 would cost as much as the work

class Listener extends AudioWorkletProcessor {
  constructor({ processorOptions: { wasm, model } }) {
    super();
    this.module = new WebAssembly.Module(wasm);
    this.resampler = new Resampler(sampleRate);
    this.lost = new LostSound(sampleRate);
    this.gathered = new Float32Array(GATHERED);
    this.filled = 0;
    this.running = true;
    this.number = 0; // of the model, so that the page can tell what an older one still computed
    this.open(model);
    this.port.onmessage = ({ data }) => {
      if (data.model) {
        this.number++;
        this.open(data.model);
      }
      if (data.resumed) this.lost.restart();
      if (data.stop) this.running = false;
    };
  }

  /** Begins a stream with a model. */
  open(model) {
    this.stream = new Stream(this.module, model, true);
    this.frame = this.responseFrame = 0; // the numbers of the next log-mel frame and response
  }

  process([channels]) {
    if (!this.running) return false;
    const [sound] = channels;
    if (!sound) return true; // the microphone has not started
    this.lost.add(sound.length, Date.now());
    if (this.filled + sound.length > GATHERED) this.work();
    this.gathered.set(sound, this.filled);
    this.filled += sound.length;
    return true;
  }

  /** Processes what was gathered, and sends the result. */
  work() {
    const sound = this.resampler.push(this.gathered.subarray(0, this.filled)).slice();
    this.filled = 0;
    const [mels, curves, windows] = [[], [], []];
    const hits = this.stream.push(sound, {
      frames: (mel, responses) => {
        mels.push(mel.slice());
        curves.push(responses.slice());
      },
      window: ({ newest, probabilities }) => windows.push({ last: newest, probabilities: probabilities.slice() }),
    });
    const [mel, responses] = [joined(mels), joined(curves)];
    const { number, frame, responseFrame } = this;
    const lostFrames = Math.round(this.lost.lostMs / 10);
    this.frame += mel.length / BANDS;
    this.responseFrame += responses.length / (PROTOTYPES * Math.max(1, this.stream.paddedClasses));
    this.port.postMessage({ number, frame, responseFrame, sound, mel, responses, windows, hits, lostFrames }, [
      ...[sound.buffer, mel.buffer, responses.buffer],
    ]);
  }
}

function joined(pieces) {
  const whole = new Float32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

registerProcessor("circlematch-listener", Listener);

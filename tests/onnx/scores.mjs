/** Scores of clips in ONNX Runtime's package for Node: node scores.mjs, with {"folder", "name", "clips", "samples"} on
 * standard input. Prints those of the graph of samples and, for the first clip in chunks of odd lengths, of the stream. */

import { readFileSync } from "node:fs";
import ort from "onnxruntime-node";

const HOP = 160;
const CLIP = 16000;
const BATCH = 64;
const asked = JSON.parse(readFileSync(0, "utf8"));
const open = (ending) => ort.InferenceSession.create(`${asked.folder}/${asked.name}${ending}.onnx`);
const bytes = readFileSync(asked.samples);
const samples = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));

async function ofClips(session) {
  const scores = [];
  for (let at = 0; at < asked.clips; at += BATCH) {
    const count = Math.min(BATCH, asked.clips - at);
    const given = new ort.Tensor("float32", samples.subarray(at * CLIP, (at + count) * CLIP), [count, CLIP]);
    const found = await session.run({ samples: given });
    scores.push(...found.scores.data);
  }
  return scores;
}

async function ofStream(session, size) {
  let state = new ort.Tensor("float32", new Float32Array(size), [1, size]);
  let scores;
  const hear = async (sound, present) => {
    const hops = sound.length / HOP;
    const mask = new Float32Array(hops).fill(present);
    ({ scores, next_state: state } = await session.run({
      samples: new ort.Tensor("float32", sound, [1, sound.length]),
      present: new ort.Tensor("float32", mask, [1, hops]),
      state,
    }));
  };
  for (let at = 0, hops = 1; at < CLIP; at += hops * HOP, hops = ((hops * 5) % 13) + 1) {
    await hear(samples.subarray(at, Math.min(at + hops * HOP, CLIP)), 1);
  }
  await hear(new Float32Array(asked.lookAhead * HOP), 0);
  return [...scores.data];
}

const clips = await ofClips(await open(""));
const stream = await ofStream(await open("-stream"), asked.state);
console.log(JSON.stringify({ clips, stream }));

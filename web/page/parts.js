/** What the page carries in itself, compressed: modules, models, the sample and the worklet. */

async function unpacked(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A part by its name: "wasm-simd", "wasm-plain", "sample-sound" (an MP3 file) or "worklet" (a script). */
export function part(name) {
  return unpacked(document.getElementById(name).textContent);
}

/** The models that the page was made with: { name, parameters, chosen, bytes }. */
export function ownModels() {
  const entries = JSON.parse(document.getElementById("models").textContent);
  return Promise.all(entries.map(async ({ data, ...model }) => ({ ...model, bytes: await unpacked(data) })));
}

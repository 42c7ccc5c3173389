/**
 * A model file as the engine reads it. The compact form is taken as it is. From a .safetensors file of the Python package
 * the compact form is made in the same way as circlematch/compact.py does: batch norm folded, in the engine's order.
 */

import { PROTOTYPES } from "./stream.js";

// What the Python package has as constants: circlematch/config.py, circlematch/detection.py, circlematch/compact.py.
const DETECTION = {
  ...{ threshold: 0.5, thresholds: [], windows: 7, agreeing: 6 },
  ...{ refractory_ms: 0, start_offset_ms: 0, end_offset_ms: 0 },
};
const BACKGROUND = ["unknown", "silence"];
const NORM_EPSILON = 1e-5;
const QUAD = 4;
const HARMONICS = 2;
const LIFTING_TAPS = 5;
const LONGEST_HEADER = 10_000_000;
const MAGIC = [67, 77, 67, 72]; // CMCH

/** The front end of the engine, circlematch.config.FrontEnd. Models differ in clip_ms alone, which is not here. */
const FRONT_END = {
  ...{ sample_rate_hz: 16000, window_ms: 25, hop_ms: 10, fft_size: 512 },
  ...{ mel_bands: 32, lowest_hz: 0, highest_hz: 8000, power_floor: 1e-4 },
};
const USUAL_FRAMES = 100; // of a window; the engine has its circle
const ROWS = FRONT_END.mel_bands / 2;

/**
 * Reads a model file: { bytes, name, parameters }, the last two null if the file does not hold them.
 *
 * @param file a Uint8Array
 * @param numbers those of the engine, from modelNumbers in stream.js
 */
export function readModel(file, numbers) {
  if (MAGIC.every((byte, i) => file[i] === byte)) return { bytes: file, name: null, parameters: null };
  const { tensors, card } = readSafetensors(file);
  const frames = card.specification?.front_end?.clip_ms / FRONT_END.hop_ms;
  const network = card.specification?.network;
  const labels = card.specification?.labels;
  if (!network || !Array.isArray(labels)) throw refused("has no description of its network");
  if (Object.entries(FRONT_END).some(([name, value]) => card.specification.front_end?.[name] !== value))
    throw refused("was trained with another front end; use the version of circlematch that trained it");
  if (network.prototypes !== PROTOTYPES || network.harmonics !== HARMONICS)
    throw refused(`has ${network.prototypes} prototypes and ${network.harmonics} harmonics; the engine runs 5 and 2`);
  const read = (name, ...shape) => tensor(tensors, name, shape);
  const { weights, scale } = fold(network, read);
  const names = [
    ...labels.map((label) => Number(BACKGROUND.includes(label))),
    ...labels.flatMap((label) => [...new TextEncoder().encode(label), 0]),
  ];
  while (names.length % QUAD) names.push(0);
  const fields = [...detectionFields({ ...DETECTION, ...card.detection }), ...circleField(frames)];
  const bytes = assemble(network, frames, numbers, scale, card.detection?.threshold ?? DETECTION.threshold, names, fields, weights);
  return { bytes, name: card.name, parameters: countParameters(tensors) };
}

function refused(why) {
  return new Error(`This file ${why}.`);
}

/** The tensors of a safetensors file by name, and the card in its metadata. */
function readSafetensors(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = file.length < 8 ? 0 : Number(view.getBigUint64(0, true));
  if (length < 2 || length > Math.min(LONGEST_HEADER, file.length - 8))
    throw refused("is not a model; give a .safetensors file of circlematch or what `circlematch export` wrote");
  let header, card;
  try {
    header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
    card = JSON.parse(header.__metadata__.circlematch);
  } catch {
    throw refused("is not a CircleMatch model: it has no card");
  }
  delete header.__metadata__;
  const numbers = file.subarray(8 + length);
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    if (!/^(encoder|head)\./.test(name)) continue; // a checkpoint holds the optimiser's state too
    const count = shape.reduce((product, size) => product * size, 1);
    const [start, end] = data_offsets;
    if (dtype !== "F32" || !(start >= 0 && end <= numbers.length && end - start === 4 * count))
      throw refused(`is damaged at ${name}; get it again`);
    const data = new Float64Array(new Float32Array(numbers.slice(start, end).buffer));
    if (!data.every(Number.isFinite)) throw refused(`is damaged: ${name} holds NaN or infinite numbers; get it again`);
    tensors[name] = { shape, data };
  }
  return { tensors, card };
}

function tensor(tensors, name, shape) {
  const found = tensors[name];
  if (!found) throw refused(`is damaged: the tensor ${name} is missing; get it again`);
  if (found.shape.join() !== shape.join())
    throw refused(`is damaged: ${name} has the shape ${found.shape.join("×")}, not ${shape.join("×")}`);
  return found.data;
}

function countParameters(tensors) {
  const trained = Object.entries(tensors).filter(([name]) => !/running_(mean|var)$/.test(name));
  return trained.reduce((sum, [, { data }]) => sum + data.length, 0);
}

/** All weights in the order and the shapes of cm_weights (engine/stream/model.h), and alpha. */
function fold(network, read) {
  const { width: D, classes: K, conv_channels: C, bands, band_features } = network;
  const groups = network.dense_bands ? 1 : bands;
  const features = (bands * band_features) / groups;
  const rows = ROWS / groups; // of a group
  const H = D / 2;
  const weights = [];
  const norm = (name, size) => {
    const [weight, bias] = [read(`${name}.weight`, size), read(`${name}.bias`, size)];
    const [mean, variance] = [read(`${name}.running_mean`, size), read(`${name}.running_var`, size)];
    const scale = weight.map((w, i) => w / Math.sqrt(variance[i] + NORM_EPSILON));
    return { scale, shift: bias.map((b, i) => b - scale[i] * mean[i]) };
  };
  // Appends value(i, j, ...) for all places of an array; undefined, which stands for padding, as 0.
  const put = (sizes, value, ...index) => {
    if (index.length === sizes.length) return void weights.push(value(...index) ?? 0);
    for (let i = 0; i < sizes[index.length]; i++) put(sizes, value, ...index, i);
  };
  const padded = (array, size) => put([up(size)], (i) => array[i]);
  const halfOf = (j) => (j % up(H) < H ? Math.floor(j / up(H)) * H + (j % up(H)) : -1); // place in D, or padding
  const halved = (array) => put([2 * up(H)], (j) => array[halfOf(j)]);

  const conv = read("encoder.conv.weight", C, 1, 3, 5);
  const convNorm = norm("encoder.conv_norm", C);
  put([5, 3, up(C)], (b, a, c) => (c < C ? conv[(c * 3 + a) * 5 + b] * convNorm.scale[c] : 0));
  padded(convNorm.shift, C);

  const depthwise = read("encoder.depthwise.weight", C, 1, 3, 3);
  const depthwiseNorm = norm("encoder.depthwise_norm", C);
  put([3, 3, up(C)], (b, a, c) => (c < C ? depthwise[(c * 3 + a) * 3 + b] * depthwiseNorm.scale[c] : 0));
  padded(depthwiseNorm.shift, C);

  const pointwise = read("encoder.pointwise.weight", D, C, 1, 1);
  const pointwiseNorm = norm("encoder.pointwise_norm", D);
  put([C, up(D)], (c, d) => (d < D ? pointwise[d * C + c] * pointwiseNorm.scale[d] : 0));
  padded(pointwiseNorm.shift, D);

  const map = read("encoder.bands.map.weight", groups * features, D * rows, 1);
  const bandsNorm = norm("encoder.bands_norm", groups * features);
  put([groups, rows, up(D), up(features)], (g, r, d, f) => {
    const row = g * features + f;
    return d < D && f < features ? map[(row * D + d) * rows + r] * bandsNorm.scale[row] : 0;
  });
  put([groups, up(features)], (g, f) => (f < features ? bandsNorm.shift[g * features + f] : 0));

  const fuse = read("encoder.fuse.weight", D, groups * features, 1);
  const fuseNorm = norm("encoder.fuse_norm", D);
  put([groups, up(features), 2 * up(H)], (g, f, j) => {
    const d = halfOf(j);
    return d >= 0 && f < features ? fuse[d * groups * features + g * features + f] * fuseNorm.scale[d] : 0;
  });
  halved(fuseNorm.shift);

  for (let block = 0; block < network.lifting_blocks; block++)
    for (const part of ["predict", "update"]) {
      const name = `encoder.lifting.${block}.${part}`;
      const taps = read(`${name}.depthwise.weight`, H, 1, LIFTING_TAPS);
      const square = read(`${name}.pointwise.weight`, H, H, 1);
      const liftingNorm = norm(`${name}.norm`, H);
      put([LIFTING_TAPS, up(H)], (b, h) => (h < H ? taps[h * LIFTING_TAPS + b] * liftingNorm.scale[h] : 0));
      padded(liftingNorm.shift, H);
      put([up(H), up(H)], (i, o) => (i < H && o < H ? 0.5 * square[o * H + i] : 0)); // with the ½ of Eq. (1)
    }

  if (network.mean_pooling) {
    const linear = read("head.linear.weight", K, D);
    put([2 * up(H), up(K)], (j, k) => (k < K && halfOf(j) >= 0 ? linear[k * D + halfOf(j)] : 0));
    padded(read("head.linear.bias", K), K);
    return { weights, scale: 0 };
  }
  const headNorm = norm("head.matcher.norm", D);
  halved(headNorm.scale);
  halved(headNorm.shift);
  const scale = Math.exp(read("head.matcher.log_scale")[0]);
  const prototypes = read("head.matcher.prototypes", K, PROTOTYPES, D);
  // NumPy sums in another order; the difference vanishes when the weights are rounded to float32.
  const lengths = Array.from({ length: K * PROTOTYPES }, (_, row) => {
    const squares = prototypes.subarray(row * D, (row + 1) * D).reduce((sum, x) => sum + x * x, 0);
    return Math.max(Math.sqrt(squares), 1e-12);
  });
  put([2 * up(H), PROTOTYPES, up(K)], (j, m, k) => {
    const row = k * PROTOTYPES + m;
    return k < K && halfOf(j) >= 0 ? (scale * prototypes[row * D + halfOf(j)]) / lengths[row] : 0;
  });
  const mask = descriptorMask(network);
  const beta = read("head.readout.beta", mask.length);
  const gain = Math.exp(read("head.readout.log_gain")[0]);
  put([mask.length], (i) => beta[i] * gain * mask[i]);
  padded(read("head.readout.bias", K), K);
  return { weights, scale };
}

function up(count) {
  return Math.ceil(count / QUAD) * QUAD;
}

/** The parts of the descriptor, Eq. (9), that a network has: strengths, magnitudes, cross moments, path score. */
function descriptorMask(network) {
  const circle = network.circular_statistics;
  const parts = [
    [true, PROTOTYPES],
    [circle, HARMONICS * PROTOTYPES],
    [circle && network.cross_moments, 2 * (PROTOTYPES - 1)],
    [network.ordered_path, 1],
  ];
  return parts.flatMap(([shown, count]) => Array(count).fill(Number(shown)));
}

/** The settings of the detector as tagged fields. */
function detectionFields(detection) {
  const { windows, agreeing, refractory_ms, start_offset_ms, end_offset_ms, thresholds } = detection;
  const hits = Int32Array.of(windows, agreeing, refractory_ms, start_offset_ms, end_offset_ms);
  return [...field("Hits", hits), ...(thresholds.length ? field("Each", Float32Array.from(thresholds)) : [])];
}

/** The circle of a window: cosine and sine of each frame's angle, log T, log of T choose M. The usual one needs none. */
function circleField(frames) {
  if (frames === USUAL_FRAMES) return [];
  const angles = Array.from({ length: frames }, (_, t) => (2 * Math.PI * t) / frames);
  const paths = Array.from({ length: PROTOTYPES }, (_, s) => (frames - s) / (s + 1)).reduce((product, x) => product * x);
  const numbers = [...angles.map(Math.cos), ...angles.map(Math.sin), Math.log(frames), Math.log(paths)];
  return field("Circ", Float32Array.from(numbers));
}

/** A tag, the bytes of the content, and the content. */
function field(tag, content) {
  const length = Uint32Array.of(content.byteLength);
  return [...new TextEncoder().encode(tag), ...new Uint8Array(length.buffer), ...new Uint8Array(content.buffer)];
}

/** The header, the names, the fields and the weights; engine/stream/model.h draws the form byte by byte. */
function assemble(network, frames, numbers, scale, threshold, names, fields, weights) {
  const groups = network.dense_bands ? 1 : network.bands;
  const wholeNumbers = [
    ...[Number(network.mean_pooling), network.classes, network.width, network.conv_channels, groups],
    ...[(network.bands * network.band_features) / groups, 2 * network.lifting_blocks],
    ...[network.prototypes, network.harmonics, frames, numbers.frontEnd],
  ];
  const floats = [network.leaky_slope, 1 / network.path_temperature, network.magnitude_epsilon, scale, threshold];
  const size = 16 + 4 * (wholeNumbers.length + floats.length + 2) + names.length + fields.length + 4 * weights.length;
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 16;
  for (const value of wholeNumbers) at = (view.setUint32(at, value, true), at + 4);
  for (const value of floats) at = (view.setFloat32(at, value, true), at + 4);
  for (const part of [names, fields]) at = (view.setUint32(at, part.length, true), at + 4);
  for (const part of [names, fields]) at = (bytes.set(part, at), at + part.length);
  for (const value of weights) at = (view.setFloat32(at, value, true), at + 4);
  bytes.set(MAGIC);
  view.setUint32(4, numbers.version, true);
  view.setUint32(8, size, true);
  view.setUint32(12, checksum(bytes.subarray(16)), true);
  return bytes;
}

/** CRC-32, as in zlib. */
function checksum(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

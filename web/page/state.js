/** What the parts of the page share: its state, and its elements by their names. */

/** All that changes. In a recording `place` is the frame at which the shown window ends; live, `back` counts from now. */
export const state = {
  module: null,
  wasm: null,
  worklet: null, // the address of its script
  model: null, // { name, parameters, bytes }
  models: [],
  history: null,
  recording: null, // null: live
  hits: null, // the list of keywords
  sample: null,
  place: 0,
  back: 0,
  shown: 0, // the newest frame, eased
  paused: true,
  clock: null, // tells the time in the recording while it plays
  pinned: -1,
  followed: 0,
  search: 0, // number of the newest search, so that older ones end
};

/** An element by its id. */
export function $(id) {
  return document.getElementById(id);
}

/** Sets the text of an element, if it is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The keywords that were heard, in the order of time, each with a button that plays it and one that goes there. */

import { element } from "./scores.js";

const MOST = 200;
const PLAY = "M7 4v16l13-8z";

export class Hits {
  hits = []; // { label, score, start, end, sound }, oldest first
  #list;
  #none;
  #clear;

  /** @param acts `play(hit)` and `go(hit)` */
  constructor(list, none, clear, acts) {
    [this.#list, this.#none, this.#clear] = [list, none, clear];
    list.addEventListener("click", ({ target }) => {
      const item = target.closest("li");
      const hit = this.hits.find(({ row }) => row === item);
      if (hit) acts[target.closest(".play") ? "play" : "go"](hit);
    });
    clear.addEventListener("click", () => this.reset());
  }

  reset() {
    this.hits = [];
    this.#list.replaceChildren();
    this.#show();
  }

  add(hit) {
    hit.row = makeItem(hit);
    this.hits.push(hit);
    this.#list.append(hit.row);
    this.#list.scrollTop = this.#list.scrollHeight;
    if (this.hits.length > MOST) this.hits.shift().row.remove();
    this.#show();
  }

  #show() {
    this.#none.hidden = this.hits.length > 0;
    this.#clear.hidden = this.hits.length === 0;
  }
}

function makeItem({ label, score, start, end }) {
  const item = element("li");
  const play = element("button", "play", { type: "button", "aria-label": `Play “${label}” at ${start.toFixed(2)} s` });
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("viewBox", "0 0 24 24");
  icon.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PLAY);
  icon.append(path);
  play.append(icon);
  const go = element("button", "go", { type: "button", title: "Show where it was heard" });
  const share = element("small");
  share.textContent = `${Math.round(100 * score)} %`;
  go.append(label, share);
  const when = element("span", "when");
  when.textContent = `${start.toFixed(2)}–${end.toFixed(2)} s`;
  item.append(play, go, when);
  return item;
}

/**
 * The classes as bars: pale the probability of the newest window, strong the score that the detector compares with the
 * threshold. A bar is a button: it pins the class whose responses are shown.
 */

export class Scores {
  #list;
  #rows = [];
  #leader = -1;
  #pinned = -1;

  constructor(list, pinned) {
    this.#list = list;
    list.addEventListener("click", ({ target }) => {
      const label = this.#rows.findIndex(({ button }) => button.contains(target));
      if (label < 0) return;
      this.#pinned = this.#pinned === label ? -1 : label;
      this.#showPinned();
      pinned(this.#pinned);
    });
  }

  /** Rows for the classes of a model. */
  reset(classes) {
    this.#leader = this.#pinned = -1;
    this.#rows = classes.map(({ name, keyword, threshold }) => makeRow(name, keyword, threshold));
    this.#list.replaceChildren(...this.#rows.map(({ row }) => row));
  }

  /** Shows a window of the history, or zeros. `leader` is the class that the word above the circle names. */
  show(heard, leader) {
    this.#rows.forEach((row, label) => {
      const percent = Math.round(100 * (heard?.probabilities[label] ?? 0));
      const score = Math.round(100 * (heard?.scores[label] ?? 0));
      if (row.percent !== percent) {
        row.pale.style.transform = `scaleX(${percent / 100})`;
        row.value.textContent = `${percent} %`;
      }
      if (row.score !== score) row.strong.style.transform = `scaleX(${score / 100})`;
      Object.assign(row, { percent, score });
    });
    if (leader === this.#leader) return;
    this.#rows[this.#leader]?.row.classList.remove("leads");
    this.#rows[leader]?.row.classList.add("leads");
    this.#leader = leader;
  }

  #showPinned() {
    this.#rows.forEach(({ button }, label) => button.setAttribute("aria-pressed", String(label === this.#pinned)));
  }
}

function makeRow(name, keyword, threshold) {
  const row = document.createElement("li");
  const button = element("button", "", { type: "button", "aria-pressed": "false" });
  const [pale, strong] = [element("i"), element("b")];
  const track = element("span", "bar", { "aria-hidden": "true" });
  const value = element("span", "value");
  value.textContent = "0 %";
  track.append(pale, strong);
  if (keyword) {
    const tick = element("u");
    tick.style.left = `calc(${100 * threshold}% - 1px)`;
    track.append(tick);
  } else {
    row.className = "background";
  }
  const title = element("span", "name");
  title.textContent = name;
  button.append(title, track, value);
  row.append(button);
  return { row, button, pale, strong, value, percent: 0, score: 0 };
}

/** An element with a class and attributes. */
export function element(tag, className = "", attributes = {}) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

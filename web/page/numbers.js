/** The circular statistics of the shown window as a table, for reading and for screen readers. */

import { element } from "./scores.js";
import { magnitude, turns } from "./moments.js";

export function showNumbers(body, moments, end) {
  if (!moments) return body.replaceChildren();
  const rows = moments.map((one, s) => {
    const row = element("tr");
    const head = element("th", "", { scope: "row" });
    head.textContent = `${s + 1}`;
    row.append(head, ...cells(one, end).map(cell));
    return row;
  });
  body.replaceChildren(...rows);
}

function cell(text) {
  const made = element("td");
  made.textContent = text;
  return made;
}

function cells({ curve, peak, strength, first, second, cross }, end) {
  const polar = (moment, degrees) => `${magnitude(moment).toFixed(3)} at ${Math.round(degrees)}°`;
  return [
    peak < 0 ? "–" : `${((end - curve.length + peak) / 100).toFixed(2)} s`,
    Number.isNaN(strength) ? "–" : strength.toFixed(3).replace("-", "−"),
    polar(first, turns(first) * 360),
    polar(second, turns(second) * 360),
    cross ? polar(cross, (Math.atan2(cross.im, cross.re) * 180) / Math.PI).replace("-", "−") : "",
  ];
}

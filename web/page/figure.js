export const AXIS = 18; // pixels for the times below a picture

/** A canvas that keeps the resolution of the screen, and knows where the pointer is. */
export class Figure {
  width = 0; // in CSS pixels
  height = 0;
  pointer = null; // { x, y } in CSS pixels, or null

  constructor(canvas, changed) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    new ResizeObserver(() => this.#resize(changed)).observe(canvas);
    canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
      this.pointer = { x: offsetX, y: offsetY };
      changed();
    });
    for (const leaves of ["pointerleave", "pointercancel"])
      canvas.addEventListener(leaves, () => {
        this.pointer = null;
        changed();
      });
  }

  /** Empties the canvas and returns its context. */
  begin() {
    this.context.clearRect(0, 0, this.width, this.height);
    return this.context;
  }

  #resize(changed) {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    changed();
  }
}

/** Writes small text, with its size in pixels. */
export function write(context, text, x, y, colour, align = "left", size = 12, weight = 500) {
  context.font = `${weight} ${size}px Inter, system-ui, sans-serif`;
  context.fillStyle = colour;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(text, x, y);
}

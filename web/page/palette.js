/**
 * Colours of what is drawn. The five prototypes are stages of a word, so their colours are steps of one scale whose
 * lightness only rises or falls: they stay apart for every kind of colour vision, and in grey. Digits repeat the order.
 */

const LIGHT = {
  curves: ["#171c8f", "#7d22ad", "#bd366c", "#cf5c1f", "#b08500"],
  picture: [
    [255, 254, 251],
    [196, 194, 214],
    [92, 88, 140],
    [20, 18, 48],
  ],
  ink: "#17191f",
  muted: "#6b7280",
  line: "#dcd9cf",
  faint: "#eceae3",
  panel: "#fffefb",
  accent: "#5b2bc4",
};

const DARK = {
  curves: ["#7388ff", "#b583ff", "#f583b6", "#ffae66", "#fbe879"],
  picture: [
    [21, 24, 31],
    [66, 66, 100],
    [146, 142, 196],
    [246, 243, 255],
  ],
  ink: "#edeff4",
  muted: "#8d95a4",
  line: "#2f3542",
  faint: "#1f232c",
  panel: "#15181f",
  accent: "#b79cff",
};

export function paletteOf(theme) {
  return theme === "dark" ? DARK : LIGHT;
}

/** 256 colours between the stops of a palette's picture, as the pixels of an ImageData have them. */
export function pictureColours({ picture }) {
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (picture.length - 1);
    const stop = Math.min(Math.floor(at), picture.length - 2);
    const [r, g, b] = picture[stop].map((from, c) => Math.round(from + (at - stop) * (picture[stop + 1][c] - from)));
    colours[i] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }
  return colours;
}

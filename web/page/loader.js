/** Starts the page: its script is one of the parts that are compressed inside it. */

const packed = Uint8Array.from(atob(document.getElementById("script").textContent), (letter) => letter.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const script = new Blob([await new Response(stream).text()], { type: "text/javascript" });
await import(URL.createObjectURL(script));

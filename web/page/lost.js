/**
 * Counts sound that was lost before it arrived. Sound comes in bursts, so at any moment it lags behind the clock by a
 * little more or less; the least lag of a second shows how far it really is behind. If that grows, sound was lost:
 *
 *     second        1     2     3     4
 *     least lag     3     4    64    64   ms      60 ms were lost in the third second
 *
 * The sound card's clock may be a few hundred parts per million off, far less than what counts as a loss.
 */

const LEAST_MS = 25; // growth of the least lag that is a loss

export class LostSound {
  lostMs = 0;
  #rate;
  #samples = 0;
  #start = null;
  #second = 0;
  #least = Infinity;
  #before = null;

  constructor(rate) {
    this.#rate = rate;
  }

  /** Counts `samples` that arrived at a time in milliseconds. */
  add(samples, now) {
    this.#start ??= now;
    const lag = now - this.#start - (1000 * this.#samples) / this.#rate;
    this.#samples += samples;
    const second = Math.floor((now - this.#start) / 1000);
    if (second !== this.#second) this.#closeSecond(second);
    this.#least = Math.min(this.#least, lag);
  }

  /** Begins anew, after a pause that was intended. */
  restart() {
    this.#start = this.#before = null;
    this.#samples = this.#second = 0;
    this.#least = Infinity;
  }

  #closeSecond(second) {
    if (this.#before !== null && this.#least - this.#before > LEAST_MS) this.lostMs += this.#least - this.#before;
    this.#before = this.#least;
    this.#least = Infinity;
    this.#second = second;
  }
}

/* Circular statistics of a stretch of frames, Eqs. (3)–(7), as sums that can be added to those of the next stretch.
 *
 * A ring buffer is already a circle: lengths and cross moments do not change when all curves are rolled together, so
 * a frame stands at the angle of its number in the stream, modulo T, and nothing is ever re-aligned as the window
 * moves on.
 *
 * Five sums for each response curve: of x, and of x times cos and sin of one and of two turns, x = e^e.
 */
#ifndef CM_CIRCULAR_H
#define CM_CIRCULAR_H

#include "../shared/tables.h"
#include "model.h"

#define STATISTICS (1 + 2 * HARMONICS)

/* Adds one frame: sums is (5, count), x is (count). */
CM_INLINE void circular_add(float *restrict sums, const float *restrict x, int count, int frame)
{
    const int twice = 2 * frame < T ? 2 * frame : 2 * frame - T;
    const float c1 = cm_circle_cos[frame], s1 = cm_circle_sin[frame];
    const float c2 = cm_circle_cos[twice], s2 = cm_circle_sin[twice];
    CM_INDEPENDENT for (int i = 0; i < count; i++) {
        sums[i] += x[i];
        sums[count + i] += x[i] * c1;
        sums[2 * count + i] += x[i] * s1;
        sums[3 * count + i] += x[i] * c2;
        sums[4 * count + i] += x[i] * s2;
    }
}

#endif

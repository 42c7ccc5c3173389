/* Sums for the circular statistics, Eqs. (3) to (7), of some consecutive frames. Sums of adjacent groups of frames add
 * up.
 *
 * Lengths and cross moments do not change when all response curves are rotated by the same angle. So a frame's angle is
 * its number in the stream modulo T, as in a ring buffer, and nothing is realigned when the window moves.
 *
 * There are five sums for each response curve. With x = exp(response) and the angle a of the frame, they are those of
 * x, x cos a, x sin a, x cos 2a and x sin 2a.
 */
#ifndef CM_CIRCULAR_H
#define CM_CIRCULAR_H

#include "model.h"

#define STATISTICS (1 + 2 * HARMONICS)

/* Adds the frame at place `frame` of the circle: sums is (5, count), x is (count). `circle` is that of T frames. */
CM_INLINE void circular_add(float *restrict sums, const float *restrict x, int count, const float *circle, int T,
                            int frame)
{
    const int twice = 2 * frame < T ? 2 * frame : 2 * frame - T;
    const float c1 = circle[frame], s1 = circle[T + frame];
    const float c2 = circle[twice], s2 = circle[T + twice];
    CM_INDEPENDENT for (int i = 0; i < count; i++) {
        sums[i] += x[i];
        sums[count + i] += x[i] * c1;
        sums[2 * count + i] += x[i] * s1;
        sums[3 * count + i] += x[i] * c2;
        sums[4 * count + i] += x[i] * s2;
    }
}

#endif

/* The head over one chunk of examples: matching, circular statistics, ordered path, readout (Sections 3.3 to 3.5).
 * Included by step.h.
 *
 * The score of class k depends on the responses of class k only. So dz_k/de does not depend on the loss: it is computed
 * together with the score and multiplied by dL/dz_k later.
 */

/* Batch norm, SiLU and l2 normalisation of each frame: (D, T) -> (D, T), and the inverse lengths (T). */
static void frames_forward(int T, const lanes *restrict x, const norm *n, lanes *restrict frames, lanes *restrict inverse)
{
    for (int t = 0; t < T; t++)
        inverse[t] = lanes_of(0);
    for (int d = 0; d < n->channels; d++)
        for (int t = 0; t < T; t++) {
            const lanes y = x[d * T + t] * n->scale[d] + n->shift[d];
            const lanes silu = y / (lanes_exp(-y) + 1);
            frames[d * T + t] = silu;
            inverse[t] += silu * silu;
        }
    for (int t = 0; t < T; t++) {
        const lanes length = lanes_sqrt(inverse[t]), least = lanes_of((real)1e-12);
        inverse[t] = 1 / lanes_select(length > least, length, least);
    }
    for (int d = 0; d < n->channels; d++)
        for (int t = 0; t < T; t++)
            frames[d * T + t] *= inverse[t];
}

/* Its backward pass: `g`, the gradient at the unit frames, becomes the gradient at the norm's output. */
static void frames_backward(int T, const lanes *restrict x, const norm *n, const lanes *restrict frames,
                            const lanes *restrict inverse, lanes *restrict g)
{
    lanes along[CM_MOST_FRAMES];
    for (int t = 0; t < T; t++)
        along[t] = lanes_of(0);
    for (int d = 0; d < n->channels; d++)
        for (int t = 0; t < T; t++)
            along[t] += frames[d * T + t] * g[d * T + t];
    for (int d = 0; d < n->channels; d++)
        for (int t = 0; t < T; t++) {
            const lanes y = x[d * T + t] * n->scale[d] + n->shift[d];
            const lanes sigmoid = 1 / (lanes_exp(-y) + 1);
            const lanes at_silu = (g[d * T + t] - frames[d * T + t] * along[t]) * inverse[t];
            g[d * T + t] = at_silu * sigmoid * (1 + y * (1 - sigmoid));
        }
}

/* Responses of one class, Eq. (2): (D, T) -> (M, T). */
CM_INLINE void responses(int T, const lanes *restrict frames, const real *restrict prototypes, int width, real scale,
                         lanes *restrict out)
{
    for (int group = 0; group < T; group += 4) {
        const int t = whole_group(T, group);
        lanes sum[M][4];
        for (int s = 0; s < M; s++)
            for (int j = 0; j < 4; j++)
                sum[s][j] = lanes_of(0);
        for (int d = 0; d < width; d++)
            for (int s = 0; s < M; s++)
                for (int j = 0; j < 4; j++)
                    sum[s][j] += frames[d * T + t + j] * prototypes[s * width + d];
        for (int s = 0; s < M; s++)
            for (int j = 0; j < 4; j++)
                out[s * T + t + j] = sum[s][j] * scale;
    }
}

/* The sum over all ordered paths, and the share of it through each prototype and frame (M, T), for half of the
 * examples. `x` is exp(e) of all examples. With tau = 1/4, exp(e / tau) is x^4. Doubles need no scaling up to alpha =
 * 34. */
CM_INLINE half_wide paths_of_half(int T, const lanes *restrict x, int half, half_wide *restrict ahead,
                                  lanes *restrict marginals)
{
    half_wide sum[M];
    for (int s = 0; s < M; s++)
        sum[s] = (half_wide){ 0 };
    for (int t = 0; t < T; t++)
        for (int s = M - 1; s >= 0; s--) {
            const half_wide once = __builtin_convertvector(((const half_lanes *)(x + s * T + t))[half], half_wide);
            const half_wide twice = once * once;
            if (s > 0) {
                ahead[s * T + t] = sum[s - 1];  /* all paths of the earlier prototypes through earlier frames */
                sum[s] += twice * twice * sum[s - 1];
            } else {
                sum[0] += twice * twice;
            }
        }
    const half_wide total = sum[M - 1], inverse = 1 / total;
    half_wide behind[M];
    for (int s = 0; s < M; s++)
        behind[s] = (half_wide){ 0 };
    for (int t = T - 1; t >= 0; t--)
        for (int s = 0; s < M; s++) {
            const half_wide once = __builtin_convertvector(((const half_lanes *)(x + s * T + t))[half], half_wide);
            const half_wide twice = once * once, here = twice * twice;
            half_wide before = (half_wide){ 0 } + 1, after = before;
            if (s > 0)
                before = ahead[s * T + t];
            if (s < M - 1)
                after = behind[s + 1];
            ((half_lanes *)(marginals + s * T + t))[half] =
                __builtin_convertvector(before * here * after * inverse, half_lanes);
            behind[s] += here * after;
        }
    return total;
}

/* T choose M: the number of ordered paths. */
CM_INLINE double paths_through(int T)
{
    double paths = 1;
    for (int s = 0; s < M; s++)
        paths = paths * (T - s) / (s + 1);
    return paths;
}

/* The ordered-path score, Eq. (8), and the share of the paths through each prototype and frame (M, T). `ahead` is
 * scratch memory (M, T). */
static lanes ordered_path(int T, const lanes *restrict x, half_wide *restrict ahead, lanes *restrict marginals)
{
    wide total;
    for (int half = 0; half < 2; half++)
        total.part[half] = paths_of_half(T, x, half, ahead, marginals);
    return lanes_log(total, paths_through(T)) * (real)(0.25 / M);
}

/* Score of one class and its derivative with respect to the responses `e` (M, T). Writes the descriptor to `f`. */
static lanes class_score(int T, const head_weights *w, real bias, const lanes *restrict e, lanes *restrict x,
                         half_wide *restrict ahead, lanes *restrict derivative, lanes *restrict f)
{
    const real *c1 = w->basis, *s1 = c1 + T, *c2 = s1 + T, *s2 = c2 + T;
    lanes inverse[M], moment[M][4], pull[M][4];
    for (int s = 0; s < M; s++) {
        lanes sum = { 0 }, m0 = { 0 }, m1 = { 0 }, m2 = { 0 }, m3 = { 0 };
        for (int t = 0; t < T; t++) {
            const lanes value = lanes_exp(e[s * T + t]);
            x[s * T + t] = value;
            sum += value;
            m0 += value * c1[t];
            m1 += value * s1[t];
            m2 += value * c2[t];
            m3 += value * s2[t];
        }
        inverse[s] = 1 / sum;
        moment[s][0] = m0 * inverse[s];
        moment[s][1] = m1 * inverse[s];
        moment[s][2] = m2 * inverse[s];
        moment[s][3] = m3 * inverse[s];
        f[s] = lanes_log(lanes_widen(sum), T);
        for (int q = 0; q < Q; q++) {
            const lanes real_part = moment[s][2 * q], imaginary = moment[s][2 * q + 1];
            const lanes length = lanes_sqrt(real_part * real_part + imaginary * imaginary + w->epsilon);
            f[MAGNITUDE + q * M + s] = length;
            pull[s][2 * q] = real_part / length * w->beta[MAGNITUDE + q * M + s];
            pull[s][2 * q + 1] = imaginary / length * w->beta[MAGNITUDE + q * M + s];
        }
    }
    for (int s = 0; s + 1 < M; s++) {  /* cross moments, m_{s+1} conj(m_s) */
        const lanes r0 = moment[s][0], i0 = moment[s][1], r1 = moment[s + 1][0], i1 = moment[s + 1][1];
        const real by_real = w->beta[CROSS + s], by_imaginary = w->beta[CROSS + M - 1 + s];
        f[CROSS + s] = r1 * r0 + i1 * i0;
        f[CROSS + M - 1 + s] = i1 * r0 - r1 * i0;
        pull[s][0] += r1 * by_real + i1 * by_imaginary;
        pull[s][1] += i1 * by_real - r1 * by_imaginary;
        pull[s + 1][0] += r0 * by_real - i0 * by_imaginary;
        pull[s + 1][1] += i0 * by_real + r0 * by_imaginary;
    }
    f[PATH] = ordered_path(T, x, ahead, derivative);
    lanes score = { 0 };
    for (int i = 0; i < DESCRIPTOR; i++)
        score += f[i] * w->beta[i];
    for (int s = 0; s < M; s++) {
        lanes level = lanes_of(w->beta[s]);
        for (int i = 0; i < 4; i++)
            level -= pull[s][i] * moment[s][i];
        for (int t = 0; t < T; t++) {
            const lanes bend =
                level + pull[s][0] * c1[t] + pull[s][1] * s1[t] + pull[s][2] * c2[t] + pull[s][3] * s2[t];
            derivative[s * T + t] =
                (x[s * T + t] * inverse[s] * bend + derivative[s * T + t] * (w->beta[PATH] / M)) * w->gain;
        }
    }
    return score * w->gain + bias;
}

/* Cross-entropy with the targets. Replaces the scores (K) by their gradients; returns the loss of each example. */
static lanes cross_entropy(lanes *scores, int classes, const chunk_state *chunk, real examples)
{
    lanes top = scores[0], sum = { 0 }, loss = { 0 };
    for (int k = 1; k < classes; k++)
        top = lanes_select(scores[k] > top, scores[k], top);
    for (int k = 0; k < classes; k++)
        sum += lanes_exp(scores[k] - top);
    const lanes log_sum = lanes_log(lanes_widen(sum), 1) + top;
    for (int k = 0; k < classes; k++) {
        lanes target = { 0 };
        for (int l = 0; l < LANES; l++)
            if (chunk->present[l] != 0)
                target[l] = chunk->targets[l * classes + k];
        loss += target * (log_sum - scores[k]);
        scores[k] = (lanes_exp(scores[k] - log_sum) - target) / examples;
    }
    return loss;
}

/* Gradients of the unit frames (D, T) and of the prototypes (K, M, D), from dL/de (K, M, T). */
static void matching_backward(int T, const lanes *restrict frames, const head_weights *w, int width, int classes,
                              const lanes *restrict derivative, const real *present, lanes *restrict frames_gradient,
                              double *prototypes_gradient)
{
    const int count = classes * M;
    for (int group = 0; group < T; group += 4)
        for (int d = 0; d < width; d += 2) {
            const int t = whole_group(T, group);
            lanes sum[2][4];
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] = lanes_of(0);
            for (int p = 0; p < count; p++)
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 4; j++)
                        sum[i][j] += derivative[p * T + t + j] * w->prototypes[p * width + d + i];
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    frames_gradient[(d + i) * T + t + j] = sum[i][j] * w->scale;
        }
    for (int p = 0; p < count; p++)
        for (int d = 0; d < width; d += 2) {
            lanes sum[2][4] = { { { 0 } } };
            int t = 0;
            for (; t + 4 <= T; t += 4)
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 4; j++)
                        sum[i][j] += derivative[p * T + t + j] * frames[(d + i) * T + t + j];
            for (; t < T; t++)
                for (int i = 0; i < 2; i++)
                    sum[i][0] += derivative[p * T + t] * frames[(d + i) * T + t];
            for (int i = 0; i < 2; i++)
                prototypes_gradient[p * width + d + i] =
                    (double)w->scale * lanes_sum((sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]), present);
        }
}

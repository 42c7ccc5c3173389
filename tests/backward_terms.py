"""Every term of the backward pass in C, so that a test can scale each by 1 % and see the gradient test fail.

A statement stands under its file and function; each part between « and » is one term. «x when y» scales x only where
the C condition y holds: for functions that the forward pass uses too, or to tell two callers apart.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

TERMS: dict[str, dict[str, list[str]]] = {
    "lanes.h": {
        "lanes_dot": [
            "sum[j] += «x[i + j] * y[i + j]»",
            "sum[0] += «x[i] * y[i]»",
            "return («sum[0]» + «sum[1]») + («sum[2]» + «sum[3]»)",
        ],
        "leaky_slope": [
            "const lanes half = lanes_of(«(1 - slope) / 2»)",
            "return (lanes)(((lane_bits)x & SIGN_BIT) ^ (lane_bits)half) + «(1 + slope) / 2»",
        ],
    },
    "head.h": {
        "frames_backward": [
            "along[t] += «frames[d * T + t] * g[d * T + t]»",
            "const lanes y = «x[d * T + t] * n->scale[d]» + «n->shift[d]»",
            "const lanes sigmoid = «1 / (lanes_exp(-y) + 1)»",
            "const lanes at_silu = («g[d * T + t]» - «frames[d * T + t] * along[t]») * «inverse[t]»",
            "g[d * T + t] = «at_silu» * sigmoid * («1» + «y * (1 - sigmoid)»)",
            "g[d * T + t] = at_silu * «sigmoid» * (1 + y * («1» - «sigmoid»))",
        ],
        "paths_of_half": [
            "ahead[s * T + t] = «sum[s - 1]»",
            "const half_wide total = sum[M - 1], inverse = «1 / total»",
            "const half_wide twice = once * once, here = «twice * twice»",
            "after = «behind[s + 1]»",
            "((half_lanes *)(marginals + s * T + t))[half] = __builtin_convertvector(«before * here * after * inverse»,"
            " half_lanes)",
            "behind[s] += «here * after»",
        ],
        "class_score": [
            "pull[s][2 * q] = «real_part / length * w->beta[MAGNITUDE + q * M + s]»",
            "pull[s][2 * q + 1] = «imaginary / length * w->beta[MAGNITUDE + q * M + s]»",
            "pull[s][0] += «r1 * by_real» + «i1 * by_imaginary»",
            "pull[s][1] += «i1 * by_real» - «r1 * by_imaginary»",
            "pull[s + 1][0] += «r0 * by_real» - «i0 * by_imaginary»",
            "pull[s + 1][1] += «i0 * by_real» + «r0 * by_imaginary»",
            "lanes level = lanes_of(«w->beta[s]»)",
            "level -= «pull[s][i] * moment[s][i]»",
            "const lanes bend = «level» + «pull[s][0] * c1[t]» + «pull[s][1] * s1[t]»"
            " + «pull[s][2] * c2[t]» + «pull[s][3] * s2[t]»",
            "derivative[s * T + t] = («x[s * T + t] * inverse[s] * bend»"
            " + «derivative[s * T + t] * (w->beta[PATH] / M)») * «w->gain»",
        ],
        "cross_entropy": [
            "scores[k] = («lanes_exp(scores[k] - log_sum)» - «target») / examples",
            "scores[k] = «(lanes_exp(scores[k] - log_sum) - target) / examples»",
        ],
        "matching_backward": [
            "sum[i][j] += «derivative[p * T + t + j] * w->prototypes[p * width + d + i]»",
            "frames_gradient[(d + i) * T + t + j] = «sum[i][j] * w->scale»",
            "sum[i][j] += «derivative[p * T + t + j] * frames[(d + i) * T + t + j]»",
            "sum[i][0] += «derivative[p * T + t] * frames[(d + i) * T + t]»",
            "prototypes_gradient[p * width + d + i] = (double)w->scale"
            " * lanes_sum((«sum[i][0]» + «sum[i][1]») + («sum[i][2]» + «sum[i][3]»), present)",
            "prototypes_gradient[p * width + d + i] = «(double)w->scale"
            " * lanes_sum((sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]), present)»",
        ],
    },
    "encoder.h": {
        "bands_pair_backward": [
            "value[i] += «from[o * T + j] * weights[i * next + o * stride] when outputs == BAND_FEATURES»",
            "value[i] += «from[o * T + j] * weights[i * next + o * stride] when outputs == FEATURES»",
            "sum[i * BAND_FEATURES + o] += «from[o * T + j] * y[i * TILE + j] when outputs == BAND_FEATURES»",
            "sum[i * BAND_FEATURES + o] += «from[o * T + j] * y[i * TILE + j] when outputs == FEATURES»",
        ],
        "pointwise_pair_backward": [
            "g[i * TILE + j] *= «leaky_slope(y[i * TILE + j], slope)»",
            "totals[i] += «g[i * TILE + j]»",
            "sum[i * C + c] += «g[i * TILE + j] * tile[c * TILE + j]»",
            "spread[c * TILE + j] += «g[j] * w[c]» + «g[TILE + j] * w[C + c]»",
        ],
        "pointwise_and_bands_backward": [
            "map_gradient[weights + o * stride - map] = «lanes_sum(map_sums[d * outputs + o], present)»",
            "totals[i] = «lanes_sum(total_sums[i], present)»",
            "products[i] = «lanes_sum(product_sums[i], present)»",
        ],
        "activation_backward": [
            "lanes value = «g[j]» - «offset[c]»",
            "value -= «tile[(k - c) * TILE + j] * factor[c * C + k]»",
            "g[j] = «value * leaky_slope(tile[j], slope)»",
            "total += «g[j]»",
            "product += «g[j]» * («x[j]» - «n->mean[c]»)",
            "wide_add(&totals[c], «total»)",
            "wide_add(&products[c], «product»)",
            "bias_sums[c] = «wide_sum(totals[c], present)»",
            "weight_sums[c] = «wide_sum(products[c], present) * (double)n->inverse_sd[c]»",
        ],
        "depthwise_and_conv_backward": [
            "to[j] = «g[tiled(T, c, r, t0) + j] * n->scale[c]» - «n->offset[c]»"
            " - «raw[tiled(T, c, r, t0) + j] * n->factor[c]»",
            "kernel_sums[a * 3 + b] += «here[t] * above[a * PLANE_FRAMES + t + b]»",
            "value += «around[(2 - a) * PLANE_FRAMES + t + 2 - b] * w[a * 3 + b]»",
            "value *= «leaky_slope(y[t], slope)»",
            "sum += «value»",
            "patch_sums[a * 5 + b] += «value * x[a * PICTURE_FRAMES + t + b]»",
            "kernel[i] = «lanes_sum(kernel_sums[i], present)»",
            "patches[i] = «lanes_sum(patch_sums[i], present)»",
            "*total = «lanes_sum(sum, present)»",
        ],
        "row_gradient_sums": [
            "product[j] += «g[i * T + t + j]» * («x[i * T + t + j]» - «n->mean[i]»)",
            "product[0] += «g[i * T + t]» * («x[i * T + t]» - «n->mean[i]»)",
            "bias_sums[i] = «lanes_sum(lanes_total(g + i * T, T), present)»",
            "weight_sums[i] = lanes_sum((«product[0]» + «product[1]») + («product[2]» + «product[3]»), present)"
            " * «(double)n->inverse_sd[i]»",
        ],
        "rows_map": [
            "sum[j] += «x[k * T + t + j] * w[i * row_stride + k * inner_stride] when inner_stride == FEATURES»",
            "sum[j] += «x[k * T + t + j] * w[i * row_stride + k * inner_stride]"
            " when inner_stride > 1 && inner_stride != FEATURES»",
        ],
        "rows_map_gradient": [
            "w[i * inner + k] = «factor * lanes_sum(lanes_dot(g + i * T, x + k * T, T), present)»",
        ],
        "rows_norm_backward": [
            "g[i * T + t] = «g[i * T + t] * n->scale[i]» - «n->offset[i]» - «x[i * T + t] * n->factor[i]»",
        ],
        "taps": [
            "sum += «row[t + step * (b - reach)] * w[i * TAPS + b] when step < 0»",
            "sum += «row[from] * w[i * TAPS + b] when step < 0»",
        ],
        "taps_gradient": [
            "for (int t = reach; t < T - reach; t++) for (int b = 0; b < TAPS; b++)"
            " sum[b] += «g[i * T + t] * x[i * T + t + b - reach]»",
            "if (t + b >= reach && t + b - reach < T) sum[b] += «g[i * T + t] * x[i * T + t + b - reach]»",
            "w[i * TAPS + b] = «lanes_sum(sum[b], present)»",
        ],
    },
    "step.h": {
        "gathered": [
            "sums[j] += «train->chunks[i].partial[at + j] when at >= train->gradient && at < train->loss»",
        ],
        "norm_backward_from": [
            "const double factor = «(double)n->scale[i] * weight_sums[i] / n->count * n->inverse_sd[i]»",
            "n->factor[i] = «(real)factor»",
            "n->offset[i] = (real)(«n->scale[i] * bias_sums[i] / n->count» - «factor * n->mean[i]»)",
        ],
        "norm_backward_of_map": [
            "sum += «w[i * inner + a] * products[i * inner + a] when inner == C»",
            "sum += «w[i * inner + a] * products[i * inner + a] when inner == PATCH»",
            "weight_sums[i] = (sum - «n->mean[i] * bias_sums[i] when inner == C») * n->inverse_sd[i]",
            "weight_sums[i] = (sum - «n->mean[i] * bias_sums[i] when inner == PATCH») * n->inverse_sd[i]",
            "weight_sums[i] = (sum - n->mean[i] * bias_sums[i]) * «n->inverse_sd[i] when inner == C»",
            "weight_sums[i] = (sum - n->mean[i] * bias_sums[i]) * «n->inverse_sd[i] when inner == PATCH»",
        ],
        "map_gradient_finish": [
            "through += «w[i * inner + b] * second[b * inner + a] when inner == C»",
            "through += «w[i * inner + b] * second[b * inner + a] when inner == PATCH»",
            "products[i * inner + a] = «n->scale[i] * products[i * inner + a] when inner == C»"
            " - «n->offset[i] * sums[a] when inner == C» - «n->factor[i] * through when inner == C»",
            "products[i * inner + a] = «n->scale[i] * products[i * inner + a] when inner == PATCH»"
            " - «n->offset[i] * sums[a] when inner == PATCH» - «n->factor[i] * through when inner == PATCH»",
        ],
        "forward_scores": [
            "worker->along[k] = «lanes_dot(derivative, worker->responses, M * T)»",
            "worker->raw_scores[k] = «worker->scores[k]» - «worker->head.bias[k]»",
        ],
        "learn_head": [
            "sum += «worker->scores[k] * worker->descriptors[k * DESCRIPTOR + i]»",
            "gradient[train->at.beta + i] ="
            " «lanes_sum(sum, chunk->present) * worker->head.gain» * (worker->shown[i] != 0)",
            "by_scale += «worker->scores[k] * worker->along[k]»",
            "by_gain += «worker->scores[k] * worker->raw_scores[k]»",
            "gradient[train->at.bias + k] = «lanes_sum(worker->scores[k], chunk->present)»",
            "worker->derivative[k * M * T + i] *= «worker->scores[k]»",
            "gradient[train->at.log_scale] = «lanes_sum(by_scale, chunk->present)»",
            "gradient[train->at.log_gain] = «lanes_sum(by_gain, chunk->present)»",
        ],
        "learn_pooling": [
            "gradient[train->at.bias + k] = «lanes_sum(worker->scores[k], chunk->present)»",
            "gradient[train->at.linear + k * D + d] ="
            " «lanes_sum(worker->scores[k] * worker->frames[d], chunk->present)»",
            "sum += «worker->scores[k] * parameters[train->at.linear + k * D + d]»",
            "chunk->gradient[d * T + t] = «sum * (real)(1.0 / T)»",
        ],
        "drop": [
            "x[i] *= «dropout_lanes(batch->seed, first, (uint32_t)i, (real)train->config.dropout)"
            " when x == chunk->bands_gradient»",
        ],
        "backward_filter_map": [
            "rows_map_gradient(T, out, half, worker->rows, half, «0.5», chunk->present,"
            " gradient + train->at.filter_map[k])",
            "chunk->filter_gradient[i] *= «leaky_slope(worker->rows[i], train->slope) * (real)0.5»",
        ],
        "backward_filter_taps": [
            "in[i] += «worker->rows[i]»",
        ],
        "backward_fuse_activation": [
            "chunk->gradient[i] *= «leaky_slope(chunk->half[i], train->slope)»",
        ],
        "backward_fuse": [
            "rows_map_gradient(T, chunk->gradient, D, worker->rows, FEATURES, «1», chunk->present,"
            " gradient + train->at.fuse)",
            "chunk->bands_gradient[i] *= «leaky_slope(worker->rows[i], train->slope)»",
        ],
        "learn_backward": [
            "offset += «(double)w[d * C + a] * pointwise->offset[d]»",
            "factor += «(double)w[d * C + a] * pointwise->factor[d] * w[d * C + b]»",
        ],
        "finish_gradients": [
            "gradient[j] += «train->chunks[i].partial[train->gradient + j]»",
            "along += «g[d] * worker->prototypes[p * D + d]»",
            "g[d] = («g[d]» - «along * worker->prototypes[p * D + d]») * «worker->prototype_inverse[p]»",
        ],
        "update_running": [
            "*mean = (real)(«(1 - NORM_MOMENTUM) * *mean» + «NORM_MOMENTUM * n->mean[c]»)",
            "*variance = (real)(«(1 - NORM_MOMENTUM) * *variance» + «NORM_MOMENTUM * n->variance[c] * unbiased»)",
            "const double unbiased = n->count > 1 ? «n->count / (n->count - 1)» : 1",
        ],
        "adamw": [
            "const double correct1 = 1 - «pow(config->beta1, (double)memory->steps)»",
            "const double correct2 = sqrt(1 - «pow(config->beta2, (double)memory->steps)»)",
            "const double m = «config->beta1 * (double)memory->first_moment[i]» + «(1 - (double)config->beta1) * g»",
            "const double v = «config->beta2 * (double)memory->second_moment[i]»"
            " + «(1 - (double)config->beta2) * g * g»",
            "const double decayed = «memory->parameters[i]» * («1» - «rate * config->weight_decay»)",
            "memory->parameters[i] = (real)(decayed - «rate / correct1 * m / (sqrt(v) / correct2 + config->epsilon)»)",
            "memory->parameters[i] = (real)(«decayed» - rate / correct1 * m"
            " / («sqrt(v) / correct2» + «config->epsilon»))",
        ],
    },
}

# They run after the gradients are known: steps show them, gradients do not.
OF_THE_STEP = {"update_running", "adamw"}

# In functions above, what belongs to the forward pass.
FORWARD_STATEMENTS = {
    "paths_of_half": [
        "const half_wide once = __builtin_convertvector(((const half_lanes *)(x + s * T + t))[half], half_wide)",
        "const half_wide twice = once * once",
        "sum[s] += twice * twice * sum[s - 1]",
        "sum[0] += twice * twice",
    ],
    "class_score": [
        "const lanes value = lanes_exp(e[s * T + t])",
        "sum += value",
        "m0 += value * c1[t]",
        "m1 += value * s1[t]",
        "m2 += value * c2[t]",
        "m3 += value * s2[t]",
        "inverse[s] = 1 / sum",
        "moment[s][0] = m0 * inverse[s]",
        "moment[s][1] = m1 * inverse[s]",
        "moment[s][2] = m2 * inverse[s]",
        "moment[s][3] = m3 * inverse[s]",
        "f[s] = lanes_log(lanes_widen(sum), T)",
        "const lanes length = lanes_sqrt(real_part * real_part + imaginary * imaginary + w->epsilon)",
        "f[CROSS + s] = r1 * r0 + i1 * i0",
        "f[CROSS + M - 1 + s] = i1 * r0 - r1 * i0",
        "f[PATH] = ordered_path(T, x, ahead, derivative)",
        "score += f[i] * w->beta[i]",
    ],
    "cross_entropy": [
        "top = lanes_select(scores[k] > top, scores[k], top)",
        "sum += lanes_exp(scores[k] - top)",
        "const lanes log_sum = lanes_log(lanes_widen(sum), 1) + top",
        "target[l] = chunk->targets[l * classes + k]",
        "loss += target * (log_sum - scores[k])",
    ],
    "forward_scores": [
        "worker->scores[k] = class_score(T, &worker->head, worker->head.bias[k], worker->responses,"
        " worker->exponentials, worker->ahead, derivative, worker->descriptors + k * DESCRIPTOR)",
    ],
    "learn_head": [
        "const lanes loss = cross_entropy(worker->scores, K, chunk, (real)train->examples)",
        "chunk->partial[train->loss] = lanes_sum(loss, chunk->present)",
    ],
    "learn_pooling": [
        "const lanes loss = cross_entropy(worker->scores, K, chunk, (real)train->examples)",
        "chunk->partial[train->loss] = lanes_sum(loss, chunk->present)",
    ],
}

# Functions without a term of their own: of the forward pass, or they only call others on the way back.
OTHER_FUNCTIONS = {
    "lanes.h": """
        lanes_of lanes_abs lanes_select lanes_widen wide_add wide_sum lanes_sum lanes_square lanes_total leaky
        lanes_exp lanes_sqrt lanes_log lanes_hash hash_word
    """,
    "head.h": "frames_forward responses paths_through ordered_path",
    "encoder.h": """
        conv_plane lag_products met_by_tap patch_moments whole_group tile_frames tiled depthwise_plane foresee
        depthwise_activation activation_moments band_weights pointwise_pair pointwise_and_bands row_moments
        rows_activate
    """,
    "step.h": """
        meet norm_set norm_forward norm_forward_of_map norm_backward fold chunk_begin forward_depthwise forward_bands
        forward_fuse forward_filter_taps forward_filter_map dropout_lanes band_features features_moments
        pooled_scores backward_features backward_bands
        backward_pointwise backward_depthwise prepare_head stage_ends learn_forward learn scores dropout
    """,
}


class Mutant(NamedTuple):
    """One term, and the statement with that term 1 % larger."""

    file: str
    function: str
    number: int  # among the terms of its function
    statement: str
    changed: str

    def __str__(self) -> str:
        return f"{self.function}-{self.number}"

    def source(self, engine: Path) -> str:
        """The file with this term changed."""
        text = (engine / self.file).read_text()
        body = functions(text)[self.function]
        return text.replace(body, pattern(self.statement).sub(lambda _: self.changed, body))


def unmarked(statement: str) -> str:
    return re.sub(r"«(.*?)(?: when .*?)?»", r"\1", statement)


def pattern(statement: str) -> re.Pattern[str]:
    """The whole statement, however it is broken into lines."""
    return re.compile(r"(?<![\w>.*])" + r"\s+".join(map(re.escape, statement.split())) + "(?=;)")


def mutants() -> list[Mutant]:
    """All terms, in the order of the list."""
    out = []
    for file, of_file in TERMS.items():
        for function, statements in of_file.items():
            number = 0
            for statement in statements:
                for mark in re.finditer(r"«(.*?)(?: when (.*?))?»", statement):
                    term, condition = mark.groups()
                    factor = f"({condition} ? 1.01 : 1.0)" if condition else "1.01"
                    changed = f"(({term}) * {factor})"
                    before, after = unmarked(statement[: mark.start()]), unmarked(statement[mark.end() :])
                    out.append(Mutant(file, function, number, unmarked(statement), before + changed + after))
                    number += 1
    return out


def functions(text: str) -> dict[str, str]:
    """The functions of a C file by name."""
    found = re.finditer(
        r"^(?:static|CM_INLINE)\s[^;={}]*?(\w+)\([^;{}]*\)\n\{\n.*?^\}$", text, re.MULTILINE | re.DOTALL
    )
    return {match[1]: match[0] for match in found}


def arithmetic(function: str) -> list[str]:
    """The statements of a C function that compute a number: not copies, zeros, counters or places in memory."""
    body = function[function.index("{") + 1 :]
    body = re.sub(r"/\*.*?\*/|^#.*?$", "", body, flags=re.DOTALL | re.MULTILINE)
    nested = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    body = re.sub(rf"\b(?:for|if|while|EACH_CHUNK|else if)\s*{nested}|\belse\b", ";", body)
    out = []
    for piece in re.split(r"[;{}]", body):
        statement = " ".join(piece.split())
        if statement.startswith("wide_add("):
            out.append(statement)
        match = re.match(r"([^=]*?)\s*([-+*/]?)=\s*(.*)", statement)
        if not match or re.match(r"(?:const )?(?:(?:int|uint32_t) |\w+ \*(?!=))", statement):
            continue
        _, compound, value = match.groups()
        value = re.sub(r"lanes_of\(0\)|\[[^\[\]]*\]|->", "", value)
        if compound or re.search(r"[-+*/]|\w\(", value):
            out.append(statement)
    return out

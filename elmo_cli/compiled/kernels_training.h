/* Kernels for training: the elementwise work of an LSTM's step forwards and backwards, and a softmax.
 * inference/packed_lstm.py and training/loss.py have the formulas. Gates are in the order i, j, f, o: (n, 4 D). Other tensors of
 * an LSTM are (n, D).
 */

/* Step forwards. gates: W_ih x + b, overwritten by the gates after sigmoid and tanh. */
struct training_cells {
    int64_t n, dim;
    void *gates;
    const void *hidden_gates;
    const float *cells;
    double clip;
    float *new_cells;
    void *out;
};

/* Step backwards. gates: as `training_cells` wrote them. cell_gradients: for the new cells, overwritten by the
 * gradients for the cells before the step. */
struct training_gradients {
    int64_t n, dim;
    const void *gates, *out_gradients;
    const float *cells;
    double clip;
    const float *new_cells;
    float *cell_gradients;
    void *gate_gradients;
};

/* Softmax. logits: (n, dim), without their bias, overwritten by probabilities.
 *
 * extra: one more logit per row. ignored: index of the logit that a row ignores, or -1.
 * maxima: the largest logit per row. sums: the sum of exp(logit - maximum) per row. */
struct softmax {
    int64_t n, dim;
    void *logits;
    const float *bias, *extra;
    const int64_t *ignored;
    float *maxima, *sums;
};

static inline float sigmoid(float x) { return 1 / (2 + exp_minus_1(-x)); }

static inline float tanh_of(float x)
{
    const float b = exp_minus_1(-2 * x);
    return -b / (2 + b);
}

#define TRAINING(NAME, VALUE, FROM, TO)                                                           \
    void training_cells_##NAME(const struct training_cells *s)                                    \
    {                                                                                             \
        const int64_t dim = s->dim;                                                               \
        const float clip = s->clip;                                                               \
        EACH_OF_SHARE(row, s->n) {                                                                \
            VALUE *restrict a = (VALUE *)s->gates + 4 * dim * row;                                \
            const VALUE *restrict b = (const VALUE *)s->hidden_gates + 4 * dim * row;             \
            const float *restrict before = s->cells + dim * row;                                  \
            float *restrict after = s->new_cells + dim * row;                                     \
            VALUE *restrict out = (VALUE *)s->out + dim * row;                                    \
            _Pragma("omp simd")                                                                   \
            for (int64_t i = 0; i < dim; i++) {                                                   \
                const int64_t j = i + dim, f = j + dim, o = f + dim;                              \
                const float input = sigmoid(FROM(a[i]) + FROM(b[i]));                             \
                const float memory = tanh_of(FROM(a[j]) + FROM(b[j]));                            \
                const float forget = sigmoid(FROM(a[f]) + FROM(b[f]));                            \
                const float output = sigmoid(FROM(a[o]) + FROM(b[o]));                            \
                float cell = input * memory + forget * before[i];                                 \
                cell = cell > clip ? clip : cell;                                                 \
                cell = cell < -clip ? -clip : cell;                                               \
                a[i] = TO(input);                                                                 \
                a[j] = TO(memory);                                                                \
                a[f] = TO(forget);                                                                \
                a[o] = TO(output);                                                                \
                after[i] = cell;                                                                  \
                out[i] = TO(output * tanh_of(cell));                                              \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
                                                                                                  \
    void training_gradients_##NAME(const struct training_gradients *s)                            \
    {                                                                                             \
        const int64_t dim = s->dim;                                                               \
        const float clip = s->clip;                                                               \
        EACH_OF_SHARE(row, s->n) {                                                                \
            const VALUE *restrict gates = (const VALUE *)s->gates + 4 * dim * row;                \
            const float *restrict before = s->cells + dim * row;                                  \
            const float *restrict after = s->new_cells + dim * row;                               \
            const VALUE *restrict d_out = (const VALUE *)s->out_gradients + dim * row;            \
            float *restrict d_cell = s->cell_gradients + dim * row;                               \
            VALUE *restrict d_gates = (VALUE *)s->gate_gradients + 4 * dim * row;                 \
            _Pragma("omp simd")                                                                   \
            for (int64_t i = 0; i < dim; i++) {                                                   \
                const int64_t j = i + dim, f = j + dim, o = f + dim;                              \
                const float input = FROM(gates[i]), memory = FROM(gates[j]);                      \
                const float forget = FROM(gates[f]), output = FROM(gates[o]);                     \
                const float cell = after[i], shown = tanh_of(cell), d = FROM(d_out[i]);           \
                float d_sum = d_cell[i] + d * output * (1 - shown * shown);                       \
                d_sum = cell < clip && cell > -clip ? d_sum : 0;                                  \
                d_gates[i] = TO(d_sum * memory * input * (1 - input));                            \
                d_gates[j] = TO(d_sum * input * (1 - memory * memory));                           \
                d_gates[f] = TO(d_sum * before[i] * forget * (1 - forget));                       \
                d_gates[o] = TO(d * shown * output * (1 - output));                               \
                d_cell[i] = d_sum * forget;                                                       \
            }                                                                                     \
        }                                                                                         \
    }

#define SOFTMAX(NAME, VALUE, FROM, TO)                                                            \
    void softmax_##NAME(const struct softmax *s)                                                  \
    {                                                                                             \
        EACH_OF_SHARE(row, s->n) {                                                                \
            VALUE *restrict logits = (VALUE *)s->logits + s->dim * row;                           \
            const float *restrict bias = s->bias;                                                 \
            const int64_t ignored = s->ignored[row];                                              \
            float largest = s->extra[row];                                                        \
            if (ignored >= 0)                                                                     \
                logits[ignored] = TO(-1e30f);                                                     \
            _Pragma("omp simd reduction(max : largest)")                                          \
            for (int64_t i = 0; i < s->dim; i++) {                                                \
                const float logit = FROM(logits[i]) + bias[i];                                    \
                largest = logit > largest ? logit : largest;                                      \
            }                                                                                     \
            float sum = 0;                                                                        \
            _Pragma("omp simd reduction(+ : sum)")                                                \
            for (int64_t i = 0; i < s->dim; i++)                                                  \
                sum += exponential(FROM(logits[i]) + bias[i] - largest);                          \
            sum += exponential(s->extra[row] - largest);                                          \
            const float scale = 1 / sum;                                                          \
            _Pragma("omp simd")                                                                   \
            for (int64_t i = 0; i < s->dim; i++)                                                  \
                logits[i] = TO(scale * exponential(FROM(logits[i]) + bias[i] - largest));         \
            if (ignored >= 0)                                                                     \
                logits[ignored] = TO(0);                                                          \
            s->maxima[row] = largest;                                                             \
            s->sums[row] = sum;                                                                   \
        }                                                                                         \
    }

TRAINING(float32, float, identity, identity)
TRAINING(bfloat16, uint16_t, from_bfloat16, to_bfloat16)

SOFTMAX(float32, float, identity, identity)
SOFTMAX(bfloat16, uint16_t, from_bfloat16, to_bfloat16)

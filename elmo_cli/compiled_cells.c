/* The elementwise part of an LSTM step in one pass over the gates: cells.py says what is computed.
 *
 * Rows are shared out among the threads of OpenMP, whose library is the one that torch has loaded.
 * The loops are written so that a compiler makes vectors of them.
 */

#include <stdint.h>

/* 1 / (1 + exp(-x)), with an absolute error of 1e-7. exp(-x) is 2^z; z is split into a whole number
 * and a fraction of at most 1/2, whose power is a polynomial (Taylor's, to the sixth power). */
static inline float sigmoid(float x)
{
    union { float value; uint32_t bits; } whole, power;
    float z = x * -1.44269504f;
    z = z > 126 ? 126 : z;
    z = z < -126 ? -126 : z;
    whole.value = z + 12582912.0f; /* 1.5 * 2^23: the last bits are the nearest whole number */
    float fraction = z - (whole.value - 12582912.0f);
    float sum = 1.54035304e-4f;
    sum = sum * fraction + 1.33335581e-3f;
    sum = sum * fraction + 9.61812911e-3f;
    sum = sum * fraction + 5.55041087e-2f;
    sum = sum * fraction + 2.40226507e-1f;
    sum = sum * fraction + 6.93147181e-1f;
    power.value = sum * fraction + 1;
    power.bits += whole.bits << 23; /* into the exponent */
    return 1 / (1 + power.value);
}

static inline float same(float value) { return value; }

static inline float from_bfloat16(uint16_t half)
{
    union { uint32_t bits; float value; } wide = {(uint32_t)half << 16};
    return wide.value;
}

static inline uint16_t to_bfloat16(float value) /* to the nearest, ties to even */
{
    union { float value; uint32_t bits; } wide = {value};
    return (wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16;
}

/* inputs: the inputs' part of the gates, (V, 4 D), of which node i has row input_rows[i], or
 * row i where input_rows is NULL. hidden: the hidden states' part, (m, 4 D), to be multiplied
 * with hidden_scales, (m), if that is not NULL; cells: twice the cells before, (k, D); both with
 * rows like those of inputs. bound: twice the clip. new_cells, half: (n, D). */
#define NEXT_CELLS(NAME, GATE, FROM_GATE, HALF, TO_HALF)                                  \
    void NAME(int64_t n, int64_t dim, const GATE *inputs, const int64_t *input_rows,      \
              const GATE *hidden, const float *hidden_scales, const int64_t *hidden_rows, \
              const float *cells, const int64_t *cell_rows, float bound,                  \
              float *new_cells, HALF *half)                                               \
    {                                                                                     \
        _Pragma("omp parallel for schedule(static) if (n > 1)")                           \
        for (int64_t row = 0; row < n; row++) {                                           \
            const GATE *a = inputs + 4 * dim * (input_rows ? input_rows[row] : row);      \
            const int64_t shared = hidden_rows ? hidden_rows[row] : row;                  \
            const GATE *b = hidden + 4 * dim * shared;                                    \
            const float *before = cells + dim * (cell_rows ? cell_rows[row] : row);       \
            float *after = new_cells + dim * row;                                         \
            HALF *out = half + dim * row;                                                 \
            const float scale = hidden_scales ? hidden_scales[shared] : 1;                \
            _Pragma("omp simd")                                                           \
            for (int64_t i = 0; i < dim; i++) {                                           \
                const int64_t j = i + dim, f = j + dim, o = f + dim;                      \
                float input = sigmoid(FROM_GATE(a[i]) + scale * FROM_GATE(b[i]));         \
                float memory = sigmoid(FROM_GATE(a[j]) + scale * FROM_GATE(b[j]));        \
                float forget = sigmoid(FROM_GATE(a[f]) + scale * FROM_GATE(b[f]));        \
                float output = sigmoid(FROM_GATE(a[o]) + scale * FROM_GATE(b[o]));        \
                float cell = forget * before[i] + input * (4 * memory - 2);               \
                cell = cell > bound ? bound : cell;                                       \
                cell = cell < -bound ? -bound : cell;                                     \
                after[i] = cell;                                                          \
                out[i] = TO_HALF((sigmoid(cell) - 0.5f) * output);                        \
            }                                                                             \
        }                                                                                 \
    }

NEXT_CELLS(float32_to_float32, float, same, float, same)
NEXT_CELLS(float32_to_bfloat16, float, same, uint16_t, to_bfloat16)
NEXT_CELLS(bfloat16_to_bfloat16, uint16_t, from_bfloat16, uint16_t, to_bfloat16)

/* The elementwise part of an LSTM step, of which fast_lstm.py says what is computed; and, with AVX-512,
 * products with constant weights (kernels_product.h) and whole steps.
 *
 * Work is shared out among the threads of OpenMP, whose library is the one that torch has loaded.
 * The loops over values are written so that a compiler makes vectors of them.
 */

#include <stdint.h>

/* exp(x) - 1, with a relative error of 2e-7, for small x too. exp(x) is 2^z; z is split into a whole
 * number and a fraction of at most 1/2, whose power is a polynomial (Taylor's, to the seventh). */
static inline float exp_minus_1(float x)
{
    union { float value; uint32_t bits; } whole, scale;
    float z = x * 1.44269504f;
    z = z > 60 ? 60 : z; /* beyond, sigmoids and tanh are 0 or 1; products of two are finite */
    z = z < -60 ? -60 : z;
    whole.value = z + 12582912.0f; /* 1.5 * 2^23: the last bits are the nearest whole number */
    float fraction = z - (whole.value - 12582912.0f);
    float sum = 1.52527338e-5f;
    sum = sum * fraction + 1.54035304e-4f;
    sum = sum * fraction + 1.33335581e-3f;
    sum = sum * fraction + 9.61812911e-3f;
    sum = sum * fraction + 5.55041087e-2f;
    sum = sum * fraction + 2.40226507e-1f;
    sum = sum * fraction + 6.93147181e-1f;
    scale.bits = (whole.bits + 127) << 23; /* into the exponent */
    return scale.value * (sum * fraction) + (scale.value - 1);
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

/* sigmoid(x) * tanh(y), by one division. tanh(y) is not had by a sigmoid: what is small would lose
 * its last digits, step after step. */
static inline float sigmoid_times_tanh(float x, float y)
{
    const float a = exp_minus_1(-x), b = exp_minus_1(-2 * y);
    return -b / ((2 + a) * (2 + b));
}

/* The cell after a step, from the gates and the cell before, and what is projected. */
static inline float next_cell(float i, float j, float f, float o, float before, float clip,
                              float *out)
{
    float cell = before / (2 + exp_minus_1(-f)) + sigmoid_times_tanh(i, j);
    cell = cell > clip ? clip : cell;
    cell = cell < -clip ? -clip : cell;
    *out = sigmoid_times_tanh(o, cell);
    return cell;
}

/* For n nodes. input_gates: (V, 4 D), of which node i has row input_rows[i], or row i where that is
 * NULL; cells: those before, (k, D), with rows like these; hidden_gates: (n, 4 D).
 * new_cells, out: (n, D). */
#define NEXT_CELLS(NAME, GATE, FROM_GATE, OUT, TO_OUT)                                        \
    void NAME(int64_t n, int64_t dim, const GATE *input_gates, const int64_t *input_rows,     \
              const GATE *hidden_gates, const float *cells, const int64_t *cell_rows,         \
              float clip, float *new_cells, OUT *out)                                         \
    {                                                                                         \
        _Pragma("omp parallel for schedule(static) if (n > 1)")                               \
        for (int64_t node = 0; node < n; node++) {                                            \
            const GATE *a = input_gates + 4 * dim * (input_rows ? input_rows[node] : node);   \
            const GATE *b = hidden_gates + 4 * dim * node;                                    \
            const float *before = cells + dim * (cell_rows ? cell_rows[node] : node);         \
            float *after = new_cells + dim * node;                                            \
            OUT *node_out = out + dim * node;                                                 \
            _Pragma("omp simd")                                                               \
            for (int64_t i = 0; i < dim; i++) {                                               \
                const int64_t j = i + dim, f = j + dim, o = f + dim;                          \
                float value;                                                                  \
                after[i] = next_cell(FROM_GATE(a[i]) + FROM_GATE(b[i]),                       \
                                     FROM_GATE(a[j]) + FROM_GATE(b[j]),                       \
                                     FROM_GATE(a[f]) + FROM_GATE(b[f]),                       \
                                     FROM_GATE(a[o]) + FROM_GATE(b[o]), before[i], clip,      \
                                     &value);                                                 \
                node_out[i] = TO_OUT(value);                                                  \
            }                                                                                 \
        }                                                                                     \
    }

NEXT_CELLS(float32_to_float32, float, same, float, same)
NEXT_CELLS(float32_to_bfloat16, float, same, uint16_t, to_bfloat16)
NEXT_CELLS(bfloat16_to_bfloat16, uint16_t, from_bfloat16, uint16_t, to_bfloat16)

#ifdef __AVX512F__
#include <immintrin.h>
#include <omp.h>

enum {
    LANES = 16,
    BLOCK = 4 * LANES, /* outputs that are computed together, and whose weights lie together */
    ROWS = 6,          /* rows that are: 24 registers of sums, 4 of weights, 1 of an input */
    SLICE = 256,       /* rows whose sums stay in a core's cache */
    DEPTH = 256,       /* units summed by themselves: the fewer, the less is lost */
    AHEAD = 2048,      /* units from the weights that are asked for ahead to those in use */
    EVERY = 8,         /* units of an input row after which one more place is asked for */
};

#define EACH(I, N) _Pragma("GCC unroll 6") for (int I = 0; I < N; I++)

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Of n rows, SLICE or, where there are more threads than blocks, so many that all have work. */
static inline int64_t rows_at_once(int64_t n, int64_t n_blocks)
{
    const int64_t n_slices = (omp_get_max_threads() + n_blocks - 1) / n_blocks;
    const int64_t n_rows = (n + n_slices - 1) / n_slices;
    return least(SLICE, (n_rows / ROWS + 1) * ROWS);
}

typedef __m512 lanes; /* float32 */

static inline lanes load_float32(const float *values) { return _mm512_loadu_ps(values); }
static inline void store_float32(float *out, lanes values) { _mm512_storeu_ps(out, values); }
static inline lanes add_product_float32(lanes sums, lanes a, lanes b)
{
    return _mm512_fmadd_ps(a, b, sums);
}

#define NAMED(NAME) NAME##_float32
#define VALUE float
#include "kernels_product.h"

#if __GNUC__ >= 10 /* the first with these instructions; not every processor has them */
#pragma GCC push_options
#pragma GCC target("avx512bf16")

static inline lanes load_bfloat16(const uint16_t *values)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)values));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline void store_bfloat16(uint16_t *out, lanes values)
{
    _mm256_storeu_si256((__m256i *)out, (__m256i)_mm512_cvtneps_pbh(values));
}
static inline lanes add_product_bfloat16(lanes sums, lanes a, lanes b)
{
    return _mm512_dpbf16_ps(sums, (__m512bh)a, (__m512bh)b);
}

#define NAMED(NAME) NAME##_bfloat16
#define VALUE uint16_t
#include "kernels_product.h"

#pragma GCC pop_options
#endif

/* A step of n nodes: the product of the hidden states, (n, hidden_dim), and what NEXT_CELLS does,
 * while the sums are in the cache of a core. Gates come in blocks of LANES of each:
 * (D / LANES, 4, LANES). All else is as in NEXT_CELLS. */
void step(int64_t n, int64_t dim, int64_t hidden_dim, const float *input_gates,
          const int64_t *input_rows, const float *hidden, const float *weights,
          const float *cells, const int64_t *cell_rows, float clip, float *new_cells, float *out)
{
    #pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < dim; first += LANES)
        for (int64_t row = 0; row < n; row += ROWS) {
            const int64_t n_rows = least(ROWS, n - row);
            const float *gates[ROWS], *before[ROWS];
            const void *soon[7 * ROWS];
            int64_t n_soon = 0;
            for (int64_t r = 0, node = row; r < n_rows; r++, node++) {
                gates[r] = input_gates + 4 * (dim * (input_rows ? input_rows[node] : node) + first);
                before[r] = cells + dim * (cell_rows ? cell_rows[node] : node) + first;
                for (int gate = 0; gate < 4; gate++)
                    soon[n_soon++] = gates[r] + gate * LANES;
                soon[n_soon++] = before[r];
                soon[n_soon++] = new_cells + dim * node + first;
                soon[n_soon++] = out + dim * node + first;
            }
            float sums[ROWS * BLOCK] = {0};
            for (int64_t k = 0; k < hidden_dim; k += DEPTH)
                multiply_rows_float32[n_rows](least(DEPTH, hidden_dim - k),
                                              hidden + row * hidden_dim + k, hidden_dim,
                                              weights + 4 * first * hidden_dim + k * BLOCK, sums,
                                              soon, k + DEPTH < hidden_dim ? 0 : n_soon);
            for (int64_t r = 0; r < n_rows; r++) {
                const float *a = gates[r], *b = sums + BLOCK * r;
                const int64_t place = dim * (row + r) + first;
                #pragma omp simd
                for (int i = 0; i < LANES; i++) {
                    const int j = i + LANES, f = j + LANES, o = f + LANES;
                    new_cells[place + i] = next_cell(a[i] + b[i], a[j] + b[j], a[f] + b[f],
                                                     a[o] + b[o], before[r][i], clip,
                                                     &out[place + i]);
                }
            }
        }
}

#endif

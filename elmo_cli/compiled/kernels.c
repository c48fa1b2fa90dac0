/* Kernels for inference and training. This file includes all others, so that it is the only one to compile:
 *
 *   kernels.c                  cells of an LSTM's step, highways, tanh
 *   kernels_product.h          products with constant weights, once for each data type
 *   kernels_integers.h         the same products of whole numbers, int8 and int16, by VNNI
 *   kernels_tiles.h            the same products in bfloat16 by AMX
 *   kernels_step_tiles.h       a whole step by AMX
 *   kernels_step.h             a whole step, once for each data type
 *   kernels_steps.h            consecutive steps with their projections, in one call
 *   kernels_probabilities.h    softmax over a vocabulary, without storing its logits
 *   kernels_words.h            the products of this softmax, once for each data type
 *   kernels_training.h         steps of an LSTM forwards and backwards, softmax over sampled words
 *
 * inference/fast_lstm.py and model/token_encoder.py have the formulas.
 *
 * The bits of a result depend on its own row alone, not on other rows or on the number of threads.
 *
 * Each function that Python calls takes one structure of numbers and addresses, 8 bytes each, which is called
 * `s`. structures.py declares the same structures. A test compares the names, the order and the types of their
 * fields, and finds the functions by their argument `const struct NAME *s`.
 *
 * Each thread of OpenMP runs a function and does its share of the work: see `run`, which uses the library that
 * torch has loaded. Vectors are types of GCC and Clang, with 16 values for AVX-512, 8 for AVX2 and 4 for NEON.
 * Compilers can vectorize the loops over single values.
 */

#include <stdint.h>
#include <string.h>

extern void GOMP_parallel(void (*work)(void *), void *arguments, unsigned n_threads, unsigned flags);
extern void GOMP_barrier(void);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);

/* Call a function of this file in each thread. */
void run(void (*work)(void *), void *arguments) { GOMP_parallel(work, arguments, 0, 0); }

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Limit a value to [-clip, clip]. A value that is not a number remains. */
static inline float limit(float value, float clip)
{
    value = value > clip ? clip : value;
    return value < -clip ? -clip : value;
}

/* Return the start of this thread's share of n pieces of work. With `next` = 1, return its end. */
static inline int64_t share(int64_t n, int next)
{
    return n * (omp_get_thread_num() + next) / omp_get_num_threads();
}

#define EACH_OF_SHARE(I, N) for (int64_t I = share(N, 0), end_##I = share(N, 1); I < end_##I; I++)

/* Compute exp(x) = 2^z. z is split into a whole number and a fraction of at most 1/2. The power of the whole
 * number is the scale. The result is the power of the fraction minus 1, by Taylor's polynomial of degree 7. */
static inline float fraction_of_exp(float x, float *scale)
{
    union { float value; uint32_t bits; } whole, power;
    float z = x * 1.44269504f;
    z = z > 60 ? 60 : z; /* Beyond 60, sigmoids are 0 or 1. Within, products of two powers are finite. */
    z = z < -60 ? -60 : z;
    whole.value = z + 12582912.0f; /* 1.5 * 2^23 moves the nearest whole number to the last bits. */
    float fraction = z - (whole.value - 12582912.0f);
    float sum = 1.52527338e-5f;
    sum = sum * fraction + 1.54035304e-4f;
    sum = sum * fraction + 1.33335581e-3f;
    sum = sum * fraction + 9.61812911e-3f;
    sum = sum * fraction + 5.55041087e-2f;
    sum = sum * fraction + 2.40226507e-1f;
    sum = sum * fraction + 6.93147181e-1f;
    power.bits = (whole.bits + 127) << 23; /* The whole number is the exponent. */
    *scale = power.value;
    return sum * fraction;
}

/* Compute exp(x) - 1 with a relative error of 2e-7, for small x too. */
static inline float exp_minus_1(float x)
{
    float scale;
    const float fraction = fraction_of_exp(x, &scale);
    return scale * fraction + (scale - 1);
}

static inline float exponential(float x)
{
    float scale;
    const float fraction = fraction_of_exp(x, &scale);
    return scale * fraction + scale;
}

static inline float identity(float value) { return value; }

static inline float from_bfloat16(uint16_t half)
{
    union { uint32_t bits; float value; } wide = {(uint32_t)half << 16};
    return wide.value;
}

/* Round to the nearest value, ties to even. */
static inline uint16_t to_bfloat16(float value)
{
    union { float value; uint32_t bits; } wide = {value};
    return (wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16;
}

/* Compute sigmoid(x) * tanh(y) with one division. tanh is not computed by a sigmoid, because small values would
 * lose their last digits in each step. */
static inline float sigmoid_times_tanh(float x, float y)
{
    const float a = exp_minus_1(-x), b = exp_minus_1(-2 * y);
    return -b / ((2 + a) * (2 + b));
}

/* Return the cell after a step, from the gates and the cell before. `out` is the input of the projection. */
static inline float next_cell(float i, float j, float f, float o, float before, float clip,
                              float *out)
{
    const float cell = limit(before / (2 + exp_minus_1(-f)) + sigmoid_times_tanh(i, j), clip);
    *out = sigmoid_times_tanh(o, cell);
    return cell;
}

/* Elementwise part of a step of n nodes.
 *
 * input_gates: (V, 4 D). Node i reads row input_rows[i], or row i where input_rows is NULL.
 * hidden_gates: (n, 4 D).
 * cells: before the step, (k, D). Node i reads row cell_rows[i], or row i where cell_rows is NULL.
 * new_cells, out: (n, D). */
struct cells {
    int64_t n, dim;
    const void *input_gates;
    const int64_t *input_rows;
    const void *hidden_gates;
    const float *cells;
    const int64_t *cell_rows;
    double clip;
    float *new_cells;
    void *out;
};

#define NEXT_CELLS(NAME, VALUE, FROM, TO)                                                         \
    void cells_##NAME(const struct cells *s)                                                      \
    {                                                                                             \
        const int64_t dim = s->dim;                                                               \
        const float clip = s->clip;                                                               \
        EACH_OF_SHARE(node, s->n) {                                                               \
            const int64_t input_row = s->input_rows ? s->input_rows[node] : node;                 \
            const int64_t cell_row = s->cell_rows ? s->cell_rows[node] : node;                    \
            const VALUE *restrict a = (const VALUE *)s->input_gates + 4 * dim * input_row;        \
            const VALUE *restrict b = (const VALUE *)s->hidden_gates + 4 * dim * node;            \
            const float *restrict before = s->cells + dim * cell_row;                             \
            float *restrict after = s->new_cells + dim * node;                                    \
            VALUE *restrict out = (VALUE *)s->out + dim * node;                                   \
            _Pragma("omp simd")                                                                   \
            for (int64_t i = 0; i < dim; i++) {                                                   \
                const int64_t j = i + dim, f = j + dim, o = f + dim;                              \
                float value;                                                                      \
                after[i] = next_cell(FROM(a[i]) + FROM(b[i]),                                     \
                                     FROM(a[j]) + FROM(b[j]),                                     \
                                     FROM(a[f]) + FROM(b[f]),                                     \
                                     FROM(a[o]) + FROM(b[o]), before[i], clip, &value);           \
                out[i] = TO(value);                                                               \
            }                                                                                     \
        }                                                                                         \
    }

NEXT_CELLS(float32, float, identity, identity)
NEXT_CELLS(bfloat16, uint16_t, from_bfloat16, to_bfloat16)

/* Elementwise part of a highway: out = g relu(transform) + (1 - g) inputs, where g is the sigmoid of `carry`.
 * All are (n, dim). */
struct highway {
    int64_t n, dim;
    const float *inputs, *carry, *transform;
    float *out;
};

void highway(const struct highway *s)
{
    EACH_OF_SHARE(row, s->n) {
        const float *restrict x = s->inputs + row * s->dim, *restrict carry = s->carry + row * s->dim;
        const float *restrict transform = s->transform + row * s->dim;
        float *restrict out = s->out + row * s->dim;
        #pragma omp simd
        for (int64_t i = 0; i < s->dim; i++) {
            const float gate = 1 / (2 + exp_minus_1(-carry[i]));
            out[i] = x[i] + gate * ((transform[i] > 0 ? transform[i] : 0) - x[i]);
        }
    }
}

/* Hyperbolic tangent of n rows, in place. */
struct values {
    int64_t n, dim;
    float *values;
};

void tanh_float32(const struct values *s)
{
    EACH_OF_SHARE(row, s->n) {
        float *values = s->values + row * s->dim;
        #pragma omp simd
        for (int64_t i = 0; i < s->dim; i++) {
            const float b = exp_minus_1(-2 * values[i]);
            values[i] = -b / (2 + b);
        }
    }
}

/* Products; see kernels_product.h. */

#ifdef __AVX512F__
#include <immintrin.h>
enum { LANES = 16, WIDTH = 4 }; /* 32 registers: 24 for sums, 4 for weights, 1 for an input */
#define IN_REGISTER "+v"
#elif defined(__aarch64__)
enum { LANES = 4, WIDTH = 4 }; /* 32 registers, as above */
#define IN_REGISTER "+w"
#else
enum { LANES = 8, WIDTH = 2 }; /* 16 registers: 12 for sums, 2 for weights, 1 for an input */
#define IN_REGISTER "+v"
#endif

enum {
    PANEL = WIDTH * LANES, /* outputs that are computed together, with their weights next to each other */
    ROWS = 6,              /* rows that are computed together */
    SLICE = 256,           /* rows whose sums fit into the cache of a core */
    DEPTH = 256,           /* units per partial sum: short sums have smaller rounding errors */
    AHEAD = 2048,          /* units between the weights in use and the weights that are prefetched */
    LINE = 16,             /* floats per cache line */
    BLOCK = LINE,          /* cells of a step that are computed together */
    PANELS = 4 * BLOCK / PANEL, /* panels for the gates of a block */
    TILE = 16,             /* units per tile of bfloat16: rows are multiples; see kernels_tiles.h */
};

const int64_t block = BLOCK, panel = PANEL, tile = TILE;

#define EACH(I, N) _Pragma("GCC unroll 6") for (int I = 0; I < N; I++)

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Distances of values in memory. The values of a row are in blocks. If `block` is the size of a block, they follow one
 * another. */
struct strides {
    int64_t row, block;
};

/* What turns sums of whole numbers into values, or NULL for other types; see kernels_integers.h.
 *
 * offsets: start of the sums, (outputs,). outputs: scale of each output. rows: scale of each row. */
struct scales {
    const int32_t *offsets;
    const float *outputs, *rows;
};

/* Product of n rows: out = inputs W^T + bias, at most `clip` in size.
 *
 * A unit is 4 bytes: one value of float32, two of bfloat16 or int16, four of int8. So `float *` is the address of
 * units here.
 *
 * inputs: (n, n_units). out: n rows of out_dim values, in blocks of 4 BLOCK, at `strides`.
 * weights: panels, (outputs / PANEL, n_units, PANEL), with zeros to fill the last panel.
 * bias: out_dim values with the same zeros, or NULL. */
struct product {
    int64_t n, n_units, out_dim;
    const float *inputs, *weights;
    const void *bias;
    double clip;
    void *out;
    struct strides strides;
    struct scales scales;
};

/* Rows of the inputs of a product: row i is row indices[i] of the values, (k, dim), or row i where indices is NULL.
 *
 * units: (n, n_units), written. scales: (n,), written for whole numbers. */
struct rows {
    int64_t n, dim, n_units;
    const float *values;
    const int64_t *indices;
    float *units, *scales;
};

/* Product of rows that are rounded first: product.inputs are rows.units, and product.scales.rows are rows.scales. */
struct rounded_product {
    struct rows rows;
    struct product product;
};

/* Return the index in `out` of a row's output. */
static inline int64_t output_index(const struct product *s, int64_t row, int64_t output)
{
    return s->strides.row * row + s->strides.block * (output / (4 * BLOCK)) + output % (4 * BLOCK);
}

/* Return the number of rows per piece of work: SLICE, or fewer where there are more threads than panels. */
static inline int64_t rows_at_once(int64_t n, int64_t n_panels)
{
    const int64_t n_slices = (omp_get_num_threads() + n_panels - 1) / n_panels;
    const int64_t n_rows = (n + n_slices - 1) / n_slices;
    return least(SLICE, (n_rows / ROWS + 1) * ROWS);
}

/* Call `work` for each panel of the outputs and each slice of n rows, in this thread's share. */
static inline void each_panel(
    const struct product *s,
    void (*work)(const struct product *s, int64_t first, int64_t n, int64_t output))
{
    const int64_t n_panels = (s->out_dim + PANEL - 1) / PANEL;
    const int64_t slice = rows_at_once(s->n, n_panels), n_slices = (s->n + slice - 1) / slice;
    EACH_OF_SHARE(piece, n_panels * n_slices) {
        const int64_t first = piece % n_slices * slice;
        work(s, first, least(slice, s->n - first), piece / n_slices * PANEL);
    }
}

/* Return the number of weights to prefetch per unit of up to ROWS rows, so that n rows prefetch a panel. */
static inline int64_t next_share(int64_t n)
{
    const int64_t n_parts = (n + ROWS - 1) / ROWS;
    return (PANEL + n_parts - 1) / n_parts;
}

static inline lanes load_float32(const float *values) { return *(const lanes *)values; }
static inline void store_float32(float *out, lanes values) { *(lanes *)out = values; }
static inline lanes add_product_float32(lanes sums, lanes a, lanes b) { return a * b + sums; }
static inline void start_float32(const struct scales *scales, const float *bias, int64_t output, float *sums)
{
    *(lanes *)sums = bias ? load_float32(bias + output) : (lanes){0};
}
static inline void add_sums_float32(float *sums, lanes partial_sums) { *(lanes *)sums += partial_sums; }
static inline void finish_float32(const struct scales *scales, const void *bias, int64_t row, int64_t output,
                                  float *sums)
{
}

#define NAMED(NAME) NAME##_float32
#define TARGET
#define UNIT float
#define VECTOR lanes
#define VALUE float
#define STORE store_float32
#include "kernels_product.h"

void product_float32(const struct product *s) { each_panel(s, product_panel_float32); }

#ifdef __AVX512F__
#define NAMED(NAME) NAME##_bfloat16
#define TARGET __attribute__((target("avx512bf16"))) /* Not every processor has it. */
#define UNIT float
#define VECTOR lanes
#define VALUE uint16_t
#define STORE store_bfloat16

static inline TARGET lanes load_bfloat16(const uint16_t *values)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)values));
    return (lanes)_mm512_slli_epi32(wide, 16);
}
static inline TARGET void store_bfloat16(uint16_t *out, lanes values)
{
    _mm256_storeu_si256((__m256i *)out, (__m256i)_mm512_cvtneps_pbh((__m512)values));
}
static inline TARGET lanes add_product_bfloat16(lanes sums, lanes a, lanes b)
{
    return (lanes)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
}
static inline TARGET void start_bfloat16(const struct scales *scales, const uint16_t *bias, int64_t output,
                                         float *sums)
{
    *(lanes *)sums = bias ? load_bfloat16(bias + output) : (lanes){0};
}
static inline TARGET void add_sums_bfloat16(float *sums, lanes partial_sums) { *(lanes *)sums += partial_sums; }
static inline TARGET void finish_bfloat16(const struct scales *scales, const void *bias, int64_t row, int64_t output,
                                          float *sums)
{
}
#include "kernels_product.h"

void product_bfloat16(const struct product *s) { each_panel(s, product_panel_bfloat16); }

#if __has_include(<amxbf16intrin.h>) || __has_include(<amxintrin.h>) /* GCC 11, Clang */
#include "kernels_tiles.h"
#endif
#endif

#ifdef __AVX512F__
#define VNNI "" /* AVX-512 VNNI */
#elif defined(__AVX2__) && __has_include(<avxvnniintrin.h>) /* GCC 11, Clang 12 */
#define VNNI "%{vex%} " /* AVX-VNNI */
#endif
#ifdef __AVX2__ /* Processors with AVX-512 have it too. */
#include "kernels_integers.h"
#endif

/* Whole step of n nodes: the product of the hidden states, (n, hidden_dim), and the work of NEXT_CELLS, while
 * the sums are in the cache of a core; see kernels_step.h. kernels_step_tiles.h has the step in bfloat16.
 *
 * hidden: (n, n_units).
 *
 * Gates are in blocks of BLOCK values of each gate, (4, BLOCK), with zeros to fill the last block. Cells are in
 * blocks of BLOCK. The other fields are as in `struct cells` and `struct product`. */
struct step {
    int64_t n, dim, n_units;
    const float *input_gates;
    const int64_t *input_rows;
    const float *hidden, *weights, *cells;
    const int64_t *cell_rows;
    double clip;
    float *new_cells, *out;
    struct strides gate_strides, cell_strides, new_strides; /* They belong to input_gates, cells and new_cells. */
    struct scales scales;
};

/* Return the index of the input gates of a node, or its cells before the step, from its cell `first`. */
static inline int64_t step_gates(const struct step *s, int64_t node, int64_t first)
{
    const int64_t row = s->input_rows ? s->input_rows[node] : node;
    return s->gate_strides.row * row + s->gate_strides.block * (first / BLOCK);
}
static inline const float *step_cells(const struct step *s, int64_t node, int64_t first)
{
    const int64_t row = s->cell_rows ? s->cell_rows[node] : node;
    return s->cells + s->cell_strides.row * row + s->cell_strides.block * (first / BLOCK);
}
static inline float *step_new_cells(const struct step *s, int64_t node, int64_t first)
{
    return s->new_cells + s->new_strides.row * node + s->new_strides.block * (first / BLOCK);
}

/* Compute up to BLOCK cells of a node from `first`. hidden_gates: (4, BLOCK). */
static inline __attribute__((always_inline)) void next_cells(
    const struct step *s, int64_t node, int64_t first, int count, const float *hidden_gates)
{
    const float *a = s->input_gates + step_gates(s, node, first), *b = hidden_gates;
    const float *before = step_cells(s, node, first), clip = s->clip;
    float *after = step_new_cells(s, node, first), *out = s->out + s->dim * node + first;
    #pragma omp simd
    for (int i = 0; i < count; i++) {
        const int j = i + BLOCK, f = j + BLOCK, o = f + BLOCK;
        after[i] = next_cell(a[i] + b[i], a[j] + b[j], a[f] + b[f], a[o] + b[o], before[i], clip,
                             &out[i]);
    }
}

#define NAMED(NAME) NAME##_float32
#define UNIT float
#include "kernels_step.h"

#ifdef VNNI
#define NAMED(NAME) NAME##_int8
#define UNIT int32_t
#include "kernels_step.h"
#endif

#ifdef __AVX2__
#define NAMED(NAME) NAME##_int16
#define UNIT int32_t
#include "kernels_step.h"
#endif

#ifdef TILES
#include "kernels_step_tiles.h"
#endif
#include "kernels_steps.h"
#include "kernels_probabilities.h"
#include "kernels_training.h"

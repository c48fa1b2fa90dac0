/* Products with constant weights, and the elementwise part of an LSTM step: cells.py says what is
 * computed there.
 *
 * Work is shared out among the threads of OpenMP, whose library is the one that torch has loaded.
 * The loops over values are written so that a compiler makes vectors of them.
 */

#include <stdint.h>
#include <string.h>

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

/* Twice the cell after a step, from the gates and twice the cell before; half of what is projected.
 * bound: twice the clip. */
static inline float next_cell(float input, float memory, float forget, float output, float before,
                              float bound, float *half)
{
    float cell = sigmoid(forget) * before + sigmoid(input) * (4 * sigmoid(memory) - 2);
    cell = cell > bound ? bound : cell;
    cell = cell < -bound ? -bound : cell;
    *half = (sigmoid(cell) - 0.5f) * sigmoid(output);
    return cell;
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
                float projected;                                                          \
                after[i] = next_cell(FROM_GATE(a[i]) + scale * FROM_GATE(b[i]),           \
                                     FROM_GATE(a[j]) + scale * FROM_GATE(b[j]),           \
                                     FROM_GATE(a[f]) + scale * FROM_GATE(b[f]),           \
                                     FROM_GATE(a[o]) + scale * FROM_GATE(b[o]),           \
                                     before[i], bound, &projected);                       \
                out[i] = TO_HALF(projected);                                              \
            }                                                                             \
        }                                                                                 \
    }

NEXT_CELLS(float32_to_float32, float, same, float, same)
NEXT_CELLS(float32_to_bfloat16, float, same, uint16_t, to_bfloat16)
NEXT_CELLS(bfloat16_to_bfloat16, uint16_t, from_bfloat16, uint16_t, to_bfloat16)

#ifdef __AVX512F__ /* what follows is laid out for its 32 registers of 16 values */

enum {
    LANES = 16,
    BLOCK = 4 * LANES, /* outputs that are computed together, and whose weights lie together */
    ROWS = 6,          /* rows that are: 24 registers of sums, 4 of weights, 1 of an input */
    SLICE = 256,       /* rows whose sums stay in a core's cache */
    DEPTH = 512,       /* inputs, so many that the weights of a block stay in a core's cache */
    AHEAD = 2048,      /* weights from those that are asked for ahead to those in use */
    EVERY = 8,         /* inputs after which one more place is asked for */
};

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4)));

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Add the product of N rows of inputs with the weights of a block, (depth, BLOCK), to sums,
 * (N, BLOCK). soon: n_soon places in memory that are needed next, asked for one after the other. */
#define MULTIPLY(N)                                                                          \
    static void multiply_##N(int64_t depth, const float *inputs, int64_t in_dim,             \
                             const float *weights, float *sums,                              \
                             const float *const *soon, int64_t n_soon)                       \
    {                                                                                        \
        lanes s[N][4]; /* from zero: the fewer values are added one by one, the less is lost */ \
        EACH(r, N) EACH(g, 4) s[r][g] = (lanes){};                                           \
        for (int64_t k = 0; k < depth;) {                                                    \
            if (n_soon > 0)                                                                  \
                __builtin_prefetch(soon[--n_soon]);                                          \
            for (const int64_t end = least(k + EVERY, depth); k < end; k++) {                \
                const float *weight = weights + k * BLOCK;                                   \
                lanes w[4];                                                                  \
                EACH(g, 4) {                                                                 \
                    w[g] = *(lanes *)(weight + g * LANES);                                   \
                    __asm__("" : "+v"(w[g])); /* or GCC loads it again for each row */       \
                    __builtin_prefetch(weight + AHEAD + g * LANES);                          \
                }                                                                            \
                EACH(r, N) {                                                                 \
                    const lanes input = inputs[r * in_dim + k] - (lanes){};                  \
                    EACH(g, 4) s[r][g] += input * w[g];                                      \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
        EACH(r, N) EACH(g, 4) *(lanes *)(sums + r * BLOCK + g * LANES) += s[r][g];           \
    }
#define EACH(I, N) _Pragma("GCC unroll 6") for (int I = 0; I < N; I++)

MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)

static void (*const multiply_rows[])(int64_t, const float *, int64_t, const float *, float *,
                                     const float *const *, int64_t) = {
    NULL, multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6};

/* A block of the outputs of up to SLICE rows. */
static void product_block(int64_t n, int64_t in_dim, int64_t out_dim, const float *inputs,
                          const float *weights, const float *bias, float *out)
{
    float sums[SLICE * BLOCK];
    for (int64_t row = 0; row < n; row++)
        for (int64_t i = 0; i < BLOCK; i++)
            sums[row * BLOCK + i] = bias ? bias[i] : 0;
    for (int64_t k = 0; k < in_dim; k += DEPTH)
        for (int64_t row = 0; row < n; row += ROWS) {
            const int64_t n_rows = least(ROWS, n - row);
            const int last = k + DEPTH >= in_dim;
            const float *soon[4 * ROWS];
            for (int64_t i = 0; i < 4 * n_rows; i++)
                soon[i] = out + (row + i / 4) * out_dim + i % 4 * LANES;
            multiply_rows[n_rows](least(DEPTH, in_dim - k), inputs + row * in_dim + k, in_dim,
                                  weights + k * BLOCK, sums + row * BLOCK, soon,
                                  last ? 4 * n_rows : 0);
            for (int64_t i = row; last && i < row + n_rows; i++)
                memcpy(out + i * out_dim, sums + i * BLOCK, BLOCK * sizeof *sums);
        }
}

/* out = inputs W + bias, (n, out_dim) from (n, in_dim). weights: (out_dim / BLOCK, in_dim, BLOCK).
 * bias: (out_dim), or NULL. */
void product(int64_t n, int64_t in_dim, int64_t out_dim, const float *inputs, const float *weights,
             const float *bias, float *out)
{
    #pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < out_dim; block += BLOCK)
        for (int64_t row = 0; row < n; row += SLICE)
            product_block(least(SLICE, n - row), in_dim, out_dim, inputs + row * in_dim,
                          weights + block * in_dim, bias ? bias + block : NULL,
                          out + row * out_dim + block);
}

/* A step of n nodes: the product of the hidden states, (m, hidden_dim), and what next_cells does,
 * while the sums are in the cache of a core. Gates come as blocks of LANES of each: (D / LANES, 4,
 * LANES). weights: (D / LANES, hidden_dim, 4, LANES). hidden_rows: rising, or NULL where m = n.
 * All else is as above. */
void step(int64_t n, int64_t dim, int64_t hidden_dim, const float *inputs,
          const int64_t *input_rows, const float *hidden, const float *weights,
          const int64_t *hidden_rows, const float *cells, const int64_t *cell_rows, float bound,
          float *new_cells, float *half)
{
    const int64_t m = hidden_rows ? hidden_rows[n - 1] + 1 : n;
    #pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < dim; first += LANES)
        for (int64_t row = 0, node = 0; row < m; row += ROWS) {
            const int64_t n_rows = least(ROWS, m - row);
            const float *soon[7 * ROWS];
            int64_t n_soon = 0;
            for (int64_t i = node; i < least(node + n_rows, n); i++) {
                const float *gates = inputs + 4 * (dim * (input_rows ? input_rows[i] : i) + first);
                for (int gate = 0; gate < 4; gate++)
                    soon[n_soon++] = gates + gate * LANES;
                soon[n_soon++] = cells + dim * (cell_rows ? cell_rows[i] : i) + first;
                soon[n_soon++] = new_cells + dim * i + first;
                soon[n_soon++] = half + dim * i + first;
            }
            float sums[ROWS * BLOCK] = {0};
            multiply_rows[n_rows](hidden_dim, hidden + row * hidden_dim, hidden_dim,
                                  weights + 4 * first * hidden_dim, sums, soon, n_soon);
            for (; node < n && (hidden_rows ? hidden_rows[node] : node) < row + n_rows; node++) {
                const int64_t shared = (hidden_rows ? hidden_rows[node] : node) - row;
                const float *b = sums + BLOCK * shared;
                const float *a = inputs + 4 * (dim * (input_rows ? input_rows[node] : node) + first);
                const float *before = cells + dim * (cell_rows ? cell_rows[node] : node) + first;
                float *after = new_cells + dim * node + first, *out = half + dim * node + first;
                #pragma omp simd
                for (int i = 0; i < LANES; i++) {
                    const int j = i + LANES, f = j + LANES, o = f + LANES;
                    after[i] = next_cell(a[i] + b[i], a[j] + b[j], a[f] + b[f], a[o] + b[o],
                                         before[i], bound, &out[i]);
                }
            }
        }
}

#endif

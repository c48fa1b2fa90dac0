/* Products with constant weights, for values of a type; kernels.c includes this for each of them.
 *
 * Values come in units of 4 bytes: one of float32 or a pair of bfloat16. Weights come in blocks of
 * BLOCK outputs: (outputs / BLOCK, units of an input row, BLOCK). Sums are float32.
 */

/* Add the product of n rows of inputs, of so many units, with the weights of a block to sums,
 * (n, BLOCK). soon: n_soon places in memory that are needed next, asked for one after the other. */
static inline __attribute__((always_inline)) void NAMED(multiply)(
    const int n, int64_t depth, const float *inputs, int64_t n_units, const float *weights,
    float *sums, const void *const *soon, int64_t n_soon)
{
    lanes s[ROWS][4]; /* from zero: the fewer values are added one by one, the less is lost */
    EACH(r, n) EACH(g, 4) s[r][g] = _mm512_setzero_ps();
    for (int64_t k = 0; k < depth;) {
        if (n_soon > 0)
            __builtin_prefetch(soon[--n_soon]);
        for (const int64_t end = least(k + EVERY, depth); k < end; k++) {
            const float *weight = weights + k * BLOCK;
            lanes w[4];
            EACH(g, 4) {
                w[g] = _mm512_loadu_ps(weight + g * LANES);
                __asm__("" : "+v"(w[g])); /* or GCC loads it again for each row */
                __builtin_prefetch(weight + AHEAD + g * LANES);
            }
            EACH(r, n) {
                const lanes input = _mm512_set1_ps(inputs[r * n_units + k]);
                EACH(g, 4) s[r][g] = NAMED(add_product)(s[r][g], input, w[g]);
            }
        }
    }
    EACH(r, n) EACH(g, 4) {
        float *sum = sums + r * BLOCK + g * LANES;
        _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), s[r][g]));
    }
}

/* Not inline: the registers are for the sums alone. */
#define MULTIPLY(N)                                                                              \
    static __attribute__((noinline)) void NAMED(multiply_##N)(                                   \
        int64_t depth, const float *inputs, int64_t n_units, const float *weights, float *sums,  \
        const void *const *soon, int64_t n_soon)                                                 \
    {                                                                                            \
        NAMED(multiply)(N, depth, inputs, n_units, weights, sums, soon, n_soon);                 \
    }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)
#undef MULTIPLY

static void (*const NAMED(multiply_rows)[])(int64_t, const float *, int64_t, const float *, float *,
                                            const void *const *, int64_t) = {
    NULL, NAMED(multiply_1), NAMED(multiply_2), NAMED(multiply_3),
    NAMED(multiply_4), NAMED(multiply_5), NAMED(multiply_6)};

/* A block of the outputs of up to SLICE rows. */
static void NAMED(product_block)(int64_t n, int64_t n_units, int64_t out_dim, const float *inputs,
                                 const float *weights, const VALUE *bias, VALUE *out)
{
    float sums[SLICE * BLOCK];
    for (int64_t row = 0; row < n; row++)
        EACH(g, 4) _mm512_storeu_ps(sums + row * BLOCK + g * LANES,
                                    bias ? NAMED(load)(bias + g * LANES) : _mm512_setzero_ps());
    for (int64_t k = 0; k < n_units; k += DEPTH)
        for (int64_t row = 0; row < n; row += ROWS) {
            const int64_t n_rows = least(ROWS, n - row);
            const int last = k + DEPTH >= n_units;
            const void *soon[4 * ROWS];
            for (int64_t i = 0; i < 4 * n_rows; i++)
                soon[i] = out + (row + i / 4) * out_dim + i % 4 * LANES;
            NAMED(multiply_rows)[n_rows](least(DEPTH, n_units - k), inputs + row * n_units + k,
                                         n_units, weights + k * BLOCK, sums + row * BLOCK, soon,
                                         last ? 4 * n_rows : 0);
            for (int64_t j = row; last && j < row + n_rows; j++)
                EACH(g, 4) NAMED(store)(out + j * out_dim + g * LANES,
                                        _mm512_loadu_ps(sums + j * BLOCK + g * LANES));
        }
}

/* out = inputs W + bias: from n rows of so many units to n rows of out_dim values. bias: out_dim
 * values, or NULL. */
void NAMED(product)(int64_t n, int64_t n_units, int64_t out_dim, const float *inputs,
                    const float *weights, const VALUE *bias, VALUE *out)
{
    const int64_t slice = rows_at_once(n, out_dim / BLOCK);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int64_t block = 0; block < out_dim; block += BLOCK)
        for (int64_t row = 0; row < n; row += slice)
            NAMED(product_block)(least(slice, n - row), n_units, out_dim, inputs + row * n_units,
                                 weights + block * n_units, bias ? bias + block : NULL,
                                 out + row * out_dim + block);
}

#undef NAMED
#undef VALUE

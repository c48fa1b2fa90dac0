/* Products with constant weights, for one data type. kernels.c includes this file once per type.
 *
 * A unit is 4 bytes: one value of float32 or two of bfloat16. Sums are float32.
 */

/* Multiply `depth` units of n rows of inputs with the weights of a panel, and add the product to sums, whose
 * rows are `stride` apart. Meanwhile prefetch the next weights, `next_step` per unit. */
static inline __attribute__((always_inline)) TARGET void NAMED(multiply)(
    const int n, int64_t depth, const float *inputs, int64_t n_units, const float *weights,
    float *sums, int64_t stride, const float *next, int64_t next_step)
{
    lanes s[ROWS][WIDTH]; /* Partial sums start from zero: short sums have smaller rounding errors. */
    EACH(r, n) EACH(g, WIDTH) s[r][g] = (lanes){0};
    for (int64_t k = 0; k < depth; k++) {
        const float *weight = weights + k * PANEL;
        lanes w[WIDTH];
        EACH(g, WIDTH) {
            w[g] = *(const lanes *)(weight + g * LANES);
            __asm__("" : IN_REGISTER(w[g])); /* Otherwise GCC loads it again for each row. */
        }
        EACH(i, PANEL / LINE) __builtin_prefetch(weight + AHEAD + i * LINE);
        __builtin_prefetch(next + k * next_step, 0, 2);
        EACH(r, n) {
            const lanes input = inputs[r * n_units + k] - (lanes){0};
            EACH(g, WIDTH) s[r][g] = NAMED(add_product)(s[r][g], input, w[g]);
        }
    }
    EACH(r, n) EACH(g, WIDTH) *(lanes *)(sums + r * stride + g * LANES) += s[r][g];
}

/* These functions are not inline, so that the registers are free for sums. */
#define MULTIPLY(N)                                                                              \
    static __attribute__((noinline)) TARGET void NAMED(multiply_##N)(                            \
        int64_t depth, const float *inputs, int64_t n_units, const float *weights, float *sums,  \
        int64_t stride, const float *next, int64_t next_step)                                    \
    {                                                                                            \
        NAMED(multiply)(N, depth, inputs, n_units, weights, sums, stride, next, next_step);      \
    }
MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)
#undef MULTIPLY

static void (*const NAMED(multiply_rows)[])(int64_t, const float *, int64_t, const float *, float *,
                                            int64_t, const float *, int64_t) = {
    NULL, NAMED(multiply_1), NAMED(multiply_2), NAMED(multiply_3),
    NAMED(multiply_4), NAMED(multiply_5), NAMED(multiply_6)};

/* Store a row of `count` sums as values, at most `clip` in size. */
static inline TARGET void NAMED(store_row)(VALUE *out, float *sums, int64_t count, float clip)
{
    VALUE row[PANEL];
    #pragma omp simd
    for (int i = 0; i < PANEL; i++)
        sums[i] = limit(sums[i], clip);
    VALUE *values = count < PANEL ? row : out;
    EACH(g, WIDTH) NAMED(store)(values + g * LANES, *(const lanes *)(sums + g * LANES));
    if (count < PANEL)
        memcpy(out, row, count * sizeof(VALUE));
}

/* Compute a panel of the outputs, from `output`, for n rows from `first`, at most SLICE. */
static TARGET void NAMED(product_panel)(const struct product *s, int64_t first, int64_t n,
                                        int64_t output)
{
    const int64_t n_units = s->n_units, count = least(PANEL, s->out_dim - output);
    const float *inputs = s->inputs + first * n_units, *weights = s->weights + output * n_units;
    const VALUE *bias = s->bias ? (const VALUE *)s->bias + output : NULL;
    VALUE *out = (VALUE *)s->out + output_index(s, first, output);
    const int64_t next_step = next_share(n);
    float sums[SLICE * PANEL];
    for (int64_t row = 0; row < n; row++)
        EACH(g, WIDTH) *(lanes *)(sums + row * PANEL + g * LANES)
            = bias ? NAMED(load)(bias + g * LANES) : (lanes){0};
    for (int64_t k = 0; k < n_units; k += DEPTH)
        for (int64_t row = 0; row < n; row += ROWS) {
            const int64_t n_rows = least(ROWS, n - row), after = (k + DEPTH) * PANEL;
            const int is_last = k + DEPTH >= n_units;
            for (int64_t j = row; is_last && j < row + n_rows; j++)
                for (int64_t i = 0; i < PANEL; i += LINE * sizeof(float) / sizeof(VALUE))
                    __builtin_prefetch(out + j * s->strides.row + i);
            NAMED(multiply_rows)[n_rows](least(DEPTH, n_units - k), inputs + row * n_units + k,
                                         n_units, weights + k * PANEL, sums + row * PANEL, PANEL,
                                         weights + after + row / ROWS * DEPTH * next_step, next_step);
            for (int64_t j = row; is_last && j < row + n_rows; j++)
                NAMED(store_row)(out + j * s->strides.row, sums + j * PANEL, count, s->clip);
        }
}

void NAMED(product)(const struct product *s) { each_panel(s, NAMED(product_panel)); }

#undef NAMED
#undef TARGET
#undef VALUE

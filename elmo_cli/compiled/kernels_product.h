/* Products with constant weights, for one data type. It is included once per type, after these functions:
 *
 *   add_product   adds the products of units, in registers
 *   start         stores the first values of the sums of some outputs
 *   add_sums      adds partial sums to the sums in memory
 *   finish        turns the sums of a row into values
 *
 * UNIT is the type of a unit, 4 bytes, and VECTOR that of partial sums in a register. Sums in memory are float32, or
 * int32 for int8. STORE stores values of the type VALUE.
 */

/* Multiply `depth` units of n rows of inputs with the weights of a panel, and add the product to sums, whose
 * rows are `stride` apart. Meanwhile prefetch the next weights, `next_step` per unit. */
static inline __attribute__((always_inline)) TARGET void NAMED(multiply)(
    const int n, int64_t depth, const UNIT *inputs, int64_t n_units, const UNIT *weights,
    float *sums, int64_t stride, const UNIT *next, int64_t next_step)
{
    VECTOR s[ROWS][WIDTH]; /* Partial sums start from zero: short sums have smaller rounding errors. */
    EACH(r, n) EACH(g, WIDTH) s[r][g] = (VECTOR){0};
    for (int64_t k = 0; k < depth; k++) {
        const UNIT *weight = weights + k * PANEL;
        VECTOR w[WIDTH];
        EACH(g, WIDTH) {
            w[g] = *(const VECTOR *)(weight + g * LANES);
            __asm__("" : IN_REGISTER(w[g])); /* Otherwise GCC loads it again for each row. */
        }
        EACH(i, PANEL / LINE) __builtin_prefetch(weight + AHEAD + i * LINE);
        __builtin_prefetch(next + k * next_step, 0, 2);
        EACH(r, n) {
            const VECTOR input = inputs[r * n_units + k] - (VECTOR){0};
            EACH(g, WIDTH) s[r][g] = NAMED(add_product)(s[r][g], input, w[g]);
        }
    }
    EACH(r, n) EACH(g, WIDTH) NAMED(add_sums)(sums + r * stride + g * LANES, s[r][g]);
}

/* These functions are not inline, so that the registers are free for sums. */
#define MULTIPLY(N)                                                                              \
    static __attribute__((noinline)) TARGET void NAMED(multiply_##N)(                            \
        int64_t depth, const UNIT *inputs, int64_t n_units, const UNIT *weights, float *sums,    \
        int64_t stride, const UNIT *next, int64_t next_step)                                     \
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

static void (*const NAMED(multiply_rows)[])(int64_t, const UNIT *, int64_t, const UNIT *, float *,
                                            int64_t, const UNIT *, int64_t) = {
    NULL, NAMED(multiply_1), NAMED(multiply_2), NAMED(multiply_3),
    NAMED(multiply_4), NAMED(multiply_5), NAMED(multiply_6)};

/* Start the sums of a panel of outputs, from `output`, for n rows that are `stride` apart. */
static inline TARGET void NAMED(start_rows)(const struct scales *scales, const VALUE *bias, int64_t output, int64_t n,
                                            float *sums, int64_t stride)
{
    for (int64_t row = 0; row < n; row++)
        EACH(g, WIDTH)
            NAMED(start)(scales, bias, output + g * LANES, sums + row * stride + g * LANES);
}

/* Store a row of `count` sums as values, at most `clip` in size. */
static inline TARGET void NAMED(store_row)(VALUE *out, float *sums, int64_t count, float clip)
{
    VALUE row[PANEL];
    #pragma omp simd
    for (int i = 0; i < PANEL; i++)
        sums[i] = limit(sums[i], clip);
    VALUE *values = count < PANEL ? row : out;
    EACH(g, WIDTH) STORE(values + g * LANES, *(const lanes *)(sums + g * LANES));
    if (count < PANEL)
        memcpy(out, row, count * sizeof(VALUE));
}

/* Compute a panel of the outputs, from `output`, for n rows from `first`, at most SLICE. */
static TARGET void NAMED(product_panel)(const struct product *s, int64_t first, int64_t n,
                                        int64_t output)
{
    const int64_t n_units = s->n_units, count = least(PANEL, s->out_dim - output);
    const UNIT *inputs = (const UNIT *)s->inputs + first * n_units;
    const UNIT *weights = (const UNIT *)s->weights + output * n_units;
    VALUE *out = (VALUE *)s->out + output_index(s, first, output);
    const int64_t next_step = next_share(n);
    float sums[SLICE * PANEL];
    NAMED(start_rows)(&s->scales, s->bias, output, n, sums, PANEL);
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
            for (int64_t j = row; is_last && j < row + n_rows; j++) {
                NAMED(finish)(&s->scales, s->bias, first + j, output, sums + j * PANEL);
                NAMED(store_row)(out + j * s->strides.row, sums + j * PANEL, count, s->clip);
            }
        }
}

#undef NAMED
#undef TARGET
#undef UNIT
#undef VECTOR
#undef VALUE
#undef STORE

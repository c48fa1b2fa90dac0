/* Whole step of an LSTM, for one data type of weights and hidden states. kernels.c includes this file once per type,
 * and describes `struct step`.
 */

/* Compute BLOCK cells, from `first`, of up to ROWS nodes, from `row`. */
static inline void NAMED(step_rows)(const struct step *s, int64_t first, int64_t row, int64_t n_rows,
                                    int64_t next_step)
{
    const int64_t n_units = s->n_units, count = least(BLOCK, s->dim - first);
    const UNIT *inputs = (const UNIT *)s->hidden + row * n_units;
    for (int64_t node = row; node < row + n_rows; node++) { /* Prefetch what is used after the product. */
        EACH(gate, 4) __builtin_prefetch(s->input_gates + step_gates(s, node, first) + gate * BLOCK);
        __builtin_prefetch(step_cells(s, node, first));
        __builtin_prefetch(step_new_cells(s, node, first));
        __builtin_prefetch(s->out + s->dim * node + first);
    }
    float sums[ROWS * 4 * BLOCK];
    for (int p = 0; p < PANELS; p++) {
        const int64_t output = 4 * first + p * PANEL;
        const UNIT *weights = (const UNIT *)s->weights + output * n_units;
        const UNIT *next = weights + 4 * BLOCK * n_units;
        NAMED(start_rows)(&s->scales, NULL, output, n_rows, sums + p * PANEL, 4 * BLOCK);
        for (int64_t k = 0; k < n_units; k += DEPTH)
            NAMED(multiply_rows)[n_rows](least(DEPTH, n_units - k), inputs + k, n_units, weights + k * PANEL,
                                         sums + p * PANEL, 4 * BLOCK,
                                         next + (row / ROWS * n_units + k) * next_step, next_step);
        for (int64_t r = 0; r < n_rows; r++)
            NAMED(finish)(&s->scales, NULL, row + r, output, sums + r * 4 * BLOCK + p * PANEL);
    }
    for (int64_t r = 0; r < n_rows; r++)
        if (count == BLOCK)
            next_cells(s, row + r, first, BLOCK, sums + 4 * BLOCK * r);
        else
            next_cells(s, row + r, first, count, sums + 4 * BLOCK * r);
}

void NAMED(step)(const struct step *s)
{
    const int64_t next_step = next_share(s->n);
    EACH_OF_SHARE(i, (s->dim + BLOCK - 1) / BLOCK)
        for (int64_t row = 0; row < s->n; row += ROWS)
            NAMED(step_rows)(s, i * BLOCK, row, least(ROWS, s->n - row), next_step);
}

#undef NAMED
#undef UNIT

/* Steps of an LSTM in bfloat16 by AMX: the products of kernels_tiles.h, and between them the cells of the group
 * before.
 *
 * Hyperbolic tangents have an error of at most 4e-6. bfloat16 rounds values near 1 by up to 4e-3.
 */

enum { TANH_SIZE = 32 };
#define TANH_SCALE 4.5f

/* Cubic polynomials for tanh((j + d) / TANH_SCALE) where |d| <= 1/2. Row i has the coefficients of d^i, column j those
 * for j. */
struct tanh_table {
    float coefficients[4][TANH_SIZE];
};

/* Compute Taylor's polynomials of degree 4, in which d^2 / 4 - 1/128 replaces d^4 (Chebyshev: the smallest error). */
TILES_INLINE void fill_tanh_table(struct tanh_table *table)
{
    const float h = 1 / TANH_SCALE;
    for (int j = 0; j < TANH_SIZE; j++) {
        const float b = exp_minus_1(-2 * h * j), t = -b / (2 + b), slope = 1 - t * t; /* tanh, its derivative */
        const float fourth = slope * t * (2 - 3 * t * t) / 3 * h * h * h * h;
        table->coefficients[0][j] = t - fourth / 128;
        table->coefficients[1][j] = slope * h;
        table->coefficients[2][j] = fourth / 4 - slope * t * h * h;
        table->coefficients[3][j] = slope * (3 * t * t - 1) / 3 * h * h * h;
    }
}

/* Compute tanh(z / TANH_SCALE). */
TILES_INLINE lanes scaled_tanh(const struct tanh_table *table, lanes z)
{
    const lanes to_whole = 8388608 - (lanes){0}; /* 2^23: the last bits of the sum are the nearest whole number. */
    /* If z is not a number, the minimum is its second value. */
    const __m512 largest = _mm512_set1_ps(TANH_SIZE - 0.51f);
    const lanes size = (lanes)_mm512_min_ps(largest, _mm512_abs_ps((__m512)z));
    const lanes whole = size + to_whole, d = size - (whole - to_whole);
    lanes sum = {0};
    for (int i = 3; i >= 0; i--) {
        const __m512 *row = (const __m512 *)table->coefficients[i];
        sum = sum * d + (lanes)_mm512_permutex2var_ps(row[0], (__m512i)whole, row[1]);
    }
    return (lanes)_mm512_or_ps((__m512)sum, _mm512_and_ps((__m512)z, _mm512_set1_ps(-0.0f)));
}

/* Compute sigmoid(x) = 1/2 + tanh(x / 2) / 2. */
TILES_INLINE lanes sigmoid_by_table(const struct tanh_table *table, lanes x)
{
    return 0.5f + 0.5f * scaled_tanh(table, 0.5f * TANH_SCALE * x);
}

struct tiles_step {
    struct tanh_table table __attribute__((aligned(64)));
    const struct step *step;
};

/* Compute BLOCK cells of a node, or fewer at the end. */
TILES_INLINE void finish_cells(const void *work, struct group *group)
{
    const struct tanh_table *table = &((const struct tiles_step *)work)->table;
    const struct step *s = ((const struct tiles_step *)work)->step;
    const int64_t node = group->row, first = group->output;
    const __mmask16 mask = (1 << least(BLOCK, s->dim - first)) - 1;
    const uint16_t *input_gates = (const uint16_t *)s->input_gates + step_gates(s, node, first);
    lanes gates[4]; /* i, j, f, o */
    EACH(g, 4)
        gates[g] = load_bfloat16(input_gates + g * BLOCK) + *(const lanes *)(group->sums + g * BLOCK);
    lanes cell = (lanes)_mm512_maskz_loadu_ps(mask, step_cells(s, node, first)) * sigmoid_by_table(table, gates[2]);
    cell += sigmoid_by_table(table, gates[0]) * scaled_tanh(table, TANH_SCALE * gates[1]);
    cell = limit_lanes(cell, s->clip);
    const lanes out = sigmoid_by_table(table, gates[3]) * scaled_tanh(table, TANH_SCALE * cell);
    _mm512_mask_storeu_ps(step_new_cells(s, node, first), mask, (__m512)cell);
    uint16_t *stored_out = (uint16_t *)s->out + s->dim * node + first;
    _mm256_mask_storeu_epi16(stored_out, mask, (__m256i)_mm512_cvtneps_pbh((__m512)out));
    group->sums += 4 * BLOCK;
    group->row++;
}

/* See `struct step`. Input gates, hidden states, weights and out are bfloat16. Panels have T_PANEL outputs. */
TILES void step_bfloat16_tiles(const struct step *s)
{
    const int64_t n = s->n, n_units = s->n_units, n_panels = 4 * BLOCK / T_PANEL;
    float sums[2][GROUP * 4 * BLOCK]; /* The previous group and this one use them in turns. */
    struct between between = plan_between(n, n_units, n_panels);
    struct tiles_step work = {.step = s};
    int turn = 0;
    fill_tanh_table(&work.table);
    configure_tiles(n);
    EACH_OF_SHARE(i, (s->dim + BLOCK - 1) / BLOCK) {
        const float *weights = s->weights + 4 * BLOCK * i * n_units;
        between.weights = weights + 4 * BLOCK * n_units;
        for (int64_t row = 0; row < n; turn = !turn) {
            const int64_t size = group_size(n - row, n), start = least(row, n - size);
            EACH(p, n_panels)
                multiply_tiles(size, n_units, s->hidden + start * n_units, 0, weights + p * T_PANEL * n_units, 0,
                               sums[turn] + p * T_PANEL, 4 * BLOCK, finish_cells, &work, &between);
            between.group = (struct group){row, start + size, i * BLOCK, sums[turn] + (row - start) * 4 * BLOCK};
            row = start + size;
        }
    }
    while (between.group.row < between.group.end)
        finish_cells(&work, &between.group);
    _tile_release();
}

/* Products in bfloat16 by AMX. A tile of sums has 16 rows and 16 outputs. It is the product of a tile of inputs,
 * 16 rows of 16 units, and a tile of weights.
 *
 * A core multiplies tiles and computes with vectors at the same time. So rows are computed in groups, and the work
 * of vectors on the sums of one group is done between the products of the next: a row or two after each k.
 *
 * The number of units per row is a multiple of 16. The bits of a row do not depend on its index in a tile.
 */

#define TILES __attribute__((target("avx512bf16,amx-tile,amx-bf16")))
#define TILES_INLINE static inline __attribute__((always_inline)) TILES

enum {
    GROUP = 2 * TILE,    /* rows that are multiplied together */
    T_PANEL = 2 * TILE,  /* outputs that are multiplied together, with their weights next to each other */
};

const int64_t tiles_panel = T_PANEL;

/* Rows whose sums are known. Those from `row` to `end` have to be finished. */
struct group {
    int64_t row, end, output; /* `output` is the first output, or the first cell of a step. */
    const float *sums;        /* sums of `row`, then of the next rows */
};

/* Function that computes the results of one row from its sums, and moves on to the next row. */
typedef void finish_row(const void *work, struct group *group);

/* What is done after each k, between the products. */
struct between {
    struct group group;
    int64_t n_rows;  /* rows of the group to finish */
    int64_t n_lines; /* cache lines of weights to prefetch */
    const float *weights;
};

/* Describe the tiles for groups of n rows. Tiles 0 to 3 hold sums, 4 and 5 inputs, 6 and 7 weights. */
TILES_INLINE void configure_tiles(int64_t n)
{
    struct { uint8_t palette, others[15]; uint16_t bytes[16]; uint8_t rows[16]; } shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = 4 * TILE;
        shapes.rows[i] = i < 6 ? least(TILE, n) : TILE;
    }
    _tile_loadconfig(&shapes);
}

/* Plan to finish a group in the time of `n_panels` panels, and to prefetch a panel while n rows are multiplied. */
TILES_INLINE struct between plan_between(int64_t n, int64_t n_units, int64_t n_panels)
{
    const int64_t n_k = n_panels * n_units / TILE, n_groups = (n + GROUP - 1) / GROUP;
    const int64_t n_lines = (TILE * T_PANEL / LINE + n_groups - 1) / n_groups;
    return (struct between){.n_rows = (GROUP + n_k - 1) / n_k, .n_lines = n_lines};
}

/* Return the number of rows of the next group, if `left` of n rows remain. The last group may begin with rows of the
 * group before, because tiles with fewer rows would need another configuration. */
TILES_INLINE int64_t group_size(int64_t left, int64_t n)
{
    return n > TILE && left <= TILE ? TILE : least(GROUP, n);
}

/* Multiply a group of n rows with a panel: sums, (n, stride). Meanwhile finish the group before. Inputs are rows or, with
 * `in_tiles`, (n / TILE, n_units / TILE, TILE, TILE). */
TILES_INLINE void multiply_tiles(
    int64_t n, int64_t n_units, const float *inputs, const int in_tiles, const float *weights, const int keeps_weights,
    float *sums, int64_t stride, finish_row *finish, const void *work, struct between *between)
{
    const int64_t lower = n > TILE ? n - TILE : 0; /* first row of the second tile, if there is one */
    const int64_t row_bytes = in_tiles ? 4 * TILE : 4 * n_units;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < n_units; k += TILE) {
        const float *weight = weights + k * T_PANEL, *upper_input = inputs + (in_tiles ? TILE * k : k);
        const float *lower_input = upper_input + lower * n_units;
        if (keeps_weights) { /* The weights stay in the first cache, and inputs are loaded past it. */
            _tile_loadd(6, weight, 4 * T_PANEL);
            _tile_loadd(7, weight + TILE, 4 * T_PANEL);
            _tile_stream_loadd(4, upper_input, row_bytes);
        } else {
            _tile_stream_loadd(6, weight, 4 * T_PANEL);
            _tile_stream_loadd(7, weight + TILE, 4 * T_PANEL);
            _tile_loadd(4, upper_input, row_bytes);
        }
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (lower) {
            if (keeps_weights)
                _tile_stream_loadd(5, lower_input, row_bytes);
            else
                _tile_loadd(5, lower_input, row_bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        for (int64_t i = 0; i < between->n_lines; i++, between->weights += LINE)
            __builtin_prefetch(between->weights, 0, 2);
        for (int64_t i = 0; i < between->n_rows && between->group.row < between->group.end; i++)
            finish(work, &between->group);
    }
    _tile_stored(0, sums, 4 * stride);
    _tile_stored(1, sums + TILE, 4 * stride);
    if (lower) {
        _tile_stored(2, sums + lower * stride, 4 * stride);
        _tile_stored(3, sums + lower * stride + TILE, 4 * stride);
    }
}

/* Limit values to [-clip, clip]. If one value is not a number, these instructions return the second. */
TILES_INLINE lanes limit_lanes(lanes values, float clip)
{
    const __m512 low = _mm512_min_ps(_mm512_set1_ps(clip), (__m512)values);
    return (lanes)_mm512_max_ps(_mm512_set1_ps(-clip), low);
}

/* Store a row of a panel. */
TILES_INLINE void store_panel(const void *work, struct group *group)
{
    const struct product *s = work;
    const int64_t output = group->output, count = least(T_PANEL, s->out_dim - output);
    lanes sums[2];
    EACH(g, 2) {
        sums[g] = *(const lanes *)(group->sums + g * LANES);
        if (s->bias)
            sums[g] += load_bfloat16((const uint16_t *)s->bias + output + g * LANES);
        sums[g] = limit_lanes(sums[g], s->clip);
    }
    const __m512bh values = _mm512_cvtne2ps_pbh((__m512)sums[1], (__m512)sums[0]);
    uint16_t *out = (uint16_t *)s->out + output_index(s, group->row, output);
    _mm512_mask_storeu_epi16(out, ((int64_t)1 << count) - 1, (__m512i)values);
    group->sums += T_PANEL;
    group->row++;
}

/* See `struct product`. Panels have T_PANEL outputs. */
TILES void product_bfloat16_tiles(const struct product *s)
{
    if (s->n == 0) /* Tiles have at least one row. */
        return;
    const int64_t n_units = s->n_units, n_panels = (s->out_dim + T_PANEL - 1) / T_PANEL;
    const int64_t slice = rows_at_once(s->n, n_panels), n_slices = (s->n + slice - 1) / slice;
    float sums[2][GROUP * T_PANEL]; /* The previous group and this one use them in turns. */
    struct between between = plan_between(least(slice, s->n), n_units, 1);
    int turn = 0;
    configure_tiles(s->n);
    EACH_OF_SHARE(piece, n_panels * n_slices) {
        const int64_t first = piece % n_slices * slice, end = least(first + slice, s->n);
        const int64_t output = piece / n_slices * T_PANEL;
        const float *weights = s->weights + output * n_units;
        between.weights = weights + T_PANEL * n_units;
        for (int64_t row = first; row < end; turn = !turn) {
            /* A slice can be smaller than a group. Then the group also has rows of the next slice. */
            const int64_t size = group_size(end - row, s->n), start = least(row, end > size ? end - size : 0);
            multiply_tiles(size, n_units, s->inputs + start * n_units, 0, weights, 1, sums[turn], T_PANEL,
                           store_panel, s, &between);
            between.group = (struct group){row, least(start + size, end), output,
                                           sums[turn] + (row - start) * T_PANEL};
            row = start + size;
        }
    }
    while (between.group.row < between.group.end)
        store_panel(s, &between.group);
    _tile_release();
}

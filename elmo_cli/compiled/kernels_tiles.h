/* The product of kernels_product.h in bfloat16, by AMX. A tile of sums has 16 rows and 16 outputs. It is the
 * product of a tile of inputs, 16 rows of 16 units, and a tile of weights.
 *
 * The number of units per row is a multiple of 16. The bits of a row do not depend on its index in a tile.
 */

#define TILES __attribute__((target("avx512bf16,amx-tile,amx-bf16")))

enum { TILE_ROWS = 2 * TILE };

/* Multiply up to TILE_ROWS rows with a panel: sums, (n, PANEL). The rows of the lower tiles start at `lower`.
 * If it is 0, there are no lower tiles. Tiles 0 to 3 hold sums, 4 and 5 inputs, 6 and 7 weights. */
static inline __attribute__((always_inline)) TILES void multiply_tiles(
    int64_t lower, int64_t n_units, const float *inputs, const float *weights, float *sums)
{
    for (int64_t half = 0; half < PANEL; half += 2 * TILE, weights += 2 * TILE, sums += 2 * TILE) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t k = 0; k < n_units; k += TILE) {
            const float *weight = weights + k * PANEL;
            _tile_loadd(6, weight, 4 * PANEL);
            _tile_loadd(7, weight + TILE, 4 * PANEL);
            for (int64_t i = 0; i < TILE * PANEL; i += PANEL) {
                __builtin_prefetch(weight + AHEAD + i);
                __builtin_prefetch(weight + AHEAD + i + TILE);
            }
            _tile_loadd(4, inputs + k, 4 * n_units);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            if (lower) {
                _tile_loadd(5, inputs + lower * n_units + k, 4 * n_units);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
        if (lower) {
            _tile_stored(2, sums + lower * PANEL, 4 * PANEL);
            _tile_stored(3, sums + lower * PANEL + TILE, 4 * PANEL);
        }
        _tile_stored(0, sums, 4 * PANEL);
        _tile_stored(1, sums + TILE, 4 * PANEL);
    }
}

/* Compute a panel of the outputs, from `output`, for n rows from `first`. The last tiles end with the last row
 * and compute some rows a second time: tiles with fewer rows would need another configuration. */
static TILES void product_panel_tiles(const struct product *s, int64_t first, int64_t n, int64_t output)
{
    const int64_t n_units = s->n_units, count = least(PANEL, s->out_dim - output);
    const int64_t n_rows = least(TILE_ROWS, n), lower = n_rows > TILE ? n_rows - TILE : 0;
    struct { uint8_t palette, others[15]; uint16_t bytes[16]; uint8_t rows[16]; } shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.bytes[i] = 4 * TILE;
        shapes.rows[i] = i < 6 ? least(TILE, n) : TILE;
    }
    _tile_loadconfig(&shapes);
    lanes bias[WIDTH] = {0};
    for (int g = 0; s->bias && g < WIDTH; g++)
        bias[g] = load_bfloat16((const uint16_t *)s->bias + output + g * LANES);
    for (int64_t row = first; row < first + n; row += TILE_ROWS) {
        float sums[TILE_ROWS * PANEL];
        row = least(row, first + n - n_rows);
        uint16_t *out = (uint16_t *)s->out + row * s->out_dim + output;
        for (int64_t j = 0; j < n_rows; j++)
            for (int64_t i = 0; i < PANEL; i += 2 * LINE)
                __builtin_prefetch(out + j * s->out_dim + i);
        multiply_tiles(lower, n_units, s->inputs + row * n_units, s->weights + output * n_units, sums);
        for (int64_t j = 0; j < n_rows; j++) {
            EACH(g, WIDTH) *(lanes *)(sums + j * PANEL + g * LANES) += bias[g];
            store_row_bfloat16(out + j * s->out_dim, sums + j * PANEL, count);
        }
    }
    _tile_release();
}

void product_bfloat16_tiles(const struct product *s) { each_panel(s, product_panel_tiles); }

/* Steps of a layer over a trie, one after the other, in one call from Python.
 * inference/fast_lstm.py has the formulas, inference/trie.py the trie. */

/* The first step has sizes[0] nodes, and so on. Arrays of nodes continue from step to step.
 *
 * input_gates, input_rows: See `struct step`, for all nodes. A block has the gates of all n_gates rows.
 * hidden, cells: State before the first step, (k, hidden_dim) and cells with `strides`.
 * parents: Row of each node's parent in the step before, or in the state.
 * projection: Weights of the product that follows a step, as in `struct product`.
 * parent_hidden, out: Memory for the largest step, (n, hidden_dim) and (n, dim).
 * even_cells, odd_cells: Cells after the first, third ... step and after the second, fourth ... A block has the cells
 *     of all nodes of the step.
 * new_hidden: Hidden states of all nodes, (m, hidden_dim): written.
 * n_ended, ends: Number of sentences that end at each step, and their rows in it.
 * ended_hidden, ended_cells: State in which each of them ends: written.
 *
 * For whole numbers, and NULL for other types:
 * gate_scales, projection_scales: See `struct product`. Their scales of rows are `row_scales`.
 * rounded: Memory for the inputs of the largest step's projection, (n, units).
 * row_scales: Memory for the scales of the largest step's rows, (n,). */
struct steps {
    int64_t n_steps, dim, hidden_dim, n_gates;
    const int64_t *sizes;
    const char *input_gates;
    const int64_t *input_rows;
    const char *hidden;
    const float *cells;
    struct strides strides;
    const int64_t *parents;
    const void *weights, *projection;
    double cell_clip, hidden_clip;
    float *parent_hidden;
    void *out;
    float *even_cells, *odd_cells;
    char *new_hidden;
    const int64_t *n_ended, *ends;
    char *ended_hidden;
    float *ended_cells;
    struct scales gate_scales, projection_scales;
    float *rounded, *row_scales;
};

/* Copy rows of `size` bytes: to[i] = from[rows[i]]. */
static inline void copy_rows(int64_t n, int64_t size, char *to, const char *from, const int64_t *rows)
{
    EACH_OF_SHARE(i, n) memcpy(to + size * i, from + size * rows[i], size);
}

/* Copy cells of n nodes to rows of `dim`. */
static inline void copy_cells(int64_t n, int64_t dim, float *to, const float *from, struct strides strides,
                              const int64_t *nodes)
{
    EACH_OF_SHARE(i, n)
        for (int64_t first = 0; first < dim; first += BLOCK)
            memcpy(to + dim * i + first, from + strides.row * nodes[i] + strides.block * (first / BLOCK),
                   sizeof(float) * least(BLOCK, dim - first));
}

/* Run all steps with values of `size` bytes. The products of a step have units of `gate_unit` and `projection_unit`
 * values. Between two parts of a step, the threads wait for each other. */
static inline void run_steps(const struct steps *s, int64_t size, int64_t gate_unit, int64_t projection_unit,
                             void (*take_parents)(const struct rows *), void (*take_step)(const struct step *),
                             void (*project)(const struct rounded_product *))
{
    const int64_t gate_units = (s->hidden_dim + gate_unit - 1) / gate_unit;
    const int64_t projection_units = (s->dim + projection_unit - 1) / projection_unit;
    struct strides strides = s->strides;
    int64_t node = 0, end = 0;
    const char *hidden = s->hidden;
    const float *cells = s->cells;
    for (int64_t i = 0; i < s->n_steps; i++) {
        const int64_t n = s->sizes[i], n_ended = s->n_ended[i];
        const struct strides new_strides = {BLOCK, BLOCK * n};
        float *new_cells = i % 2 ? s->odd_cells : s->even_cells;
        char *new_hidden = s->new_hidden + size * s->hidden_dim * node;
        take_parents(&(struct rows){
            .n = n, .dim = s->hidden_dim, .n_units = gate_units, .values = (const float *)hidden,
            .indices = s->parents + node, .units = s->parent_hidden, .scales = s->row_scales});
        GOMP_barrier();
        take_step(&(struct step){
            .n = n, .dim = s->dim, .n_units = gate_units,
            .input_gates = (const float *)(s->input_gates + (s->input_rows ? 0 : 4 * BLOCK * size * node)),
            .input_rows = s->input_rows ? s->input_rows + node : NULL,
            .hidden = s->parent_hidden, .weights = s->weights,
            .cells = cells, .cell_rows = s->parents + node,
            .clip = s->cell_clip, .new_cells = new_cells, .out = s->out,
            .gate_strides = {4 * BLOCK, 4 * BLOCK * s->n_gates}, .cell_strides = strides, .new_strides = new_strides,
            .scales = s->gate_scales});
        GOMP_barrier();
        project(&(struct rounded_product){
            .rows = {.n = n, .dim = s->dim, .n_units = projection_units, .values = s->out,
                     .units = s->rounded, .scales = s->row_scales},
            .product = {.n = n, .n_units = projection_units, .out_dim = s->hidden_dim,
                        .inputs = s->rounded ? s->rounded : s->out, .weights = s->projection,
                        .clip = s->hidden_clip, .out = new_hidden, .strides = {s->hidden_dim, 4 * BLOCK},
                        .scales = s->projection_scales}});
        GOMP_barrier();
        copy_rows(n_ended, size * s->hidden_dim, s->ended_hidden + size * s->hidden_dim * end, new_hidden,
                  s->ends + end);
        copy_cells(n_ended, s->dim, s->ended_cells + s->dim * end, new_cells, new_strides, s->ends + end);
        hidden = new_hidden;
        cells = new_cells;
        strides = new_strides;
        node += n;
        end += n_ended;
    }
}

static void copy_float32(const struct rows *s)
{
    copy_rows(s->n, sizeof(float) * s->dim, (char *)s->units, (const char *)s->values, s->indices);
}
static void project_float32(const struct rounded_product *s) { product_float32(&s->product); }

void steps_float32(const struct steps *s)
{
    run_steps(s, sizeof(float), 1, 1, copy_float32, step_float32, project_float32);
}

#ifdef VNNI
void steps_int8(const struct steps *s)
{
    run_steps(s, sizeof(float), 4, 2, round_rows_int8, step_int8, product_int16);
}
#endif

#ifdef __AVX2__
void steps_int16(const struct steps *s)
{
    run_steps(s, sizeof(float), 2, 2, round_rows_int16, step_int16, product_int16);
}
#endif

#ifdef TILES
static void copy_bfloat16(const struct rows *s)
{
    copy_rows(s->n, sizeof(uint16_t) * s->dim, (char *)s->units, (const char *)s->values, s->indices);
}
static void project_tiles(const struct rounded_product *s) { product_bfloat16_tiles(&s->product); }

void steps_bfloat16_tiles(const struct steps *s)
{
    run_steps(s, sizeof(uint16_t), 2, 2, copy_bfloat16, step_bfloat16_tiles, project_tiles);
}
#endif

/* Softmax over words, for one data type of their vectors. kernels_probabilities.h includes this file once per type, and
 * describes `struct words`.
 */

static void NAMED(add_words)(const struct words *s)
{
    if (s->n == 0)
        return;
    const int64_t n_units = s->n_units, n_chunks = (s->n_words + CHUNK - 1) / CHUNK;
    const int64_t slice = rows_of_slice(s, n_chunks, SLICE);
    ALIGNED float products[SLICE * PANEL];
    struct piece piece = {.words = s};
    EACH_OF_SHARE(number, n_chunks * ((s->n + slice - 1) / slice)) {
        start_piece(&piece, number, slice, PANEL);
        const int64_t n = piece.end - piece.first, next_step = next_share(n);
        const UNIT *contexts = (const UNIT *)s->contexts + piece.first * n_units;
        for (int64_t word = piece.first_word; word < piece.end_word; word += PANEL) {
            const UNIT *weights = (const UNIT *)s->weights + word * n_units;
            NAMED(start_rows)(&s->scales, NULL, word, n, products, PANEL);
            for (int64_t k = 0; k < n_units; k += DEPTH)
                for (int64_t row = 0; row < n; row += ROWS) {
                    const int64_t n_rows = least(ROWS, n - row), after = (k + DEPTH) * PANEL;
                    NAMED(multiply_rows)[n_rows](
                        least(DEPTH, n_units - k), contexts + row * n_units + k, n_units, weights + k * PANEL,
                        products + row * PANEL, PANEL, weights + after + row / ROWS * DEPTH * next_step, next_step);
                    for (int64_t i = row; k + DEPTH >= n_units && i < row + n_rows; i++) {
                        NAMED(finish)(&s->scales, NULL, piece.first + i, word, products + i * PANEL);
                        add_products(&piece, WIDTH, piece.first + i, word, products + i * PANEL);
                    }
                }
        }
        finish_piece(&piece);
    }
    GOMP_barrier();
    join_chunks(s);
}

#undef NAMED
#undef UNIT

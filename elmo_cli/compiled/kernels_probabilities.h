/* Softmax over a large vocabulary. Logits of a panel of words stay in the cache, where their exponentials are added up.
 *
 * Logits are in bits (contexts and biases are multiplied by log2(e)), so that exponentials are powers of two. A sum
 * of exponentials is relative to a reference: a whole number, so that a change of the reference rounds no value.
 *
 * A piece of work is a slice of rows and a chunk of words, with sums of its own. At the end, the sums of the chunks are
 * added up. So the bits of a row depend neither on other rows nor on the number of threads.
 */

enum {
    CHUNK = 2048,    /* words whose exponentials are added up in float32 */
    MOST_ABOVE = 16, /* bits of a logit above the reference before there is a new reference */
};
#define SMALLEST -125.0f /* bits below the reference: smaller powers would be denormal, which takes much time */
#define LOG2_E 1.44269504f
#define LN_2 0.693147181f
#define ALIGNED __attribute__((aligned(64))) /* to cache lines */
#define NO_WORD -1e30f /* logit of padding: not infinite, because 0 times infinity is not a number */

const int64_t probabilities_chunk = CHUNK;

/* Sum of exponentials of logits, 2^(logit - reference), and the sum of (logit - reference) times its exponential. */
struct total {
    float reference, sum, mean;
};

/* Sums over all words so far. */
struct context_sums {
    double reference, sum, mean;
};

/* Predictions in n contexts over n_words words of a vocabulary, from `first_word`. Several predictions may share a
 * context, in which each word is added up once.
 *
 * contexts: (n, n_units) in bits. For tiles, (n / TILE, n_units / TILE, TILE, TILE), with zeros to fill.
 * weights, scales: as in `struct product`.
 * bias: float32, (n_words,).
 * first_targets: (n + 1,). Context i predicts the targets from first_targets[i] up to first_targets[i + 1].
 * targets: (predictions,), indices of the vocabulary.
 * with_mean: 1 to compute the means too.
 * totals: Memory, (chunks, n), or NULL for logits.
 * sums: (n,), to which these words are added.
 * target_logits: (predictions,), written for the targets among these words.
 * logits: Written by `logits_bfloat16_tiles`, (n, n_words), natural logarithms. */
struct words {
    int64_t n, n_units, first_word, n_words;
    const float *contexts, *weights, *bias;
    const int64_t *first_targets, *targets;
    int64_t with_mean;
    struct total *totals;
    struct context_sums *sums;
    float *target_logits, *logits;
    struct scales scales;
};

/* Softmax in contexts that are rounded first: words.contexts are rows.units, and words.scales.rows are rows.scales. */
struct rounded_words {
    struct rows rows;
    struct words words;
};

enum { MOST_ROWS = 512 }; /* rows of a slice for tiles; SLICE for panels */

/* Sums of a piece of work. */
struct piece {
    ALIGNED lanes sums[MOST_ROWS];
    ALIGNED lanes means[MOST_ROWS];
    ALIGNED float bias[CHUNK]; /* in bits */
    float references[MOST_ROWS];
    const struct words *words;
    int64_t first, end;           /* rows */
    int64_t first_word, end_word; /* words of the chunk, with padding at the end */
};

#define INLINE static inline __attribute__((always_inline))

/* Compute the power of two of a fraction from 0 to 1, with a relative error of 8e-8 (minimax polynomial). */
INLINE lanes power_of_fraction(lanes fraction)
{
    lanes sum = 1.8775767e-3f - (lanes){0};
    sum = sum * fraction + 8.98933969e-3f;
    sum = sum * fraction + 5.58263175e-2f;
    sum = sum * fraction + 2.40153611e-1f;
    sum = sum * fraction + 6.93153083e-1f;
    return sum * fraction + 9.9999994e-1f;
}

#ifdef __AVX512F__
INLINE lanes power_of_2(lanes y)
{
    const lanes fraction = (lanes)_mm512_reduce_ps((__m512)y, 9); /* y - floor(y) */
    return (lanes)_mm512_scalef_ps((__m512)power_of_fraction(fraction), (__m512)y);
}
INLINE lanes larger(lanes a, lanes b) { return (lanes)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE int is_above(lanes y, float limit)
{
    return _mm512_cmp_ps_mask((__m512)y, _mm512_set1_ps(limit), _CMP_GT_OQ);
}
#else
/* If one value is not a number, return b, as AVX-512 does. */
INLINE lanes larger(lanes a, lanes b)
{
    const whole_lanes is_larger = a > b;
    return (lanes)((is_larger & (whole_lanes)a) | (~is_larger & (whole_lanes)b));
}
INLINE lanes power_of_2(lanes y)
{
    const lanes whole = (y - 0.5f) + 12582912.0f; /* See fraction_of_exp. This is floor(y). */
    const lanes scale = (lanes)(((whole_lanes)whole + 127) << 23);
    return scale * power_of_fraction(y - (whole - 12582912.0f));
}
INLINE int is_above(lanes y, float limit)
{
    const whole_lanes above = y > limit;
    int any = 0;
    for (int i = 0; i < LANES; i++)
        any |= above[i];
    return any;
}
#endif

/* Return 2^difference, for a whole number of at most 0, or 0 for a difference that is not a number. */
static inline double scale_of(double difference)
{
    union { uint64_t bits; double value; } power = {0};
    if (difference > -1000)
        power.bits = (uint64_t)(difference + 1023) << 52;
    return power.value;
}

/* Add the totals of all chunks to the sums. */
static void join_chunks(const struct words *s)
{
    EACH_OF_SHARE(row, s->n)
        for (int64_t i = row; i < (s->n_words + CHUNK - 1) / CHUNK * s->n; i += s->n) {
            struct context_sums *sum = &s->sums[row];
            const struct total added = s->totals[i];
            const double reference = sum->reference > added.reference ? sum->reference : added.reference;
            const double before = sum->reference - reference, after = added.reference - reference;
            sum->mean = scale_of(before) * (sum->mean + before * sum->sum)
                      + scale_of(after) * (added.mean + after * added.sum);
            sum->sum = scale_of(before) * sum->sum + scale_of(after) * added.sum;
            sum->reference = reference;
        }
}

/* Change the reference of a row to its largest logit. */
static __attribute__((noinline)) void change_reference(struct piece *piece, int64_t i, float largest)
{
    const float reference = __builtin_floorf(largest), difference = piece->references[i] - reference;
    const lanes scale = power_of_2(larger(SMALLEST - (lanes){0}, difference - (lanes){0}));
    piece->means[i] = scale * (piece->means[i] + difference * piece->sums[i]);
    piece->sums[i] *= scale;
    piece->references[i] = reference;
}

/* Add the exponentials of `width` vectors of products of a row, from `word`. */
INLINE void add_products(struct piece *piece, const int width, int64_t row, int64_t word, const float *products)
{
    const struct words *s = piece->words;
    const int64_t i = row - piece->first;
    const float *bias = piece->bias + word - piece->first_word;
    lanes logits[4], y[4], most;
    EACH(g, width) {
        logits[g] = *(const lanes *)(products + g * LANES) + *(const lanes *)(bias + g * LANES);
        y[g] = logits[g] - piece->references[i];
        most = g ? larger(most, y[g]) : y[0];
    }
    for (int64_t k = s->first_targets[row]; k < s->first_targets[row + 1]; k++) {
        const int64_t target = s->targets[k] - s->first_word;
        if (__builtin_expect((uint64_t)(target - word) < (uint64_t)(width * LANES), 0) && target < s->n_words)
            s->target_logits[k] = products[target - word] + bias[target - word];
    }
    if (__builtin_expect(is_above(most, MOST_ABOVE), 0)) {
        float largest = NO_WORD;
        #pragma omp simd reduction(max : largest)
        for (int j = 0; j < width * LANES; j++)
            largest = products[j] + bias[j] > largest ? products[j] + bias[j] : largest;
        change_reference(piece, i, largest);
        EACH(g, width)
            y[g] = logits[g] - piece->references[i];
    }
    EACH(g, width)
        y[g] = larger(SMALLEST - (lanes){0}, y[g]);
    lanes sum = piece->sums[i], mean = piece->means[i];
    if (s->with_mean) {
        EACH(g, width) {
            const lanes power = power_of_2(y[g]);
            sum += power;
            mean += power * y[g];
        }
        piece->means[i] = mean;
    } else {
        EACH(g, width)
            sum += power_of_2(y[g]);
    }
    piece->sums[i] = sum;
}

/* Return the number of rows per slice: `most`, or fewer where there are more threads than chunks. */
static inline int64_t rows_of_slice(const struct words *s, int64_t n_chunks, int64_t most)
{
    const int64_t n_slices = (omp_get_num_threads() + n_chunks - 1) / n_chunks;
    const int64_t n_rows = (s->n + n_slices - 1) / n_slices;
    return least(most, (n_rows + 2 * TILE - 1) / (2 * TILE) * 2 * TILE);
}

/* Start a piece of work by its number. */
static void start_piece(struct piece *piece, int64_t number, int64_t slice, int64_t n_panel)
{
    const struct words *s = piece->words;
    const int64_t n_slices = (s->n + slice - 1) / slice;
    piece->first = number % n_slices * slice;
    piece->end = least(piece->first + slice, s->n);
    piece->first_word = number / n_slices * CHUNK;
    piece->end_word = least(piece->first_word + CHUNK, (s->n_words + n_panel - 1) / n_panel * n_panel);
    for (int64_t word = piece->first_word; word < piece->end_word; word++)
        piece->bias[word - piece->first_word] = word < s->n_words ? LOG2_E * s->bias[word] : NO_WORD;
    for (int64_t i = 0; i < piece->end - piece->first; i++) {
        piece->references[i] = NO_WORD;
        piece->sums[i] = piece->means[i] = (lanes){0};
    }
}

/* Store the totals of a piece of work. */
static void finish_piece(const struct piece *piece)
{
    const struct words *s = piece->words;
    for (int64_t row = piece->first, i = 0; row < piece->end; row++, i++) {
        struct total total = {.reference = piece->references[i]};
        for (int j = 0; j < LANES; j++) {
            total.sum += piece->sums[i][j];
            total.mean += piece->means[i][j];
        }
        s->totals[piece->first_word / CHUNK * s->n + row] = total;
    }
}

#define NAMED(NAME) NAME##_float32
#define UNIT float
#include "kernels_words.h"

void probabilities_float32(const struct words *s) { add_words_float32(s); }

#ifdef __AVX2__
#define NAMED(NAME) NAME##_int16
#define UNIT int32_t
#include "kernels_words.h"

void probabilities_int16(const struct rounded_words *s)
{
    round_rows_int16(&s->rows);
    GOMP_barrier();
    add_words_int16(&s->words);
}
#endif

#ifdef TILES
TILES_INLINE void finish_products(const void *piece, struct group *group)
{
    add_products((struct piece *)piece, 2, group->row, group->output, group->sums);
    group->sums += T_PANEL;
    group->row++;
}

TILES_INLINE void store_logits(const void *work, struct group *group)
{
    const struct piece *piece = work;
    const struct words *s = piece->words;
    const float *bias = piece->bias + group->output - piece->first_word;
    float *logits = s->logits + group->row * s->n_words + group->output;
    for (int64_t i = 0; i < least(T_PANEL, s->n_words - group->output); i++)
        logits[i] = LN_2 * (group->sums[i] + bias[i]);
    group->sums += T_PANEL;
    group->row++;
}

/* Multiply all contexts with all words, and finish each row of a panel. */
TILES_INLINE void multiply_words(const struct words *s, finish_row *finish)
{
    const int64_t n_units = s->n_units, n_chunks = (s->n_words + CHUNK - 1) / CHUNK;
    const int64_t slice = rows_of_slice(s, n_chunks, MOST_ROWS);
    ALIGNED float sums[2][GROUP * T_PANEL]; /* The previous group and this one use them in turns. */
    struct between between = plan_between(least(slice, s->n), n_units, 1);
    struct piece piece = {.words = s};
    int turn = 0;
    configure_tiles(TILE);
    EACH_OF_SHARE(number, n_chunks * ((s->n + slice - 1) / slice)) {
        start_piece(&piece, number, slice, T_PANEL);
        for (int64_t word = piece.first_word; word < piece.end_word; word += T_PANEL) {
            const float *weights = s->weights + word * n_units;
            between.weights = weights + T_PANEL * n_units;
            for (int64_t row = piece.first; row < piece.end; row += GROUP, turn = !turn) {
                const int64_t size = piece.end - row > TILE ? GROUP : TILE;
                multiply_tiles(size, n_units, s->contexts + row * n_units, 1, weights, 1, sums[turn], T_PANEL, finish,
                               &piece, &between);
                between.group = (struct group){row, least(row + GROUP, piece.end), word, sums[turn]};
            }
        }
        while (between.group.row < between.group.end)
            finish(&piece, &between.group);
        if (s->totals)
            finish_piece(&piece);
    }
    _tile_release();
}

TILES void probabilities_bfloat16_tiles(const struct words *s)
{
    if (s->n == 0)
        return;
    multiply_words(s, finish_products);
    GOMP_barrier();
    join_chunks(s);
}

/* Write the logits of all words instead. */
TILES void logits_bfloat16_tiles(const struct words *s)
{
    if (s->n > 0)
        multiply_words(s, store_logits);
}
#endif

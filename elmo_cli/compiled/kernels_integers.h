/* Products of whole numbers: int8 by AVX-512 VNNI in vectors of 512 bits and by AVX-VNNI in vectors of 256, and int16 by
 * AVX-512 VNNI and by AVX2.
 *
 * Each row of the inputs is rounded: the largest value becomes 127 in int8 and 2047 in int16, and a value is a whole
 * number times the scale of its row. Weights have been rounded like this, with a scale per output. So sums of
 * products are whole numbers. Multiplied by both scales, they are values.
 *
 * int8: an instruction of VNNI adds the products of four inputs from 0 to 255 and four weights from -128 to 127. So
 * inputs are stored with 128 added, and the sums start from -128 times the sum of the weights. They are exact.
 *
 * int16: an instruction of VNNI adds two products to a sum. AVX2 takes two instructions for it. Partial sums of 2 DEPTH
 * products are exact, because 512 * 2047^2 < 2^31. They are added up in float32.
 *
 * A row with a value that is not finite has the scale NaN or infinity, so that its outputs are not finite.
 */

#include <immintrin.h>

/* Return the largest absolute value of a row, or NaN if there is one: the bits of NaN are the largest. */
static inline float largest_size(int64_t n, const float *values)
{
    union { float value; int32_t bits; } largest = {0};
    #pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        union { float value; int32_t bits; } size = {values[i]};
        size.bits &= INT32_MAX;
        largest.bits = size.bits > largest.bits ? size.bits : largest.bits;
    }
    return largest.value;
}

/* Round the value * factor to a whole number, in the last bits of the result. See fraction_of_exp. */
static inline int32_t whole_bits(float value, float factor)
{
    union { float value; int32_t bits; } whole = {__builtin_fmaf(value, factor, 12582912.0f)};
    return whole.bits;
}

#define ROUND_ROWS(NAME, WHOLE, LARGEST, ZERO)                                                    \
    static inline void round_rows_##NAME(const struct rows *s)                                    \
    {                                                                                             \
        const int64_t n_whole = s->n_units * (sizeof(float) / sizeof(WHOLE));                     \
        EACH_OF_SHARE(row, s->n) {                                                                \
            const float *restrict values = s->values + s->dim * (s->indices ? s->indices[row] : row); \
            WHOLE *restrict whole = (WHOLE *)(s->units + s->n_units * row);                       \
            float largest = largest_size(s->dim, values);                                         \
            largest = largest < 1e-30f ? 1e-30f : largest;                                        \
            const float factor = LARGEST / largest;                                               \
            _Pragma("omp simd")                                                                   \
            for (int64_t i = 0; i < s->dim; i++)                                                  \
                whole[i] = (WHOLE)(whole_bits(values[i], factor) + ZERO);                         \
            for (int64_t i = s->dim; i < n_whole; i++)                                            \
                whole[i] = ZERO;                                                                  \
            s->scales[row] = largest / LARGEST;                                                   \
        }                                                                                         \
    }

ROUND_ROWS(int8, uint8_t, 127, 128)
ROUND_ROWS(int16, int16_t, 2047, 0)

static inline lanes to_float(whole_lanes sums) { return __builtin_convertvector(sums, lanes); }

/* Multiply sums by the scales of a row and of the outputs, and add the bias. */
static inline lanes scale_sums(const struct scales *scales, const float *bias, int64_t row, int64_t output, lanes sums)
{
    const lanes scale = scales->rows[row] * load_float32(scales->outputs + output);
    lanes values = sums * scale;
    __asm__("" : IN_REGISTER(values)); /* Only some compilations would contract it with the next addition. */
    if (bias)
        values += load_float32(bias + output);
    return values;
}

#ifdef VNNI
/* Be careful with intrinsics in place of this assembly, which serves vectors of both sizes: where sums were loaded before
 * the loop and stored after it, GCC 12 compiled them to copies of the sums, one of them to the stack, for each
 * instruction. int16 ran at 110 instead of 198 GOP/s (512 to 16,384 of 256 rows, one core of a Cascade Lake). In the form
 * of kernels_product.h, GCC 12.2 compiles both to the same loop. */
static inline whole_lanes add_product_int8(whole_lanes sums, whole_lanes a, whole_lanes b)
{
    __asm__(VNNI "vpdpbusd %2, %1, %0" : IN_REGISTER(sums) : "v"(a), "v"(b));
    return sums;
}
static inline void start_int8(const struct scales *scales, const float *bias, int64_t output, float *sums)
{
    *(whole_lanes *)sums = *(const whole_lanes *)(scales->offsets + output);
}
static inline void add_sums_int8(float *sums, whole_lanes partial_sums) { *(whole_lanes *)sums += partial_sums; }
static inline void finish_int8(const struct scales *scales, const float *bias, int64_t row, int64_t output, float *sums)
{
    EACH(g, WIDTH) {
        const lanes values = to_float(*(const whole_lanes *)(sums + g * LANES));
        *(lanes *)(sums + g * LANES) = scale_sums(scales, bias, row, output + g * LANES, values);
    }
}
#define NAMED(NAME) NAME##_int8
#define TARGET
#define UNIT int32_t
#define VECTOR whole_lanes
#define VALUE float
#define STORE store_float32
#include "kernels_product.h"

void product_int8(const struct rounded_product *s)
{
    round_rows_int8(&s->rows);
    GOMP_barrier();
    each_panel(&s->product, product_panel_int8);
}
#endif

static inline whole_lanes add_product_int16(whole_lanes sums, whole_lanes a, whole_lanes b)
{
#ifdef __AVX512F__
    __asm__("vpdpwssd %2, %1, %0" : IN_REGISTER(sums) : "v"(a), "v"(b)); /* See add_product_int8. */
    return sums;
#else
    return sums + (whole_lanes)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#endif
}
static inline void start_int16(const struct scales *scales, const float *bias, int64_t output, float *sums)
{
    *(lanes *)sums = (lanes){0};
}
static inline void add_sums_int16(float *sums, whole_lanes partial_sums) { *(lanes *)sums += to_float(partial_sums); }
static inline void finish_int16(const struct scales *scales, const float *bias, int64_t row, int64_t output, float *sums)
{
    EACH(g, WIDTH) {
        const lanes values = *(const lanes *)(sums + g * LANES);
        *(lanes *)(sums + g * LANES) = scale_sums(scales, bias, row, output + g * LANES, values);
    }
}
#define NAMED(NAME) NAME##_int16
#define TARGET
#define UNIT int32_t
#define VECTOR whole_lanes
#define VALUE float
#define STORE store_float32
#include "kernels_product.h"

void product_int16(const struct rounded_product *s)
{
    round_rows_int16(&s->rows);
    GOMP_barrier();
    each_panel(&s->product, product_panel_int16);
}

/* memcpy, memmove and memset, in words of four bytes where they fit. Without no_builtin the compiler would recognise the
 * loops and call these functions from themselves. */
#include <stdint.h>
#include <string.h>

#define OURS __attribute__((no_builtin))
typedef uint32_t __attribute__((may_alias)) word;

OURS static int whole_words(uintptr_t together)
{
    return together % sizeof(word) == 0;
}

OURS void *memmove(void *to, const void *from, size_t count)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    const size_t words = whole_words((uintptr_t)to | (uintptr_t)from | count) ? count / sizeof(word) : 0;
    if (out <= in) {
        for (size_t i = 0; i < words; i++)
            ((word *)to)[i] = ((const word *)from)[i];
        for (size_t i = words * sizeof(word); i < count; i++)
            out[i] = in[i];
    } else {
        for (size_t i = count; i > words * sizeof(word); i--)
            out[i - 1] = in[i - 1];
        for (size_t i = words; i > 0; i--)
            ((word *)to)[i - 1] = ((const word *)from)[i - 1];
    }
    return to;
}

OURS void *memcpy(void *restrict to, const void *restrict from, size_t count)
{
    return memmove(to, from, count);
}

OURS void *memset(void *to, int value, size_t count)
{
    const size_t words = whole_words((uintptr_t)to | count) ? count / sizeof(word) : 0;
    for (size_t i = 0; i < words; i++)
        ((word *)to)[i] = (uint8_t)value * 0x01010101u;
    for (size_t i = words * sizeof(word); i < count; i++)
        ((uint8_t *)to)[i] = (uint8_t)value;
    return to;
}

/* Streams a recording hop by hop, as it would come from a microphone. Prints one line for each of these:
 *
 *     loop     rounds of a loop of two instructions, and the instructions that it took
 *     stream   bytes of memory that the stream needs
 *     hop      instructions that 160 samples took
 *     scores   the window's last frame, then the scores of all classes, as the bits of their floats
 *     hit      label, start and end in milliseconds
 *     stack    largest stack in bytes
 *     test     1 if the self-test that was exported with the model passes
 *
 * make mcu writes recording.h, which has the recording and the name of the model.
 */
#include <string.h>

#include "board.h"
#include "circlematch.h"
#include "recording.h"
#include "shared/numbers.h"

static uint8_t stream_memory[STREAM_BYTES];

static void print_number(uint32_t value)
{
    char digits[12];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    digits[--at] = ' ';
    board_print(digits + at);
}

static void print_line(const char *name, uint32_t value)
{
    board_print(name);
    print_number(value);
    board_print("\n");
}

/* Instructions that reading the clock takes. */
static uint32_t clock_cost(void)
{
    const uint32_t before = board_clock(), after = board_clock();
    return board_instructions(before, after);
}

static void check_the_count(void)
{
    static const uint32_t rounds[] = { 1, 2, 1001, 1000001 };
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        const uint32_t before = board_clock();
        board_loop(rounds[i]);
        const uint32_t after = board_clock();
        board_print("loop");
        print_number(rounds[i]);
        print_number(board_instructions(before, after) - clock_cost());
        board_print("\n");
    }
}

static void print_hits(const cm_model *model, cm_stream *stream)
{
    for (cm_hit hit; cm_next_hit(stream, &hit);) {
        board_print("hit ");
        board_print(cm_label(model, hit.label));
        print_number((uint32_t)hit.start_ms);
        print_number((uint32_t)hit.end_ms);
        board_print("\n");
    }
}

/* Prints the scores of the newest window, unless they were printed before. */
static void print_scores(const cm_model *model, const cm_stream *stream, int64_t *printed)
{
    static float scores[CLASSES];
    const int64_t frame = cm_scores(stream, scores, NULL);
    if (frame == *printed)
        return;
    *printed = frame;
    board_print("scores");
    print_number((uint32_t)frame);
    for (int32_t k = 0; k < model->classes; k++) {
        uint32_t bits;
        memcpy(&bits, &scores[k], sizeof bits);
        print_number(bits);
    }
    board_print("\n");
}

int main(void)
{
    cm_model model;
    cm_stream *stream;
    int64_t printed = -1;
    check_the_count();
    if (cm_model_open(&model, MODEL, sizeof MODEL) != CM_OK || model.classes != CLASSES)
        return 1;
    print_line("stream", (uint32_t)cm_stream_size(&model));
    if (cm_stream_open(&stream, &model, stream_memory, sizeof stream_memory, NULL) != CM_OK)
        return 2;
    const uint32_t reading = clock_cost();
    for (size_t at = 0; at < sizeof recording / sizeof *recording; at += CM_HOP) {
        const uint32_t before = board_clock();
        cm_push_i16(stream, recording + at, CM_HOP);
        const uint32_t after = board_clock();
        print_line("hop", board_instructions(before, after) - reading);
        print_scores(&model, stream, &printed);
        print_hits(&model, stream);
    }
    while (cm_finish(stream)) {
        print_scores(&model, stream, &printed);
        print_hits(&model, stream);
    }
    print_hits(&model, stream);
    print_line("stack", board_stack_used());
    print_line("test", (uint32_t)SELF_TEST(stream));
    return 0;
}

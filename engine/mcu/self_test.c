/* Does this board compute what the model's maker did? Ends with 0 where it does. Another model has other names here. */
#include "board.h"
#include "circlematch.h"
#include "cm_d16_gsc1.h"

static uint8_t memory[20000]; /* cm_stream_size says how much; this is for D16, 12 classes, with CM_COMPACT */

int main(void)
{
    static cm_model model;
    cm_stream *stream;
    if (cm_model_open(&model, cm_d16_gsc1, sizeof cm_d16_gsc1) != CM_OK
        || cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK) {
        board_print("the model could not be opened\n");
        return 1;
    }
    const int passed = cm_d16_gsc1_self_test(stream);
    board_print(passed ? "self-test passed\n" : "self-test failed\n");
    return passed ? 0 : 2;
}

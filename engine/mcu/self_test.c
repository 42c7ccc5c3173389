/* Runs the self-test of an exported model on a board. The program ends with 0 if it passes. For any exported model, add
 *     -include cm_d16_gsc.h -DMODEL=cm_d16_gsc */
#include "board.h"
#include "circlematch.h"

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)

#ifndef MEMORY
#define MEMORY 65536 /* bytes for the stream, enough for D32 and forty classes; cm_stream_size gives the exact number */
#endif

static uint8_t memory[MEMORY];

int main(void)
{
    static cm_model model;
    cm_stream *stream;
    if (cm_model_open(&model, MODEL, sizeof MODEL) != CM_OK
        || cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK) {
        board_print("the model could not be opened\n");
        return 1;
    }
    const int passed = JOINED(MODEL, _self_test)(stream);
    board_print(passed ? "self-test passed\n" : "self-test failed\n");
    return passed ? 0 : 2;
}

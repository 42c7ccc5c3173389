/* Arduino's library PDM with a recording. The loop plays the interrupt's part too. */
#pragma once
#include "Arduino.h"

struct PDMClass {
    void onReceive(void (*call)()) { interrupt = call; }
    int begin(int channels, int rate) { return channels == 1 && rate == 16000; }
    int available() { return 512; }
    int read(void *buffer, size_t bytes) { return (int)(2 * hear((int16_t *)buffer, bytes / 2)); }
    void (*interrupt)();
};
static PDMClass PDM;
#define BEFORE_LOOP PDM.interrupt()

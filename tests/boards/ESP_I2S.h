/* The ESP32 core's I2S class with a recording, in the upper bits of 32 and eight times quieter, as microphones give it. */
#pragma once
#include "Arduino.h"

enum { I2S_MODE_STD, I2S_DATA_BIT_WIDTH_32BIT, I2S_SLOT_MODE_MONO, I2S_STD_SLOT_LEFT };

struct I2SClass {
    void setPins(int8_t, int8_t, int8_t, int8_t = -1, int8_t = -1) {}
    bool begin(int, uint32_t rate, int, int, int8_t) { return rate == 16000; }
    size_t readBytes(char *buffer, size_t bytes)
    {
        int16_t samples[1000];
        const size_t count = hear(samples, bytes / 4);
        for (size_t i = 0; i < count; i++)
            ((int32_t *)buffer)[i] = (int32_t)samples[i] * 8192;
        return 4 * count;
    }
};

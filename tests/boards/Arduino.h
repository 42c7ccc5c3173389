/* As much of Arduino's interface as the example sketches use, on a computer: sound comes from a file. */
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

using std::min;

template <class Number> Number constrain(Number value, Number least, Number most)
{
    return value < least ? least : value > most ? most : value;
}

struct SerialPort {
    void begin(long) {}
    void print(const char *text) { std::printf("%s", text); }
    void print(char letter) { std::putchar(letter); }
    void println(const char *text) { std::printf("%s\n", text); }
    void println(double number) { std::printf("%.2f\n", number); }
};
static SerialPort Serial;

static void delay(int) { std::exit(3); }  // only a failed start waits

/* The recording; the program ends when it has been heard. */
static size_t hear(int16_t *samples, size_t count)
{
    static FILE *file = std::fopen("sound", "rb");
    const size_t heard = file ? std::fread(samples, sizeof *samples, count, file) : 0;
    if (!heard)
        std::exit(0);
    return heard;
}

void setup();
void loop();

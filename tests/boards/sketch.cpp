/* Runs a sketch on a computer. */
#include "Arduino.h"
#include SKETCH

#ifndef BEFORE_LOOP
#define BEFORE_LOOP ((void)0)
#endif

int main()
{
    setup();
    for (;;) {
        BEFORE_LOOP;
        loop();
    }
}

/* The functions of a board. mps2.c implements them for QEMU's Cortex-M boards, host.c for a desktop computer. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void board_print(const char *text);

/* Ends the program. Code 0 means success. */
void board_leave(uint32_t code);

/* A clock, and the number of instructions between two readings, one reading included; 0 if they are not counted. */
uint32_t board_clock(void);
uint32_t board_instructions(uint32_t before, uint32_t after);

/* Runs a loop of two instructions `rounds` times, at least once, to check the count. */
void board_loop(uint32_t rounds);

/* Largest stack in bytes since the start; 0 if it is not known. */
uint32_t board_stack_used(void);

#endif

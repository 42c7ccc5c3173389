/* What the self-test needs of a board. mps2.c has it for QEMU's Cortex-M boards, host.c for this computer. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void board_print(const char *text);

/* Ends the program, with 0 where all went well. */
void board_leave(uint32_t code);

/* A clock, and the instructions between two of its readings, one reading included; 0 where they are not counted. */
uint32_t board_clock(void);
uint32_t board_instructions(uint32_t before, uint32_t after);

/* A loop of two instructions, `rounds` times, at least once: what the count is checked with. */
void board_loop(uint32_t rounds);

/* Most bytes of stack in use since the start; 0 where this is not known. */
uint32_t board_stack_used(void);

#endif
